"""A file, or the difference of two, as one page for a browser: ``mtkit report``.

Python collects the facts from the other packages (``content``) and packs them (``page``); the page
in ``page/`` shows them, by itself and without a network.
"""

from __future__ import annotations

import os

from mtkit.checkpoints import kind_of
from mtkit.checks.checker import CheckOptions, check, check_source
from mtkit.errors import MtkitError
from mtkit.report.content import describe_model, describe_templates, describe_tokenizer
from mtkit.report.page import Columns, render_page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.base.binary import Source
    from mtkit.checks.report import Report
    from mtkit.inspection.difference import Side
    from mtkit.inspection.gguf import GgufReport
    from mtkit.report.content import Progress
    from mtkit.tokenizer.tokenizer import Tokenizer


__all__ = ["report"]


class _File:
    """A file, opened once, with its tokenizer where it has one that works."""

    about = ""

    def __init__(self, source: Source) -> None:
        from mtkit.tokenizer.load import load_source

        self.name, self.n_bytes = source.name, len(source.data)
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
            self.error = _shown(error.located(source.name))

    def facts(
        self, columns: Columns, *, histograms: bool, deep: bool, progress: Progress
    ) -> dict[str, Any]:
        """Return the facts for the page."""
        facts: dict[str, Any] = {
            "name": _file_name(self.name),
            "bytes": self.n_bytes,
            "about": self.about,
        }
        if self.report is not None:
            facts["model"] = describe_model(
                self.report, columns, histograms=histograms, progress=progress
            )
        facts["error"] = self.error
        if self.tokenizer is not None:
            facts["tokens"] = describe_tokenizer(self.tokenizer, columns)
            facts["templates"] = describe_templates(self.tokenizer)
        result = self.check(deep=deep)
        document = result.document()
        facts["check"] = {name: document[name] for name in ("findings", "skipped")}
        skipped = {name for parts, _ in result.skipped for name in parts.split(", ")}
        kinds = _CHECKED.get(result.kind, _CHECKED["tokenizer"])
        parts = (*kinds, *(_CHECKED["deep"] if deep and self.report is not None else ()))
        facts["check"]["checked"] = [name for name in parts if name not in skipped]
        return facts

    def side(self) -> Side:
        """Return what is compared with another model."""
        from mtkit.inspection.difference import side_of

        assert self.report is not None
        return side_of(self.report.file)

    def check(self, *, deep: bool) -> Report:
        """Check the file."""
        return check_source(self.source, CheckOptions(deep=deep))


_CHECKED = {
    "gguf": ("header", "metadata", "tensor table", "tokens"),
    "folder": ("config.json", "names and shapes of the weights", "tokenizer", "conversion"),
    "tokenizer": ("the file", "vocabulary", "stages"),
    "deep": ("tensor data", "merges", "chat templates", "a test run"),
}
"""What a check covers by kind, and what --deep adds, unless it says that it skipped a part."""


class _Folder(_File):
    """A model folder: the model as the GGUF that it becomes, and the tokenizer beside it."""

    def __init__(self, path: str) -> None:
        from mtkit.base.binary import Source
        from mtkit.conversion.folder_report import folder_report
        from mtkit.sources.locate import locate
        from mtkit.tokenizer.load import load_source

        folder = folder_report(path)
        self.name, self.n_bytes = path.rstrip(os.sep), folder.survey.n_bytes
        self.report, self.tokenizer, self.error = folder.gguf, None, ""
        kind = folder.class_name or "unknown class"
        self.about = f"A model folder ({kind}), shown as the GGUF that mtkit convert makes of it."
        if folder.refused is not None and self.report is None:
            self.about = (
                f"A model folder ({kind}). mtkit does not convert it: {_shown(folder.refused)}"
            )
        try:
            self.tokenizer = load_source(Source.open(locate(path).path))
        except MtkitError as error:
            self.error = _shown(error.located(path))

    def side(self) -> Side:
        """Return what is compared with another model."""
        from mtkit.conversion.folder_report import folder_side

        return folder_side(self.name)

    def check(self, *, deep: bool) -> Report:
        """Check the folder."""
        return check(self.name, deep=deep)


def _shown(error: MtkitError) -> str:
    """Return an error without the folder of its file."""
    error.source = _file_name(error.source or "")
    return str(error)


def _file_name(path: str) -> str:
    """Return the name of a file without its folder, which readers of the page need not know."""
    return os.path.basename(path) or path


def report(
    sources: Sequence[Source | str],
    *,
    histograms: bool = False,
    deep: bool = False,
    progress: Progress = lambda _: None,
) -> bytes:
    """Return the page of one file, or of two with what differs.

    Args:
        sources: Files, and paths of model folders.
        progress: Called with the part of the tensors that is read, 0 to 1.

    Raises:
        FormatError: A file is damaged or no format knows it.
        UnsupportedError: A tokenizer needs something that mtkit does not know.
    """
    columns = Columns()
    files = [_Folder(source) if isinstance(source, str) else _File(source) for source in sources]
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

        difference = find_difference(a.side(), b.side())
        verdict = difference_verdict(difference)
        results["diff"] = {**difference_document(difference), "verdict": verdict}
    if a.tokenizer is not None and b.tokenizer is not None:
        from mtkit.tokenizer.comparison import compare, probe_texts

        results["compare"] = compare(a.tokenizer, b.tokenizer, probe_texts()).document()
    return results
