"""``mtkit check``: what is wrong with a model or tokenizer file, or a model folder."""

from __future__ import annotations

from mtkit.commands import output
from mtkit.commands.command import Command
from mtkit.commands.inputs import find_models, load_tokenizer
from mtkit.commands.options import Option, program_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.base.rules import Finding, Severity
    from mtkit.checks import Report


_ROLES: dict[Severity, str] = {"error": "bad", "warning": "warning", "note": "dim"}


OPTIONS = {
    "files": Option("", "Files or folders.", "FILE..."),
    "deep": Option(
        "--deep",
        "Also check tensor data, a GGUF's merges and templates, and a .mtok's engine tables.",
    ),
    "against": Option("--against", "Compare the chat template with this tokenizer's.", "FILE"),
    "runs_on": Option(
        "--runs-on",
        "Compare with this program: llama.cpp, mnn, transformers … Repeatable.",
        "NAME",
        values=program_names,
    ),
    "explain": Option("--explain", "Explain a code and exit.", "CODE"),
    "sarif": Option("--sarif", "Print SARIF 2.1.0, for CI."),
}


def check(
    files: list[str] | None = None,
    deep: bool = False,
    against: str | None = None,
    runs_on: list[str] | None = None,
    explain: str | None = None,
    most: int | None = None,
    as_json: bool = False,
    sarif: bool = False,
) -> None:
    """Find problems in a GGUF, safetensors or tokenizer file, or in a model folder.

    The rules come from the file format, llama.cpp's loader, the tokenizer and its chat templates.
    Piped output has a row per finding: file, severity, code, field, offset, what. A file with no
    findings has a single row, "ok"; a row "skipped" names a part that was not checked. Exit code 3:
    the file is damaged; 1: a program refuses or misreads it; 0: neither.

    Without --deep, the header, keys, tokens and tensor table of a GGUF are checked. --deep reads
    everything: NaN, infinity and zeros in tensors, also in those of a folder, merges, and a test
    run of the tokenizer and its chat templates. --against and --runs-on include that test run.

    In a folder with config.json and weights, mtkit checks every file and whether the files fit
    together. It finds missing and truncated files, a wrong index, tensors that contradict
    config.json, a tokenizer with more ids than the embedding has rows, and everything else that
    makes mtkit convert refuse the folder.

    --runs-on compares about 200 texts with the results of another program: llama.cpp, mnn,
    transformers, executorch, onnxruntime or sentencepiece. The last four need their own library. A
    file that the program cannot read is converted first. llama.cpp also loads a GGUF model and
    computes a token.

    \b
    Examples:
      mtkit check model.gguf
      mtkit check ./Qwen3-0.6B
      mtkit check tokenizer.json --runs-on llama.cpp --runs-on executorch
      mtkit check model.gguf --deep --against ORG/NAME
      mtkit check --explain token-twice
    """
    from mtkit.errors import MtkitError, UsageError

    if explain is not None:
        _explain(explain, as_json=as_json)
        return
    if not files:
        raise UsageError("no file to check", hint="mtkit check model.gguf")
    from mtkit.checks import check as run
    from mtkit.commands.terminal import raise_last_error
    from mtkit.sources.remote import MOST_BYTES

    if runs_on:
        from mtkit.conversion.programs import find_program

        for name in runs_on:
            find_program(name)
    if against is not None:
        load_tokenizer(against)  # its errors are not those of a file that is checked
    reports: list[Report] = []
    errors: list[MtkitError] = []
    for file in find_models(files):
        try:
            reports.append(
                run(
                    file,
                    deep=deep,
                    against=against,
                    runs_on=runs_on or (),
                    most=most or MOST_BYTES,
                )
            )
        except MtkitError as error:
            errors.append(error.located(file))
    if not reports:
        raise_last_error(errors)
    if sarif:
        from mtkit.checks.report import sarif_document

        output.write_json(sarif_document(reports))
    elif as_json:
        output.write_json(
            {"schema": "mtkit.check/1", "files": [report.document() for report in reports]}
        )
    elif output.is_terminal():
        for report in reports:
            _show(report)
    else:
        for report in reports:
            output.write_rows(_rows(report))
    if errors:  # the other files have been shown
        raise_last_error(errors)
    code = max(report.exit_code for report in reports)
    if code:
        raise SystemExit(code)


command = Command(check, OPTIONS)


def _rows(report: Report) -> Sequence[Sequence[object]]:

    rows: list[Sequence[object]] = [
        (
            finding.source or report.path,
            finding.rule.severity,
            finding.rule.code,
            finding.field,
            finding.offset,
            finding.what,
        )
        for finding in report.findings
    ] or [(report.path, "ok", "", "", None, "nothing found")]
    rows += [(report.path, "skipped", "", part, None, why) for part, why in report.skipped]
    return rows


def _show(report: Report) -> None:
    """Show the verdict, the findings by rule, and what was not checked."""
    from mtkit.commands.terminal import DOT, Screen, count_part, join_parts, part

    screen = Screen()
    counts = [(name, report.count(name)) for name in _ROLES]
    verdict = [part(_ROLES[name], count_part(number, name)) for name, number in counts if number]
    parts = verdict or [part("good", "nothing found")]
    good = report.exit_code == 0
    path = part("name", report.path)
    screen.verdict(path, output.Escaped(DOT), *join_parts(parts), good=good)
    groups: dict[str, list[Finding]] = {name: [] for name in _ROLES}
    for finding in report.findings:
        groups[finding.rule.severity].append(finding)
    for finding, more in (item for group in groups.values() for item in _first(group)):
        rule = finding.rule
        screen.heading(finding.field or rule.field, _place(finding))
        screen.line(finding.what, indent=2)
        if more:
            screen.line(part("dim", f"and {count_part(more)} more like this"), indent=2)
        advice = finding.advice or rule.advice
        code = [part(_ROLES[rule.severity], rule.severity), part("dim", rule.code)]
        screen.line(*join_parts([*code, part("dim", rule.source), part("hint", advice)]), indent=2)
    if report.skipped:
        screen.heading("not checked")
        screen.facts([(f"  {name}", [why]) for name, why in report.skipped])
    if report.findings:
        screen.heading("")
        screen.line(part("hint", f"mtkit check --explain {report.findings[0].rule.code}"))


def _first(findings: Sequence[Finding]) -> Sequence[tuple[Finding, int]]:
    """Return the first finding of each rule, with the number of its others."""
    by_rule: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        by_rule.setdefault((finding.rule.code, finding.rule.source), []).append(finding)
    return [(group[0], len(group) - 1) for group in by_rule.values()]


def _place(finding: Finding) -> str:
    at = f"offset {finding.offset}" if finding.offset is not None else ""
    return f"{finding.source}  {at}".strip()


def _explain(code: str, *, as_json: bool) -> None:
    from mtkit.checks.checker import explain

    facts = explain(code)
    rows = [("code", code), *facts]
    if as_json:
        output.write_json({"schema": "mtkit.rule/1", **dict(rows)})
    elif output.is_terminal():
        from mtkit.commands.terminal import Screen

        Screen().facts([(name, [text]) for name, text in rows])
    else:
        output.write_rows(rows)
