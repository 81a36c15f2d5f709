"""What is wrong with the tokenizer's keys of a GGUF: one rule a row.

``PARTS`` are what the reader itself refuses, a part of the vocabulary each; ``KEYS`` what it reads
in some way, while llama.cpp ends, or one of the two takes something else than the file says.
Source: llama-vocab.cpp of llama.cpp.
"""

from __future__ import annotations

from mtkit.base.escape import quoted
from mtkit.base.packed import Pieces
from mtkit.base.rules import Rule
from mtkit.checks.report import survey
from mtkit.formats.gguf.metadata import ID_KEYS
from mtkit.formats.gguf.reader import ASIDE, PREFIX
from mtkit.formats.gguf.stages import CHARSMAP
from mtkit.gguf.rules import LLAMA_CPP
from mtkit.gguf.types import I32, STRING, U32
from mtkit.spec import TokenType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.checks.report import Place
    from mtkit.formats.gguf.metadata import Keys
    from mtkit.gguf import GgufArray
    from mtkit.gguf.types import ValueType

_TOKENS, _SCORES, _TYPES, _MERGES = (
    f"{PREFIX}{name}" for name in ("tokens", "scores", "token_type", "merges")
)
_ROLES = frozenset(range(7))
_NOT_INSIDE = bytes({*range(256)} - {*range(0x80, 0xC0)})
"""Bytes that do not stand inside a character of UTF-8."""
PARTS = {
    # llama.cpp takes a template that is no string for none.
    part: Rule(f"gguf-{part}", "warning" if part == ASIDE else "error", LLAMA_CPP, field, text)
    for part, field, text in (
        ("architecture", "general.architecture",
         "general.architecture is missing or not a string; the tokenizer's rules depend on it."),
        ("name", "general.name", "general.name is not a string."),
        ("tokenizer-model", f"{PREFIX}model",
         "tokenizer.ggml.model is missing or not one of llama.cpp's tokenizer types."),
        ("pre-tokenizer", f"{PREFIX}pre",
         ("tokenizer.ggml.pre is not one of llama.cpp's pre-tokenizers. A newer llama.cpp may "
          "know it, or the converter made up a name.")),
        ("tokens", _TOKENS, "tokenizer.ggml.tokens is not an array of strings, or is empty."),
        ("token-types", _TYPES,
         "tokenizer.ggml.token_type does not have an i32 for every token."),
        ("scores", _SCORES, "tokenizer.ggml.scores does not have an f32 for every token."),
        ("charsmap", CHARSMAP,
         ("The normalization table (precompiled_charsmap) is damaged: its trie points outside "
          "itself.")),
        ("special-ids", f"{PREFIX}bos_token_id",
         "The id of a special token, such as tokenizer.ggml.bos_token_id, is not a u32."),
        ("added-ends", f"{PREFIX}add_bos_token",
         "A flag such as tokenizer.ggml.add_bos_token is not a bool."),
        (ASIDE, "tokenizer.chat_template",
         "tokenizer.chat_template is not a string; llama.cpp ignores it."),
        ("vocabulary", _TOKENS,
         ("The parts of the vocabulary do not fit together; llama.cpp refuses the file or "
          "aborts.")),
    )
}  # fmt: skip
"""Part, as ``formats.gguf.reader.read_parts`` names it -> rule."""


def _array(keys: Keys, key: str, *elements: ValueType) -> GgufArray | None:
    entry = keys.file.metadata.entries.get(key)
    if entry is None or entry.type.name != "array" or entry.value.element not in elements:
        return None
    array: GgufArray = entry.value
    return array


def _texts(keys: Keys, key: str) -> Pieces:
    array = _array(keys, key, STRING)
    return Pieces.of(()) if array is None else array.pieces()


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _all_utf8(texts: Pieces) -> bool:
    """Tell whether the texts are, asking all at once: none may begin inside a character."""
    blob = texts.blob.tobytes()
    starts = bytes(map((blob + b"\0").__getitem__, texts.ends.view))
    return _is_utf8(blob) and not starts.translate(None, _NOT_INSIDE)


def _at(keys: Keys, key: str) -> int:
    return keys.file.metadata.entries[key].value_offset


def _token_nul(keys: Keys) -> Iterator[Place]:
    texts = _texts(keys, _TOKENS)
    if b"\0" not in texts.blob.tobytes():
        return
    for number, raw in enumerate(texts):
        if b"\0" in raw:
            yield _TOKENS, f"token {number} has a NUL byte, where llama.cpp ends it", None


def _token_text(keys: Keys) -> Iterator[Place]:
    tokens = _array(keys, _TOKENS, STRING)
    if tokens is None or _is_utf8(tokens.raw_bytes()):  # lengths among them are ASCII below 128
        return
    texts = tokens.pieces()
    if _all_utf8(texts):
        return
    for number, raw in enumerate(texts):
        if not raw.isascii():
            try:
                raw.decode()
            except UnicodeDecodeError:
                what = f"token {number}, {quoted(raw.decode('latin-1'))}, is not valid UTF-8"
                yield _TOKENS, what, None


