"""What llama.cpp takes for granted about each ``tokenizer.ggml.model``.

Source: llama.cpp, src/llama-vocab.cpp (``llama_vocab::impl::load``).
"""

from __future__ import annotations

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from mtkit.formats.gguf.pre_tokenizers import Pre

    Family = Literal["spm", "bpe", "wpm", "ugm", "rwkv", "plamo2"]


class Kind(Record):
    """Defaults of one model.

    Attributes:
        model: Value of ``tokenizer.ggml.model``.
        family: Which tokenizer runs it.
        ids: Role -> id when no key says otherwise; one past the vocabulary does not count.
        add_bos: Whether BOS is put in front when the file does not say; the same for the others.
        add_space_prefix: Whether a text begins with a space when the file does not say.
        scored: Whether scores mean anything.
        clean_spaces: Decoding takes spaces in front of punctuation away.
    """

    model: str
    family: Family
    ids: tuple[tuple[str, int], ...] = ()
    add_bos: bool = False
    add_eos: bool = False
    add_sep: bool = False
    add_space_prefix: bool = False
    scored: bool = False
    clean_spaces: bool = False


_GPT2_IDS = (("bos", 11), ("eos", 11))

KINDS = {
    kind.model: kind
    for kind in (
        Kind(
            "llama",
            "spm",
            (("bos", 1), ("eos", 2), ("unk", 0)),
            add_bos=True,
            add_space_prefix=True,
            scored=True,
        ),
        Kind(
            "bert",
            "wpm",
            (("bos", 101), ("unk", 100), ("sep", 102), ("pad", 0), ("mask", 103)),
            add_bos=True,
            add_sep=True,
            clean_spaces=True,
        ),
        Kind("gpt2", "bpe", _GPT2_IDS, clean_spaces=True),
        Kind("hybriddna", "bpe", _GPT2_IDS, clean_spaces=True),
        Kind("whitespace", "bpe", _GPT2_IDS, clean_spaces=True),
        Kind("gemma4", "bpe", clean_spaces=True),
        Kind("t5", "ugm", (("eos", 1), ("unk", 2), ("pad", 0)), add_eos=True, scored=True),
        Kind("rwkv", "rwkv"),
        Kind(
            "plamo2",
            "plamo2",
            (("bos", 1), ("eos", 2), ("unk", 0), ("pad", 3)),
            scored=True,
        ),
    )
}
"""Name -> what it means."""


def default_ids(kind: Kind, pre: Pre | None, size: int) -> dict[str, int]:
    """Return role -> id that llama.cpp takes where no key says one.

    That is a habit of the program and says nothing about the vocabulary: id 11 of most byte-pair
    vocabularies is a comma.
    """
    found = {role: number for role, number in kind.ids if number < size}
    if pre is not None and not pre.default_bos:
        found.pop("bos", None)
    return found


NO_VOCABULARY = frozenset({"none", "no_vocab"})

STAND_IN = "test"
"""llama.cpp's model for its own tests: ids are checksums of five bytes each."""

ID_KEYS = {
    "bos": "bos_token_id",
    "eos": "eos_token_id",
    "eot": "eot_token_id",
    "eom": "eom_token_id",
    "unk": "unknown_token_id",
    "sep": "seperator_token_id",
    "pad": "padding_token_id",
    "cls": "cls_token_id",
    "mask": "mask_token_id",
    "fim_pre": "fim_pre_token_id",
    "fim_suf": "fim_suf_token_id",
    "fim_mid": "fim_mid_token_id",
    "fim_pad": "fim_pad_token_id",
    "fim_rep": "fim_rep_token_id",
    "fim_sep": "fim_sep_token_id",
}
"""Role -> key behind ``tokenizer.ggml.``; the misspelling is the format's."""

OLD_ID_KEYS = {
    "fim_pre": "prefix_token_id",
    "fim_suf": "suffix_token_id",
    "fim_mid": "middle_token_id",
}
"""Read last, so they win."""
