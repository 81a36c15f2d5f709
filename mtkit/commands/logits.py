"""``mtkit logits``: what a model expects next."""

from __future__ import annotations

from mtkit.base.escape import as_text
from mtkit.commands.arguments import finite_number, read_prompt
from mtkit.commands.command import Command
from mtkit.commands.inputs import find_model
from mtkit.commands.options import Option
from mtkit.settings import ModelSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from mtkit.llama import Context


OPTIONS = {
    "text": Option("", "Text; - for standard input.", "TEXT"),
    "top": Option("--top", "Show the K most likely tokens.", "K", low=1),
    "every": Option("--all", "Show them after every token, not only the last."),
    "save": Option("-o --output", "Write all logits as .npy.", "NPY"),
}


def logits(
    text: str | None = None,
    *,
    settings: ModelSettings,
    prompt: str | None = None,
    files: list[str] | None = None,
    top: int = 10,
    every: bool = False,
    save: str | None = None,
    force: bool = False,
    no_special: bool = False,
    as_json: bool = False,
    verbose: bool = False,
) -> None:
    """Show which tokens a model expects after a text, with logits and probabilities.

    Piped output has a row per token: position, rank, id, token, logit, probability.

    \b
    Examples:
      mtkit logits "To list files, use" --top 5
      mtkit logits -f text.txt -m model.gguf --all -o logits.npy
    """
    from mtkit.base.record import replace
    from mtkit.commands import output
    from mtkit.commands.terminal import Progress
    from mtkit.errors import UsageError
    from mtkit.llama import log
    from mtkit.llm.runner import context_tokens, open_model

    if top < 0:
        raise UsageError(f"is {top}, but must be 0 or more", field="--top")
    log.is_shown = verbose
    content = read_prompt(text, prompt, files, command="logits")
    settings = replace(settings, model=find_model(settings.model))
    with open_model(settings, Progress("loading").show) as runner:
        ids = runner.model.tokenize(content, add_special=not no_special)
        if not ids:
            raise UsageError("the text has no tokens")
        context = runner.open_context(context_tokens(len(ids), 1, settings.context.n_ctx, 0))
        log.is_shown = False
        rows = list(_rows(context, ids, top, every=every, keep=save is not None))
        piece = runner.model.piece
        tokens = [
            (at, [(i, piece(i, special=True), value, p) for i, value, p in best])
            for at, best, _ in rows
        ]
    if save is not None:
        _save(save, [row for _, _, row in rows], force=force)
    if as_json:
        output.write_json({"schema": "mtkit.logits/1", "ids": ids, "rows": _document(tokens)})
        return
    table = [
        (at, rank, i, raw, f"{value:.4f}", f"{p:.6f}")
        for at, best in tokens
        for rank, (i, raw, value, p) in enumerate(best)
    ]
    if output.is_terminal():
        from mtkit.commands.terminal import Screen, token_text

        columns = ("after>:dim", "rank>:dim", "id>:id", "token", "logit>", "probability>")
        rows_of = ((*row[:3], token_text(row[3]), *row[4:]) for row in table)
        Screen().table(columns, rows_of, elastic=3)
    else:
        output.write_rows((*row[:3], as_text(row[3]), *row[4:]) for row in table)


command = Command(logits, OPTIONS, ModelSettings)


def _rows(
    context: Context, ids: list[int], top: int, *, every: bool, keep: bool
) -> Iterator[tuple[int, list[tuple[int, float, float]], Any]]:
    """Yield place, the likeliest (id, logit, probability), and the row if it is to be kept."""
    import numpy as np

    for at in range(0, len(ids), context.n_batch):
        part = ids[at : at + context.n_batch]
        is_last = at + len(part) == len(ids)
        if not every and not is_last:
            context.decode(part, outputs="none")
            continue
        context.decode(part, outputs="all" if every else "last")
        for row in range(len(part)) if every else (-1,):
            values = context.logits(row)
            best = np.argsort(-values, kind="stable")[:top]
            weights = np.exp((values - values.max()).astype(np.float64))
            total = float(weights.sum())
            entries = [(int(i), float(values[i]), float(weights[i]) / total) for i in best]
            place = at + row if row >= 0 else len(ids) - 1
            yield place, entries, values.copy() if keep else None


def _document(tokens: Any) -> list[dict[str, object]]:
    from mtkit.base.escape import byte_escapes

    return [
        {
            "behind": at,
            "tokens": [
                {
                    "id": i,
                    "token": byte_escapes(raw.decode("utf-8", "surrogateescape")),
                    "logit": finite_number(value),
                    "probability": finite_number(p),
                }
                for i, raw, value, p in entries
            ],
        }
        for at, entries in tokens
    ]


def _save(path: str, rows: list[Any], *, force: bool) -> None:
    """Write rows as a numpy array of shape (rows, n_vocab), float32."""
    import io

    import numpy as np

    from mtkit.base.files import write_files

    buffer = io.BytesIO()
    np.save(buffer, np.stack(rows))
    write_files({path: buffer.getvalue()}, force=force)
