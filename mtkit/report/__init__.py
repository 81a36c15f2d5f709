"""A file, or two and what differs between them, as one page for a browser: ``mtkit report``.

Python collects what the other packages say of a file (``content``) and packs it (``page``); the
page in ``page/`` shows it, by itself and without a network.
"""

from __future__ import annotations

import os

from mtkit.checkpoints import kind_of
from mtkit.errors import MtkitError
from mtkit.report.content import describe_model, describe_templates, describe_tokenizer
from mtkit.report.page import Columns, render_page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.base.binary import Source
    from mtkit.inspection.gguf import GgufReport
    from mtkit.report.content import Progress
    from mtkit.tokenizer.tokenizer import Tokenizer


__all__ = ["report"]


class _File:
    """A file, opened once: what it is, and its tokenizer where it has one that works."""

    def __init__(self, source: Source) -> None:
        from mtkit.tokenizer.load import load_source

        self.source = source
        self.report: GgufReport | None = None
        self.tokenizer: Tokenizer | None = None
        self.error = ""
        if kind_of(source) != "gguf":
            self.tokenizer = load_source(source)
            return
        from mtkit.inspection.gguf import inspect_gguf

        self.report = inspect_gguf(source)
        if self.report.vocabulary is None:
            return
        try:
            self.tokenizer = load_source(source)
            self.tokenizer.spec  # noqa: B018  reads it
        except MtkitError as error:
            error.source = _file_name(source.name)
            self.error = str(error)

    def facts(
        self, columns: Columns, *, histograms: bool, deep: bool, progress: Progress
    ) -> dict[str, Any]:
        """Return all that the page shows of it."""
        from mtkit.checks.checker import CheckOptions, check_source

        found: dict[str, Any] = {
            "name": _file_name(self.source.name),
            "bytes": len(self.source.data),
        }
        if self.report is not None:
            found["model"] = describe_model(
                self.report, columns, histograms=histograms, progress=progress
            )
        found["error"] = self.error
        if self.tokenizer is not None:
            found["tokens"] = describe_tokenizer(self.tokenizer, columns)
            found["templates"] = describe_templates(self.tokenizer)
        checked = check_source(self.source, CheckOptions(deep=deep)).document()
        found["check"] = {name: checked[name] for name in ("findings", "skipped")}
        return found


def _file_name(path: str) -> str:
    """Return what a page calls a file: who gets the page need not know its folder."""
    return os.path.basename(path) or path


def report(
    sources: Sequence[Source],
    *,
    histograms: bool = False,
    deep: bool = False,
    progress: Progress = lambda _: None,
) -> bytes:
    """Return the page of one file, or of two with what differs.

    Args:
        histograms: Dequantize every tensor and show what its values are.
        deep: Check the data of tensors, merges and templates of a GGUF, too.
        progress: Hears how much of the tensors has been read, 0 to 1.

    Raises:
        FormatError: A file is damaged or no format knows it.
        UnsupportedError: A tokenizer needs something that mtkit does not know.
    """
    columns = Columns()
    files = [_File(source) for source in sources]
    facts = [
        file.facts(columns, histograms=histograms, deep=deep, progress=progress) for file in files
    ]
    title = " and ".join(one["name"] for one in facts)
    difference = _difference(*files) if len(files) == 2 else None
    return render_page(title, {"files": facts, "difference": difference}, columns)


def _difference(a: _File, b: _File) -> dict[str, Any]:
    """Return what ``diff`` says of two GGUF files, and ``compare`` of two tokenizers."""
    found: dict[str, Any] = {}
    if a.report is not None and b.report is not None:
        from mtkit.inspection.difference import (
            difference_document,
            difference_verdict,
            find_difference,
        )

        done = find_difference(a.report.file, b.report.file)
        found["diff"] = {**difference_document(done), "verdict": difference_verdict(done)}
    if a.tokenizer is not None and b.tokenizer is not None:
        from mtkit.tokenizer.comparison import compare, probe_texts

        found["compare"] = compare(a.tokenizer, b.tokenizer, probe_texts()).document()
    return found
