"""Reports as SARIF 2.1.0, which code hosts show beside the files of a repository.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) version 2.1.0.
"""

from __future__ import annotations

from mtkit._version import __version__
from mtkit.base.escape import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.base.rules import Finding
    from mtkit.checks.report import Report

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_document(reports: Sequence[Report]) -> dict[str, Any]:
    """Return one SARIF document for several files."""
    from mtkit.checks.explanations import EXPLANATIONS

    findings = [(report, finding) for report in reports for finding in report.findings]
    codes = sorted({finding.rule.code for _, finding in findings})
    driver = {
        "name": "mtkit",
        "version": __version__,
        "rules": [{"id": code, "shortDescription": {"text": EXPLANATIONS[code]}} for code in codes],
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
