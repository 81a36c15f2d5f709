"""Rules, and findings against them: the one shape of all that is wrong with a file.

A rule is a row in a table, and its code never changes. A strict reading raises the first error, a
tolerant one keeps it and goes on as far as that is safe. The rows are in the module ``rules`` of
the package that knows what they are about; here are those of every reader of bytes.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Literal, Protocol

    Severity = Literal["error", "warning", "note"]
    Check = Callable[..., str]
    """(value of the field, its record, the whole) → what is wrong, or nothing."""

    class Placed(Protocol):
        """A record that knows where its fields are in the file."""

        def place(self, field: str) -> tuple[str, int]:
            """Return how messages name a field, and its offset."""


MOST_OF_A_RULE = 1000
"""A file of garbage breaks the same rule at every place."""


def _unasked(*_: object) -> str:
    return ""


class Rule(Record):
    """Something that is true of every sound file.

    Attributes:
        code: What JSON, docs/rules.md and ``mtkit check --explain`` call it; it never changes.
        severity: ``error``: the file is refused. ``warning``: it is read, but other programs refuse
            it or read something else. ``note``: every program reads it; worth knowing.
        explanation: What was found, who minds, what to do: for the user who looks the code up.
    """

    code: str
    severity: Severity
    source: str
    field: str
    explanation: str
    check: Check = _unasked
    advice: str = ""

    def demand(self, *subject: object, field: str, offset: int) -> None:
        """Check what the rest of a reading depends on."""
        what = self.check(*subject)
        if what:
            raise BrokenRule(Finding(self, field, what, offset))


class Finding(Record):
    """A rule that is broken.

    Attributes:
        offset: Of the place, in bytes from the start of the file; None in what is not a file.
        source: Path of the file, where it is another than the one that is read.
    """

    rule: Rule
    field: str
    what: str
    offset: int | None = None
    advice: str = ""
    source: str = ""

    @property
    def is_error(self) -> bool:
        """Whether a strict reading ends here."""
        return self.rule.severity == "error"

    def __str__(self) -> str:
        return str(BrokenRule(self))


class BrokenRule(FormatError):
    """A finding as an error."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(
            finding.what,
            source=finding.source,
            field=finding.field,
            offset=finding.offset,
            hint=finding.advice or finding.rule.advice,
        )
        self.finding = finding


class Findings:
    """What a reading has found so far, in order.

    Attributes:
        entries: The findings: of each rule the first ``MOST_OF_A_RULE``, of a strict reading only
            warnings.
    """

    def __init__(self, *, strict: bool) -> None:
        self.entries: list[Finding] = []
        self.strict = strict
        self._counts: dict[str, int] = {}

    def add(self, finding: Finding) -> None:
        """Keep a finding."""
        if self.strict and finding.is_error:
            raise BrokenRule(finding)
        code = finding.rule.code
        self._counts[code] = self._counts.get(code, 0) + 1
        if self._counts[code] <= MOST_OF_A_RULE:
            self.entries.append(finding)

    def hold(
        self, rule: Rule, *subject: object, field: str, offset: int | None = None, source: str = ""
    ) -> bool:
        """Ask one rule about one place; return whether it holds."""
        what = rule.check(*subject)
        if what:
            self.add(Finding(rule, field, what, offset, source=source))
        return not what

    def check(self, rules: Iterable[Rule], record: Placed, whole: object) -> bool:
        """Hold a record to rules; return whether it breaks none whose severity is an error."""
        sound = True
        for rule in rules:
            what = rule.check(getattr(record, rule.field), record, whole)
            if what:
                field, offset = record.place(rule.field)
                self.add(Finding(rule, field, what, offset))
                sound = sound and rule.severity != "error"
        return sound


def _cut(size: int, left: int) -> str:
    return f"needs {size} bytes, but the file has {left} left" if size > left else ""


def too_many(value: int, element_bytes: int, left: int) -> str:
    """Tell whether the bytes that are left cannot hold a number of elements."""
    most = left // element_bytes
    what = f"is {value}, but the file has only {left} bytes left, enough for {most}"
    return what if value > most else ""


FORMAT = "the format"
AGAIN = "Download or convert the file again."
"""The end of the explanation of what no one writes on purpose."""
# fmt: off
TRUNCATED = Rule("truncated", "error", FORMAT, "",
                 f"A value runs past the end of the file. {AGAIN}",
                 _cut, "the file is probably truncated")
COUNT = Rule("count", "error", FORMAT, "",
             f"A count needs more bytes than the file has left. {AGAIN}",
             too_many, "the file is damaged or cut")
# fmt: on
