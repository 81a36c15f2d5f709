"""Roles of tokens as llama.cpp finds them: attributes, special ids by text, end of generation.

``resolve`` follows ``llama_vocab::impl::load`` step by step. Where that walks over a hash table to
find the one token with a role (``EOT``, ``FIM_*``), the first text of the list below that is a
token is taken here; docs/formats/gguf-vocabulary.md says what that can change.

Source: llama.cpp, src/llama-vocab.cpp.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.formats.gguf.std_sort import sorted_as_cpp
from mtkit.spec.vocabulary import TokenType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UNKNOWN, UNUSED, NORMAL, CONTROL, USER_DEFINED, BYTE = 1, 2, 4, 8, 16, 32
LSTRIP, RSTRIP = 128, 256
"""Bits of an attribute; llama.cpp has two more that it never sets."""

BITS_OF = bytes((0, NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE)).ljust(256, b"\0")
"""``TokenType`` -> bit; UNDEFINED has none."""

ROLES = {
    "eot": (
        "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
        "<EOT>", "_<EOT>", "[EOT]", "<\uff5cend\u2581of\u2581sentence\uff5c>",
        "<end_of_utterance>",
    ),
    "eom": ("<|eom_id|>",),
    "fim_pre": (
        "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<\uff5cfim\u2581begin\uff5c>", "<PRE>",
        "\u2581<PRE>", "<|code_prefix|>", "<|prefix|>",
    ),
    "fim_suf": (
        "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<\uff5cfim\u2581hole\uff5c>", "<SUF>",
        "\u2581<SUF>", "<|code_suffix|>", "<|suffix|>",
    ),
    "fim_mid": (
        "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<\uff5cfim\u2581end\uff5c>", "<MID>",
        "\u2581<MID>", "<|code_middle|>", "<|middle|>",
    ),
    "fim_pad": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    "fim_rep": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "fim_sep": ("<|file_sep|>",),
}  # fmt: skip
"""Role -> texts that give it to a token when no key does, in the order of preference."""

END_TEXTS = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>", "[e~[",
)  # fmt: skip
"""Texts that end a generation wherever they are a token."""

FRAME_TEXTS = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")
"""Texts that are always shown."""


class Roles(Record):
    """What llama.cpp makes of a vocabulary.

    Attributes:
        attributes: Bits by id.
        ids: Role -> id, for the roles that are set, whatever set them.
        stop: Ids that end a generation, ascending.
        stated: The part of ``ids`` that the file states, by a key or by the text of a token.
        stated_stop: The part of ``stop`` that follows from what the file states.
        special: Ids that are cut out of a text before it is encoded, in that order.
    """

    attributes: list[int]
    ids: dict[str, int]
    stop: tuple[int, ...]
    stated: dict[str, int]
    stated_stop: tuple[int, ...]
    special: list[int]


def resolve(
    types: bytes,
    texts: Sequence[bytes],
    by_text: Mapping[bytes, int],
    ids: dict[str, int],
    defaults: Mapping[str, int],
    *,
    pre: str,
    architecture: str,
    name: str,
) -> Roles:
    """Find the roles of all tokens.

    Args:
        types: ``TokenType`` by id, as in the file.
        texts: Text by id, as in the file.
        by_text: Text -> id.
        ids: Role -> id as the keys have them.
        defaults: Role -> id that counts where no key says another.
        pre: Name of the pre-tokenizer.
        architecture: Of the model.
        name: Of the model, ``general.name``.
    """
    found = {**defaults, **ids}
    bits = list(types.translate(BITS_OF))
    for role, names in ROLES.items():
        if role in found:
            continue
        for text in names:
            token = by_text.get(text.encode())
            if token is not None:
                found[role] = token
                bits[token] |= CONTROL
                break
    for token, number in enumerate(bits):
        if number & CONTROL and b"unused" in texts[token]:
            bits[token] |= UNUSED
    ends = _ends(found, bits, by_text)
    stated = {role: token for role, token in found.items() if role in ids or role not in defaults}
    stated_ends = ends if stated == found else _ends(stated, list(bits), by_text)
    special = [
        token for token, number in enumerate(bits) if number & (CONTROL | USER_DEFINED | UNKNOWN)
    ]
    special = sorted_as_cpp(special, lambda token: -len(texts[token]))
    _strips(bits, special, by_text, pre, architecture, name.lower())
    stop, stated_stop = tuple(sorted(ends)), tuple(sorted(stated_ends))
    return Roles(bits, found, stop, stated, stated_stop, special)


def settled_types(types: bytes, roles: Roles) -> bytes:
    """Return the types with those that the rules replace, whatever the file says."""
    settled = bytearray(types)
    shown = {USER_DEFINED: TokenType.USER_DEFINED, NORMAL: TokenType.NORMAL}
    for token, number in enumerate(roles.attributes):
        own = BITS_OF[types[token]]
        if number != own and number & own != own:
            settled[token] = shown[number]
    return bytes(settled)


def _ends(ids: dict[str, int], bits: list[int], by_text: Mapping[bytes, int]) -> set[int]:
    """Collect the tokens that end a generation and mark them."""
    ends = {ids[role] for role in ("fim_pad", "fim_rep", "fim_sep") if role in ids}
    named = {
        text: by_text.get(text.encode()) for text in (*END_TEXTS, *FRAME_TEXTS, "<|plamo:eos|>")
    }
    for text in END_TEXTS:
        token = named[text]
        if token is not None:
            ends.add(token)
            bits[token] |= CONTROL
    for text in FRAME_TEXTS:
        token = named[text]
        if token is not None:
            bits[token] = USER_DEFINED
    ends |= {ids[role] for role in ("eos", "eot", "eom") if role in ids}

    def has(text: str) -> bool:
        return named[text] in ends

    # The end of a message does not end a generation where a call or the final answer has its own.
    calls = has("<|call|>") or has("<|calls|>")
    end = named["<|end|>"]
    if end in ends and calls and (has("<|return|>") or has("<|flush|>")):
        ends.discard(end)
        bits[end] = USER_DEFINED
    close = named["</s>"]
    if close in ends and (has("<|tool_response>") or has("<|plamo:eos|>")):
        ends.discard(close)
        bits[close] = NORMAL
    return ends


def _strips(
    bits: list[int],
    special: list[int],
    by_text: Mapping[bytes, int],
    pre: str,
    architecture: str,
    name: str,
) -> None:
    """Mark the tokens that take white space with them: by name, as the model's makers wanted it."""
    jina = ("jina-v2-de", "jina-v2-es", "jina-v2-code")
    if any(part in pre for part in jina) or any(
        part in architecture for part in ("nomic-bert-moe", "jina-bert-v3")
    ):
        mask = by_text.get(b"<mask>")
        if mask is not None:
            bits[mask] |= LSTRIP
    elif "phi-3" in name or "phi3" in name:
        for token in special:
            bits[token] |= RSTRIP
        for text in (b"</s>", b"<unk>", b"<s>", b"<|endoftext|>"):
            token_id = by_text.get(text)
            if token_id is not None:
                bits[token_id] &= ~RSTRIP
                if text == b"</s>":
                    bits[token_id] |= RSTRIP
    elif "modern-bert" in name:
        mask = by_text.get(b"[MASK]")
        if mask is not None:
            bits[mask] |= LSTRIP
