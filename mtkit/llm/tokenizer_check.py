"""Compare the ids of llama.cpp's tokenizer with those of mtkit's own, on one text."""

from __future__ import annotations

from mtkit.errors import MtkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.llama import Model


def difference(model: Model, text: bytes, *, add_special: bool, parse_special: bool) -> str:
    """Return what is different, on one line; empty where the ids are equal.

    A model whose tokenizer mtkit cannot read is a difference, too.
    """
    from mtkit.base.binary import Source
    from mtkit.tokenizer.load import load_source

    theirs = model.tokenize(text, add_special=add_special, parse_special=parse_special)
    try:
        tokenizer = load_source(Source.open(model.path))
        ours = tokenizer.encode_ids(
            text, add_special_tokens=add_special, parse_special=parse_special
        )
    except MtkitError as error:
        return f"the tokenizers cannot be compared: {error}"
    if ours == theirs:
        return ""
    pairs = zip(ours, theirs, strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
    return (
        f"the tokenizers differ from token {at} on: llama.cpp has {_shown(model, theirs, at)}, "
        f"mtkit {_shown(model, ours, at)}"
    )


def _shown(model: Model, ids: list[int], at: int, most: int = 4) -> str:
    """Return ids and their pieces from a place on."""
    from mtkit.base.escape import byte_escapes, escape

    parts = []
    for token_id in ids[at : at + most]:
        piece = model.piece(token_id, special=True).decode("utf-8", "backslashreplace")
        parts.append(f"{token_id} {escape(byte_escapes(piece))!r}")
    more = " …" if len(ids) > at + most else ""
    return (", ".join(parts) or "nothing") + more
