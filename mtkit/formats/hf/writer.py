"""Writing a specification as tokenizer.json, tokenizer_config.json and generation_config.json.

The small sections are written as the library writes them (indented by two blanks), vocabulary and
merges one entry a line. A section that was read in another form with the same meaning is written in
that form again (``extras``).
"""

from __future__ import annotations

from mtkit.errors import MtkitError, UnsupportedError
from mtkit.formats.contract import Written
from mtkit.formats.hf.adaptation import adapt_spec
from mtkit.formats.hf.components import read_stage, section_forms
from mtkit.formats.hf.config import config_forms
from mtkit.formats.hf.reader import read_added_tokens, read_padding, read_truncation
from mtkit.formats.json_fields import Fields, format_value
from mtkit.formats.tokenizer_config import SPECIAL
from mtkit.spec import TokenType
from mtkit.spec.models import BPE, Unigram

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from mtkit.spec import TokenizerSpec

MAIN = "tokenizer.json"


def write_spec(spec: TokenizerSpec) -> Written:
    """Write the files."""
    adapted = adapt_spec(spec)
    spec = adapted.spec
    files = {MAIN: _main(spec, adapted.scores)}
    extras = dict(spec.extras)
    for name, document in config_forms(spec).items():
        extra = extras.get(name)
        merged = {**document, **extra} if isinstance(extra, dict) else document
        if merged:
            files[name] = _document(merged)
    extra = extras.get(SPECIAL)
    if isinstance(extra, dict):
        files[SPECIAL] = _document(extra)
    return Written(files, adapted.losses)


def _document(value: dict[str, Any]) -> bytes:
    import json

    return _json_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def _json_text(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        around = text[max(error.start - 20, 0) : error.end + 20]
        raise UnsupportedError(f"{format_value(around)} is not UTF-8, as JSON is") from None


def _main(spec: TokenizerSpec, scores: list[str]) -> bytes:
    """Write tokenizer.json."""
    import json

    extra = dict(spec.extras).get(MAIN)
    rest: dict[str, Any] = dict(extra) if isinstance(extra, dict) else {}
    sections = section_forms(spec)
    for key, form in sections.items():
        if key != "model" and key in rest and _says_the_same(key, rest[key], spec):
            sections[key] = rest[key]
        elif key == "model":
            sections[key] = _model_fields(form, rest.get("model"), spec)
    for key, value in rest.items():
        sections.setdefault(key, value)
    merges_as_text = sections["model"].pop("merges", None) == "text"
    lines = ["{", '  "version": "1.0",']
    for key, value in sections.items():
        if key != "model":
            text = json.dumps(value, ensure_ascii=False, indent=2).replace("\n", "\n  ")
            lines.append(f"  {json.dumps(key, ensure_ascii=False)}: {text},")
    lines.append('  "model": {')
    for key, value in sections["model"].items():
        text = json.dumps(value, ensure_ascii=False, indent=2).replace("\n", "\n    ")
        lines.append(f"    {json.dumps(key, ensure_ascii=False)}: {text},")
    lines.extend(_vocabulary(spec, scores, as_text=merges_as_text))
    lines.extend(["  }", "}", ""])
    return _json_text("\n".join(lines))


def _says_the_same(key: str, value: Any, spec: TokenizerSpec) -> bool:
    """Tell whether a section of the extras still reads as the specification has it."""
    root = Fields({key: value}, "")
    readers: dict[str, Callable[[], object]] = {
        "truncation": lambda: read_truncation(root) == spec.truncation,
        "padding": lambda: read_padding(root) == spec.padding,
        "added_tokens": lambda: read_added_tokens(root, spec.vocabulary) == spec.added_tokens,
    }
    try:
        if key in readers:
            return bool(readers[key]())
        return bool(read_stage(root, key) == getattr(spec, key))
    except MtkitError:
        return False


def _model_fields(form: dict[str, Any], stored: Any, spec: TokenizerSpec) -> dict[str, Any]:
    """Return a model's small fields, in the stored spelling where it means the same.

    An empty text is none, a missing ``type`` is recognized, and an unknown token that is not in the
    vocabulary is none, too.
    """
    if not isinstance(stored, dict):
        return form
    if stored.get("type", form["type"]) != form["type"]:
        return form
    merged = dict(form)
    for key, value in stored.items():
        if key == "unk_token":
            keep = getattr(spec.model, "unk", None) is None
        else:
            keep = key not in form or (not form[key] and not value)
        if keep:
            merged[key] = value
    empty = (None, False, "")
    return {k: v for k, v in merged.items() if k in stored or (k != "type" and v not in empty)}


def _vocabulary(spec: TokenizerSpec, scores: list[str], *, as_text: bool) -> Iterator[str]:
    """Yield the lines of the vocabulary and, for BPE, of the merges."""
    from json.encoder import encode_basestring as quoted

    vocabulary = spec.vocabulary
    try:
        pieces = [quoted(piece.decode("utf-8")) for piece in vocabulary.pieces]
    except UnicodeDecodeError as error:
        raise UnsupportedError(f"the piece {error.object!r} is not UTF-8") from None
    if isinstance(spec.model, Unigram):
        yield '    "vocab": ['
        yield ",\n".join([f"      [{p}, {s}]" for p, s in zip(pieces, scores, strict=True)])
        yield "    ]"
        return
    absent = TokenType.ABSENT
    types = vocabulary.types.view.tolist() if vocabulary.types is not None else None
    ids: dict[str, int] = {}
    for number, piece in enumerate(pieces):
        if types is None or types[number] != absent:
            ids.setdefault(piece, number)
    ids.update((quoted(other.piece.decode("utf-8")), other.id) for other in vocabulary.also)
    yield '    "vocab": {'
    yield ",\n".join([f"      {piece}: {number}" for piece, number in ids.items()])
    if not isinstance(spec.model, BPE):
        yield "    }"
        return
    yield "    },"
    if len(spec.model.merges.unlisted):
        text = spec.model.merges.unlisted[0].decode("utf-8", "replace")
        raise UnsupportedError(f"a merge joins {format_value(text)}, which is not a token")
    merges = spec.model.merges.pairs.pairs()
    yield '    "merges": ['
    if as_text:
        yield ",\n".join([f"      {pieces[a][:-1]} {pieces[b][1:]}" for a, b in merges])
    else:
        yield ",\n".join([f"      [{pieces[a]}, {pieces[b]}]" for a, b in merges])
    yield "    ]"
