"""The report of a check, and rules about a whole instead of one value.

A report is written as JSON or as SARIF 2.1.0, which code hosts show beside the files of a
repository. Source: OASIS, Static Analysis Results Interchange Format (SARIF) version 2.1.0.
"""

from __future__ import annotations

from mtkit._version import __version__
from mtkit.base.escape import printable
from mtkit.base.record import Record
from mtkit.base.rules import Finding, Rule
from mtkit.errors import format_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from mtkit.base.rules import Severity

    Place = tuple[str, str, "int | None"]
    """Field, what is wrong with it, and its offset in bytes where it has one."""
    Find = Callable[..., Iterator[Place]]

MOST_OF_A_SURVEY = 100
"""A vocabulary can break one rule with every token."""
DAMAGED, FOUND, CLEAN = 3, 1, 0


class Survey(Rule):
    """A rule about a whole."""

    find: Find = lambda *_: iter(())


def survey(
    code: str,
    severity: Severity,
    source: str,
    field: str,
    explanation: str,
    find: Find,
    advice: str = "",
) -> Survey:
    """Make a row of a table of surveys."""
    return Survey(code, severity, source, field, explanation, advice=advice, find=find)


def survey_findings(rows: Iterable[Survey], *subject: Any) -> Iterator[Finding]:
    """Yield what breaks the rules of a table; of one rule the first places and their number."""
    for row in rows:
        count = 0
        for field, what, offset in row.find(*subject):
            count += 1
            if count <= MOST_OF_A_SURVEY:
                yield Finding(row, field, what, offset)
        if count > MOST_OF_A_SURVEY:
            more = f"and {count - MOST_OF_A_SURVEY} more places like these"
            yield Finding(row, row.field, more, None)


class Report(Record):
    """Findings about one file or folder.

    Attributes:
        path: The file.
        kind: Its format: ``gguf`` or the name of a tokenizer format; empty where none is known.
        findings: Broken rules, in the order of the tables.
        skipped: (part, why) of what was not checked.
    """

    path: str
    kind: str
    findings: tuple[Finding, ...]
    skipped: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        kind = f" ({self.kind})" if self.kind else ""
        findings, skipped = len(self.findings), format_count(len(self.skipped), "part")
        return (
            f"<Report on {self.path}{kind}: {format_count(findings, 'finding')}, {skipped} skipped>"
        )

    def _repr_html_(self) -> str:
        from mtkit.base.notebook import figure, heading, note, table

        rows = ((f.rule.severity, f.rule.code, f.field, f.what, f.advice) for f in self.findings)
        parts: list[object] = [heading(repr(self)[1:-1])]
        if self.findings:
            parts.append(table(("severity", "rule", "field", "what", "what to do"), rows))
        parts += [note(f"not checked: {part}: {why}") for part, why in self.skipped]
        return figure(*parts)

    def count(self, severity: Severity) -> int:
        """Return how many findings have a severity."""
        return sum(finding.rule.severity == severity for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """3: damaged; 1: a program refuses or misreads it; 0: neither."""
        if self.count("error"):
            return DAMAGED
        return FOUND if self.count("warning") else CLEAN

    def document(self) -> dict[str, object]:
        """Return it as JSON data: one entry of ``files`` in schema ``mtkit.check/1``."""
        return {
            "file": printable(self.path),
            "kind": self.kind,
            "exit_code": self.exit_code,
            "findings": [
                {
                    "code": finding.rule.code,
                    "severity": finding.rule.severity,
                    "source": finding.rule.source,
                    "field": printable(finding.field),
                    "offset": finding.offset,
                    "what": printable(finding.what),
                    "advice": finding.advice or finding.rule.advice,
                }
                for finding in self.findings
            ],
            "skipped": [{"part": part, "why": printable(why)} for part, why in self.skipped],
        }


SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_document(reports: Sequence[Report]) -> dict[str, Any]:
    """Return one SARIF document for several files."""
    findings = [(report, finding) for report in reports for finding in report.findings]
    rules = {finding.rule.code: finding.rule for _, finding in findings}
    driver = {
        "name": "mtkit",
        "version": __version__,
        "rules": [
            {"id": code, "shortDescription": {"text": rules[code].explanation}}
            for code in sorted(rules)
        ],
    }
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "results": [_sarif_result(report, finding) for report, finding in findings],
            }
        ],
    }


def _sarif_result(report: Report, finding: Finding) -> dict[str, Any]:
    from urllib.parse import quote

    path = finding.source or report.path
    place: dict[str, Any] = {
        "artifactLocation": {"uri": quote(path.encode("utf-8", "surrogateescape"))}
    }
    if finding.offset is not None:
        place["region"] = {"byteOffset": finding.offset}
    return {
        "ruleId": finding.rule.code,
        "level": finding.rule.severity,
        "message": {"text": printable(f"{finding.field}: {finding.what}")},
        "locations": [{"physicalLocation": place}],
    }