def _too_many(keys: Keys, key: str) -> Iterator[Place]:
    tokens, column = _array(keys, _TOKENS, STRING), keys.file.metadata.get(key)
    if tokens and not isinstance(column, (int, float, str, type(None))):
        count = len(column)
        if count > len(tokens):
            yield key, f"has {count} elements for {len(tokens)} tokens", _at(keys, key)


def _scores_count(keys: Keys) -> Iterator[Place]:
    yield from _too_many(keys, _SCORES)


def _types_count(keys: Keys) -> Iterator[Place]:
    yield from _too_many(keys, _TYPES)


def _scores_type(keys: Keys) -> Iterator[Place]:
    if _array(keys, _SCORES, I32):
        yield _SCORES, "is an array of i32, not f32", _at(keys, _SCORES)


def _types_known(keys: Keys) -> Iterator[Place]:
    types = _array(keys, _TYPES, I32, U32)
    if types and {*types.numbers()} <= _ROLES:
        return
    for number, role in enumerate(types.numbers() if types else ()):
        if role not in _ROLES:
            yield _TYPES, f"token {number} has type {role}, not in the range 0 to 6", None


def _id_range(keys: Keys) -> Iterator[Place]:
    tokens = _array(keys, _TOKENS, STRING)
    for name in ID_KEYS.values():
        number = keys.file.metadata.get(PREFIX + name)
        if tokens and type(number) is int and not 0 <= number < len(tokens):
            what = f"is {number}, but there are {len(tokens)} tokens: llama.cpp takes its default"
            yield PREFIX + name, what, _at(keys, PREFIX + name)


def _id_unknown(keys: Keys) -> Iterator[Place]:
    types, tokens = _array(keys, _TYPES, I32, U32), _texts(keys, _TOKENS)
    for role in ("bos", "eos"):
        key = PREFIX + ID_KEYS[role]
        number = keys.file.metadata.get(key)
        inside = types and type(number) is int and 0 <= number < min(len(types), len(tokens))
        if types and inside and types.numbers()[number] == TokenType.UNKNOWN:
            text = quoted(tokens[number].decode("utf-8", "replace"))
            yield key, f"is {number}, which is {text}, the unknown token", _at(keys, key)


def _merge_form(keys: Keys) -> Iterator[Place]:
    for number, raw in enumerate(_texts(keys, _MERGES)):
        if raw.count(b" ", 1) != 1:
            what = f"merge {number}, {quoted(raw.decode('utf-8', 'surrogateescape'))}, "
            yield _MERGES, f"{what}is not two parts with a space between", None


def _pre_named(keys: Keys) -> Iterator[Place]:
    if keys.file.metadata.get(f"{PREFIX}model") == "gpt2" and not keys.file.metadata.get(
        f"{PREFIX}pre"
    ):
        what = "is missing: llama.cpp takes a default that is not the pattern of any known model"
        yield f"{PREFIX}pre", what, None


KEYS = (
    survey("gguf-token-nul", "warning", LLAMA_CPP, _TOKENS,
           "A token contains a NUL byte: llama.cpp cuts it off there.", _token_nul),
    survey("gguf-token-text", "warning", LLAMA_CPP, _TOKENS,
           "A token is not valid UTF-8. Bytes have to be spelled in the byte-level alphabet or "
           "as <0xHH>.", _token_text),
    survey("gguf-scores-count", "warning", LLAMA_CPP, _SCORES,
           "There are more scores than tokens; llama.cpp ignores the extra ones.", _scores_count),
    survey("gguf-types-count", "warning", LLAMA_CPP, _TYPES,
           "There are more token types than tokens; llama.cpp ignores the extra ones.",
           _types_count),
    survey("gguf-scores-type", "warning", LLAMA_CPP, _SCORES,
           "The scores are i32, not f32; older versions of llama.cpp misread them.", _scores_type),
    survey("gguf-types-known", "warning", LLAMA_CPP, _TYPES,
           "A token type is not in 0 to 6; llama.cpp treats it as undefined.", _types_known),
    survey("gguf-id-range", "warning", LLAMA_CPP, "special ids",
           "The id of a special token is not in the vocabulary; llama.cpp silently drops it.",
           _id_range),
    survey("gguf-id-unknown", "warning", LLAMA_CPP, "special ids",
           "BOS or EOS is the unknown token: the tokens are in another order than the model has "
           "them, such as XLM-RoBERTa's in that of its SentencePiece model. Every text gets "
           "wrong ids: convert the model again.", _id_unknown),
    survey("gguf-pre-missing", "warning", LLAMA_CPP, f"{PREFIX}pre",
           "A BPE vocabulary does not name its pre-tokenizer. With the wrong one, ids differ "
           "from those the model was trained on: convert the model again.", _pre_named),
)  # fmt: skip
MERGES = (
    survey("gguf-merge-form", "warning", LLAMA_CPP, _MERGES,
           "A merge is not two parts separated by a space; llama.cpp drops it.", _merge_form),
)  # fmt: skip
"""For the keys of a tokenizer that is checked as a whole."""
