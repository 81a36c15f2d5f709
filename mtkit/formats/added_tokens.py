"""Special and added tokens as transformers and tokenizers name, number and spell them.

Source: huggingface/tokenizers 0.23, tokenizer/added_vocabulary.rs (``add_tokens``: the id in a file
is not used); huggingface/transformers 5, tokenization_utils_base.py.
"""

from __future__ import annotations

from mtkit.spec import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from mtkit.spec import AddedToken

CONFIG = "tokenizer_config.json"
SPECIAL = "special_tokens_map.json"
ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def numbered(
    tokens: Iterable[AddedToken], ids: Mapping[bytes, int], following: int
) -> tuple[dict[int, AddedToken], dict[bytes, int]]:
    """Give added tokens the ids of the vocabulary or the next free ones.

    Of one text the last entry counts. Where a vocabulary has holes, a free id can be that of
    another token, which takes its place.

    Args:
        tokens: In the order of their files.
        ids: The vocabulary, at least for these texts.
        following: The first free id: the number of tokens.

    Returns:
        The tokens by id, in the order in which ids came up, and the number that each text got.
    """
    numbers: dict[bytes, int] = {}
    found: dict[int, AddedToken] = {}
    special = set()
    for token in tokens:
        content = token.content
        if not content:
            continue
        if content not in numbers:
            numbers[content] = ids.get(content, following)
            following += content not in ids
        if token.special:
            special.add(content)  # what was special once stays so
        number = numbers[content]
        found[number] = replace(token, id=number, special=content in special)
    return found, numbers


def token_form(token: AddedToken) -> dict[str, Any]:
    """Return an added token as JSON, without its id."""
    content = token.content.decode("utf-8", "replace")
    return {"content": content, **{flag: getattr(token, flag) for flag in FLAGS}}
