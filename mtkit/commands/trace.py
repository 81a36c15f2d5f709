"""Tokens on a terminal, and the walk of a text through all stages: ``encode``, ``decode``.

The same walk as JSON is complete; here long lists are wrapped, never cut, and every text is
escaped to one line, a space shown as a middle dot.
"""

from __future__ import annotations

from mtkit.base.escape import is_utf8, printable
from mtkit.commands import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline.encoding import Encoding
    from mtkit.pipeline.trace import DecodeTrace, Part, Step, Trace, Word
    from mtkit.tokenizer.tokenizer import Tokenizer


_BAR = " │ "
_DOT = "·"


def show_tokens(tokenizer: Tokenizer, encoding: Encoding, text: str | bytes) -> None:
    """Print a table of ids, their text and its bytes."""
    from mtkit.commands.terminal import Screen, count_part, join_parts, part, token_text

    characters = text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text
    special = {token.id for token in tokenizer.spec.added_tokens.tokens if token.special}
    rows, cut = [], False
    for token_id in encoding.ids:
        raw = tokenizer.token_bytes(token_id)
        role = "special" if token_id in special else ""
        cut = cut or not is_utf8(raw)
        rows.append((str(token_id), part(role, token_text(raw)), raw.hex(" ")))
    screen = Screen()
    screen.table(("id>:id", "token", "bytes:dim"), rows, elastic=2)
    rate = f"{len(characters) / len(rows):.1f} characters per token" if rows else ""
    sums = join_parts(
        [count_part(len(rows), "token"), count_part(len(characters), "character"), rate]
    )
    screen.line(*(part("dim", fact) for fact in sums))
    if cut:
        screen.line(
            part("dim", "a character is split: "), part("hint", "mtkit explain"), " joins it"
        )


def show_trace(trace: Trace | DecodeTrace, *, as_json: bool) -> None:
    """Print a trace, as lines or as JSON."""
    from mtkit.pipeline.trace import Trace

    if as_json:
        schema = "mtkit.trace/1" if isinstance(trace, Trace) else "mtkit.decode-trace/1"
        output.write_json({"schema": schema, **trace.to_json()})
        return
    lines = _encode_lines(trace) if isinstance(trace, Trace) else _decode_lines(trace)
    for line in lines:
        output.write(line + "\n")


def _encode_lines(trace: Trace) -> list[str]:
    lines = [_row(0, "input", "", _with_dots(trace.text) or "(empty)")]
    number = 0
    last_stage = ""
    stages = {step.stage for step in trace.steps}
    if "normalizer" not in stages:
        number += 1
        lines.append(_row(number, "normalizer", "none", "unchanged"))
    for step in trace.steps:
        if step.stage != last_stage:
            number += 1
        lines.append(
            _row(
                number if step.stage != last_stage else None,
                step.stage if step.stage != last_stage else "",
                _component(step),
                _parts(step.parts) if step.changed else "unchanged",
            )
        )
        last_stage = step.stage
    if "pre-tokenizer" not in stages:
        number += 1
        lines.append(_row(number, "pre-tokenizer", "none", "unchanged"))
    lines.append(_row(number + 1, "model", trace.model, ""))
    for word in trace.words:
        lines += _word_lines(word)
    names = ", ".join(trace.post_processor) or "none"
    lines.append(_row(number + 2, "post-processor", names, ""))
    lines.append(_row(None, "tokens", "", _BAR.join(map(_with_dots, trace.tokens))))
    lines.append(_row(None, "ids", "", " ".join(map(str, trace.ids))))
    return lines


def _decode_lines(trace: DecodeTrace) -> list[str]:
    lines = [_row(0, "ids", "", " ".join(map(str, trace.ids)))]
    texts = ["(left out)" if token is None else _with_dots(token) for token in trace.tokens]
    lines.append(_row(1, "tokens", "", _BAR.join(texts)))
    for number, step in enumerate(trace.steps, 2):
        lines.append(_row(number, "decoder", step.name, _BAR.join(map(_with_dots, step.tokens))))
    lines.append(_row(None, "text", "", _with_dots(trace.text)))
    return lines


def _row(number: int | None, stage: str, name: str, text: str) -> str:
    head = "" if number is None else str(number)
    return f"{head:2} {stage:15} {name:18} {text}".rstrip()


def _component(step: Step) -> str:
    if step.detail and len(step.detail) <= 10:
        return f"{step.name} {printable(step.detail)}"
    return f"{step.name} (pattern)" if step.detail else step.name


def _parts(parts: tuple[Part, ...]) -> str:
    texts = []
    for part in parts:
        text = _with_dots(part.text)
        texts.append(text if part.id is None else f"[{text} = {part.id}]")
    return _BAR.join(texts) or "(nothing)"


def _word_lines(word: Word) -> list[str]:
    """Return the lines of one word: start, each merge with its rank or score, and the ids."""
    ids = " ".join(map(str, word.ids))
    head = f"   {_with_dots(word.part.text)}"
    if word.model is None:
        return [f"{head}  added token → {ids}"]
    if not word.model.start:
        pieces = _BAR.join(_piece(piece.piece, piece.score) for piece in word.model.pieces)
        return [f"{head}  {pieces} → {ids}"]
    lines = [f"{head}  {_join_symbols(word.model.start)}"]
    for merge in word.model.merges:
        left, right = (_text(part) for part in merge.pair)
        why = f"rank {merge.rank}" if merge.rank is not None else f"score {merge.score:g}"
        front, behind = merge.more or (False, False)
        after = "… " * front + _join_symbols(merge.after) + " …" * behind
        lines.append(f"     {left} + {right}  ({why})  → {after}")
    lines.append(f"     ids {ids}")
    return lines


def _piece(piece: bytes, score: float | None) -> str:
    return _text(piece) if score is None else f"{_text(piece)} ({score:.4g})"


def _join_symbols(symbols: tuple[bytes, ...]) -> str:
    return " ".join(map(_text, symbols))


def _text(piece: bytes) -> str:
    return _with_dots(piece.decode("utf-8", "surrogateescape"))


def _with_dots(text: str) -> str:
    return printable(text).replace(" ", _DOT)
