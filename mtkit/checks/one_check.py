"""What was found so far in a file or folder that is checked, and the rules for its tokenizer."""

from __future__ import annotations

from mtkit.base.record import Record, replace
from mtkit.base.rules import BrokenRule, Finding, Rule
from mtkit.checks import folder_reading, templates, vocabulary
from mtkit.checks.programs import findings as programs
from mtkit.checks.report import Report, surveyed
from mtkit.programs import PROGRAMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from mtkit.base.binary import Source
    from mtkit.errors import MtkitError
    from mtkit.spec import TokenizerSpec

READABLE = Rule("tokenizer", "error", "the format's reference", "file")
SUPPORTED = Rule("tokenizer-support", "warning", "mtkit", "file")
TABLES = Rule("engine-tables", "error", "mtkit", "engine tables")


class Asked(Record):
    """What a file or folder is held against besides the rules.

    Attributes:
        deep: Read all of a GGUF.
        against: The tokenizer whose chat templates it should have.
        other: Its name.
        runs_on: Names of programs whose reading is compared.
    """

    deep: bool = False
    against: TokenizerSpec | None = None
    other: str = ""
    runs_on: Collection[str] = ()

    @property
    def of_tokenizer(self) -> bool:
        """Whether all of a GGUF's tokenizer has to be read."""
        return bool(self.deep or self.against is not None or self.runs_on)


class Checking:
    """Findings and what was left out, of one file or folder.

    Attributes:
        source: The file; of a folder its name counts.
        asked: What it is held against.
        findings: Broken rules so far.
        skipped: (part, why) of what was not checked.
        has_run: Whether its tokenizer was tried.
        ids: How many ids its tokenizer has; None where it could not be read.
    """

    def __init__(self, source: Source, asked: Asked) -> None:
        self.source, self.asked = source, asked
        self.findings: list[Finding] = []
        self.skipped: list[tuple[str, str]] = []
        self.has_run = False
        self.ids: int | None = None

    def report(self, kind: str) -> Report:
        """Return what was found; a program that was not asked is never taken for content."""
        if not self.has_run:
            self.findings += map(programs.unread, self.asked.runs_on)
            if self.asked.against is not None:
                (rule,) = templates.AGAINST
                what = f"not compared with {self.asked.other}: there is no tokenizer that runs"
                self.findings.append(Finding(rule, rule.field, what, None))
        return Report(self.source.name, kind, tuple(self.findings), tuple(self.skipped))

    def hold(self, rule: Rule, error: MtkitError) -> None:
        """Keep an error as what breaks a rule."""
        if isinstance(error, BrokenRule):
            self.findings.append(error.finding)
        else:
            self.findings.append(Finding(rule, error.field, error.what, error.offset, error.hint))

    def take(self, item: Finding | tuple[str, str] | None) -> None:
        """Keep what was found, or what was left out and why."""
        if isinstance(item, Finding):
            self.findings.append(item)
        elif item is not None:
            self.skipped.append(item)

    def tokenizer(self, spec: TokenizerSpec, kind: str) -> None:
        """Hold a specification and its chat templates to the rules."""
        from mtkit.tokenizer.tokenizer import Tokenizer

        self.ids = spec.vocab_size
        self.findings += surveyed(vocabulary.VOCABULARY, spec.vocabulary)
        self.findings += surveyed(vocabulary.TOKENIZER, spec)
        tokenizer = Tokenizer(spec, source=self.source.name, format_name=kind)
        broken = list(surveyed(vocabulary.RUN, tokenizer))
        if broken:
            self.findings += broken
            self.skipped.append(("chat template", "the tokenizer does not run"))
            return
        self.findings += surveyed(folder_reading.FOLDER, tokenizer)
        if not spec.chat_templates:
            self.skipped.append(("chat template", "there is none"))
        for template in spec.chat_templates:
            self.findings += surveyed(templates.TEMPLATE, templates.Trial(template, tokenizer))
        if self.asked.against is not None:
            wanted = {one.name: one.text for one in self.asked.against.chat_templates}
            self.findings += surveyed(templates.AGAINST, spec, self.asked.other, wanted)
        self.has_run = True
        for name in self.asked.runs_on:
            self.findings += programs.findings(PROGRAMS[name], tokenizer)

    def tables(self, spec: TokenizerSpec) -> None:
        """Hold the engine's tables in the file, if there are some, to its specification."""
        from mtkit.tokenizer.load import mapped, tables_fault

        if mapped(self.source)[0] is None:
            return
        if not self.asked.deep:
            self.skipped.append(("engine tables", "--deep compares them with the rest"))
        elif error := tables_fault(self.source, spec):
            self.hold(TABLES, error)


def told_of(path: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Say of another file's findings whose they are."""
    return (replace(finding, source=finding.source or path) for finding in findings)
