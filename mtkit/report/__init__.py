"""A file, or the difference of two, as one page for a browser: ``mtkit report``.

Python collects the facts from the other packages (``content``) and packs them (``page``); the page
in ``page/`` shows them, by itself and without a network.
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
    """A file, opened once, with its tokenizer where it has one that works."""

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
        """Return the facts for the page."""
        from mtkit.checks.checker import CheckOptions, check_source

        facts: dict[str, Any] = {
            "name": _file_name(self.source.name),
            "bytes": len(self.source.data),
        }
        if self.report is not None:
            facts["model"] = describe_model(
                self.report, columns, histograms=histograms, progress=progress
            )
        facts["error"] = self.error
        if self.tokenizer is not None:
            facts["tokens"] = describe_tokenizer(self.tokenizer, columns)
            facts["templates"] = describe_templates(self.tokenizer)
        check = check_source(self.source, CheckOptions(deep=deep)).document()
        facts["check"] = {name: check[name] for name in ("findings", "skipped")}
        return facts


def _file_name(path: str) -> str:
    """Return the name of a file without its folder, which readers of the page need not know."""
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
        progress: Called with the part of the tensors that is read, 0 to 1.

    Raises:
        FormatError: A file is damaged or no format knows it.
        UnsupportedError: A tokenizer needs something that mtkit does not know.
    """
    columns = Columns()
    files = [_File(source) for source in sources]
    facts = [
        file.facts(columns, histograms=histograms, deep=deep, progress=progress) for file in files
    ]
    title = " and ".join(file["name"] for file in facts)
    difference = _difference(*files) if len(files) == 2 else None
    return render_page(title, {"files": facts, "difference": difference}, columns)


def _difference(a: _File, b: _File) -> dict[str, Any]:
    """Return the result of ``diff`` for two GGUF files, and of ``compare`` for two tokenizers."""
    results: dict[str, Any] = {}
    if a.report is not None and b.report is not None:
        from mtkit.inspection.difference import (
            difference_document,
            difference_verdict,
            find_difference,
        )

        difference = find_difference(a.report.file, b.report.file)
        verdict = difference_verdict(difference)
        results["diff"] = {**difference_document(difference), "verdict": verdict}
    if a.tokenizer is not None and b.tokenizer is not None:
        from mtkit.tokenizer.comparison import compare, probe_texts

        results["compare"] = compare(a.tokenizer, b.tokenizer, probe_texts()).document()
    return results
