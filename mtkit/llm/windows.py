"""A text in windows, several computed in one batch, as llama.cpp's own tools go through it.

Whole windows follow each other; what is left at the end is dropped. BOS, where the model adds one,
takes the place of the first token of every window.
Source: tools/perplexity/perplexity.cpp and tools/imatrix/imatrix.cpp of llama.cpp.
"""

from __future__ import annotations

from mtkit.base.record import replace
from mtkit.errors import UnsupportedError, UsageError, format_count, wording
from mtkit.llama import SlotContext
from mtkit.llama.slots import MOST_SLOTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from mtkit.llama import Model
    from mtkit.llm.runner import Runner

WINDOW = 512
"""Tokens, unless the settings or the model say less."""


def open_windows(
    runner: Runner, kind: Callable[..., SlotContext] = SlotContext, size: int | None = None
) -> SlotContext:
    """Make a context with a slot for each window that fits one batch.

    Args:
        size: Tokens of a window; None: those that the model was opened for.
    """
    if runner.model.has_encoder:
        what = "does not predict a text from its beginning: it has an encoder"
        raise UnsupportedError(what, source=runner.model.path)
    size = runner.n_ctx if size is None else size
    n_seq = min(max(runner.settings.context.n_batch // size, 1), MOST_SLOTS)
    context = runner.open_context(
        size * n_seq, lambda model, settings: kind(model, replace(settings, n_seq=n_seq))
    )
    assert isinstance(context, SlotContext)
    return context


def token_ids(
    model: Model, text: bytes, size: int, *, parse_special: bool = False, windows: int | None = None
) -> list[int]:
    """Return the ids of a text, or of its first windows, without a line feed at its end."""
    ids = model.tokenize(text.removesuffix(b"\n"), parse_special=parse_special)
    if len(ids) < size:
        what = f"the text has {format_count(len(ids), 'token')}, fewer than a window of {size}"
        raise UsageError(what, hint=f"use a longer text or a smaller {wording('--ctx', 'window')}")
    return ids if windows is None else ids[: windows * size]


def batches(context: SlotContext, ids: list[int], skip: int = 0) -> Iterator[list[list[int]]]:
    """Yield the windows of a text behind the first ``skip``, in lists that fit a batch."""
    size, model = context.n_slot, context.model
    windows: list[list[int]] = []
    for at in range(skip * size, len(ids) - size + 1, size):
        window = ids[at : at + size]
        if model.add_bos:
            window[0] = model.bos
        windows.append(window)
        if len(windows) == context.n_slots:
            yield windows
            windows = []
    if windows:
        yield windows


def compute(
    context: SlotContext, windows: list[list[int]], first: int
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Compute windows; yields after each call of llama.cpp.

    Yields:
        Position behind the last token; for each window the row of its last token, and how many of
        the last rows have logits.
    """
    context.clear()
    size = len(windows[0])
    for at in range(0, size, context.n_batch):
        end = min(at + context.n_batch, size)
        n_outputs = min(max(end - first, 0), end - at)
        parts = [(slot, at, window[at:end], n_outputs) for slot, window in enumerate(windows)]
        yield end, [(row, n_outputs) for row in context.compute(parts)]


def second_half_logits(context: SlotContext, windows: list[list[int]]) -> Iterator[tuple[Any, int]]:
    """Yield the logits behind each token of the second halves, and the token that follows it.

    The logits are a view, float32 of shape (n_vocab,), valid until the next one.
    """
    for end, rows in compute(context, windows, len(windows[0]) // 2):
        for window, (last, n_outputs) in zip(windows, rows, strict=True):
            following = window[end - n_outputs + 1 : end + 1]
            for row, target in enumerate(following, last - n_outputs + 1):
                yield context.logits(row), target
