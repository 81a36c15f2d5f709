"""Write the documents that are made from the code: ``python -m tools.generate [--check]``.

``docs/cli.md`` holds the help text of every command, ``docs/formats.md`` the formats,
``docs/losses.md`` what each writer can lose, as the small fixtures show it, ``docs/loss-matrix.md``
the worst of that for every file and format, ``docs/rules.md`` the rules of files,
``docs/models.md``, in one section, what is read of a folder,
``docs/python.md`` the library's docstrings (tools/python_reference.py),
``docs/settings.md`` the settings of running models,
``mtkit/llm/keywords.pyi`` their types as keywords, ``native/tables/opcodes.hpp`` the numbers of the
program (tools/opcodes.py), ``share/`` the manual pages and completions (tools/manual.py).
``--check`` compares instead of writing and ends with 1 where one is out of date.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from typing import TYPE_CHECKING

from mtkit.cli import COMMANDS, overview
from mtkit.cli import main as main_of_mtkit
from mtkit.commands import load_command
from mtkit.commands.help import TOPICS
from mtkit.formats import FORMATS, get_format
from mtkit.formats.contract import LOSS_CODES
from tools import manual
from tools.opcodes import header
from tools.python_reference import reference

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = {
    "Byte-level BPE": "bbpe-8k/tokenizer.json",
    "SentencePiece BPE": "spm-bpe/tokenizer.model",
    "SentencePiece Unigram": "spm-unigram/tokenizer.model",
    "WordPiece": "wordpiece/tokenizer.json",
}


def help_of(*names: str) -> str:
    """Return what a command prints for --help at 80 columns."""
    os.environ["COLUMNS"] = "80"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main_of_mtkit([*names, "--help"])
    return printed.getvalue().strip()


def commands_in(name: str) -> list[str]:
    """Return the names of the commands that a group of commands has."""
    return [*getattr(load_command(COMMANDS[name][0]), "commands", {})]


def cli_reference() -> str:
    """``docs/cli.md``: the help text of every command."""
    out = ["# Command reference\n", f"```text\n{overview().rstrip()}\n```\n"]
    for name in COMMANDS:
        out.append(f"## mtkit {name}\n\n```text\n{help_of(name)}\n```\n")
        for part in commands_in(name):
            out.append(f"### mtkit {name} {part}\n\n```text\n{help_of(name, part)}\n```\n")
    out.append("## mtkit help TOPIC\n")
    out += [f"### {name}\n\n{text}" for name, (_, text) in TOPICS.items()]
    return "\n".join(out)


def format_table() -> str:
    """``docs/formats.md``: what can be read and written."""
    rows = ["# Formats\n", "| name | what it is | layout | read | write |", "|---|---|---|---|---|"]
    for name in FORMATS:
        module = get_format(name)
        writes = "yes" if hasattr(module, "write") else "no"
        page = "gguf-vocabulary" if name == "gguf" else name
        path = f"formats/{page}.md"
        with open(os.path.join(ROOT, "docs", path), encoding="utf-8") as file:
            link = f"[{file.readline()[2:].strip()}]({path})"
        rows.append(f"| `{name}` | {module.TITLE} | {link} | yes | {writes} |")
    return "\n".join([*rows, ""])


def loss_table() -> str:
    """``docs/losses.md``: what each writer loses of each kind of tokenizer."""
    from mtkit.conversion.tokenizer import apply_options
    from mtkit.errors import MtkitError
    from mtkit.formats.contract import WriteOptions
    from mtkit.tokenizer.load import load

    out = [
        "# Losses\n",
        *TOPICS["losses"][1].split("\n"),
        "The tables show the losses for the small tokenizers in `tests/fixtures`.\n",
    ]
    for kind, path in SOURCES.items():
        source = load(os.path.join(ROOT, "tests", "fixtures", path))
        out += [f"## {kind}\n", "| to | code | field | effect |", "|---|---|---|---|"]
        for name in FORMATS:
            module = get_format(name)
            if not hasattr(module, "write"):
                continue
            asked, _ = apply_options(source, module, WriteOptions())
            try:
                losses = module.write(asked.spec, WriteOptions()).losses
            except MtkitError as error:
                field = f"{error.field} ".lstrip()
                out.append(f"| `{name}` | refused | {field}| {_cell(error.what)} |")
                continue
            out += [f"| `{name}` | {x.code} | {x.field} | {_cell(x.effect)} |" for x in losses]
            if not losses:
                out.append(f"| `{name}` | none | | nothing is lost |")
        out.append("")
    return "\n".join(out)


FIXTURE_FILES = (
    "bbpe-8k/tokenizer.json",
    "bbpe-8k/vocab.json",
    "bbpe-8k/vocab.gguf",
    "spm-bpe/tokenizer.model",
    "spm-bpe/tokenizer.json",
    "spm-bpe/tokenizer.bin",
    "spm-bpe/vocab.gguf",
    "spm-unigram/tokenizer.model",
    "spm-unigram/vocab.gguf",
    "spm-unigram-id/tokenizer.model",
    "spm-unigram-id/tokenizer.json",
    "wordpiece/tokenizer.json",
    "wordpiece/vocab.txt",
    "wordpiece/vocab.gguf",
)


def loss_matrix() -> str:
    """``docs/loss-matrix.md``: the worst loss of every small file in every format."""
    from mtkit.conversion.tokenizer import apply_options
    from mtkit.errors import UnsupportedError
    from mtkit.formats.contract import WriteOptions
    from mtkit.tokenizer.load import load

    written = [name for name in FORMATS if hasattr(get_format(name), "write")]
    out = [
        "# Loss matrix\n",
        "The worst loss when each file in `tests/fixtures` is converted to each format. `whole`",
        "means that nothing is lost, `refused` that the format cannot hold the tokenizer.",
        "[Losses](losses.md) explains the codes and names the fields.\n",
        f"| from | {' | '.join(f'`{name}`' for name in written)} |",
        "|---|" + "---|" * len(written),
    ]
    for file in FIXTURE_FILES:
        source = load(os.path.join(ROOT, "tests", "fixtures", file))
        cells = []
        for name in written:
            module = get_format(name)
            asked, _ = apply_options(source, module, WriteOptions())
            try:
                losses = module.write(asked.spec, WriteOptions()).losses
            except UnsupportedError:
                cells.append("refused")
                continue
            worst = min((LOSS_CODES.index(loss.code) for loss in losses), default=None)
            cells.append("whole" if worst is None else LOSS_CODES[worst])
        out.append(f"| `{file}` | {' | '.join(cells)} |")
    return "\n".join([*out, ""])


def setting_table() -> str:
    """``docs/settings.md``: every setting of a model that runs."""
    from typing import Literal, get_args, get_origin

    from mtkit.settings import HEADINGS, GenerateSettings, ServeSettings
    from mtkit.settings.declaration import table

    out = [
        "# Settings\n",
        "The options of the commands that run a model, which are also the keywords of",
        "`mtkit.generate`. The column `also` lists llama.cpp's spellings.",
        "",
        "- `generate` has all of them except those of the server.",
        "- `chat` lacks the session options, `--no-special`, `--special` and `--check-tokenizer`.",
        "  Its `n_predict` is -1, and special tokens spelled out in a message are plain text.",
        "- `perplexity`, `imatrix` and `logits` have the options under Context and Computing.",
        "  `perplexity` and `imatrix` decode 2048 tokens at a time, and `--ctx` is the",
        "  window, 512.",
        "- `serve` has its own options, and those under Sampling, Drafting (except",
        "  `--draft-match`), Context and Computing. Its `--exact` makes greedy answers independent",
        "  of other requests; it has no `--no-exact`.\n",
    ]
    settings = {**table(ServeSettings), **table(GenerateSettings)}.values()
    for heading in ("", *HEADINGS):
        out += [f"## {heading}\n"] if heading else []
        out += ["| keyword | option | also | type | default | range | what |", "|" + "---|" * 7]
        for setting in settings:
            if setting.heading != heading:
                continue
            option, also = (", ".join(map(_code, x)) for x in (setting.options, setting.also))
            choices = get_args(setting.hint) if get_origin(setting.hint) is Literal else ()
            kind = _cell(_code("str" if choices else setting.annotation))
            limits = "" if setting.low is None else f"{setting.low:,} to {setting.high:,}"
            limits = ", ".join(map(_code, choices)) or limits
            default = _code(repr(setting.default).replace("'", '"'))
            cells = (_code(setting.name), option, also, kind, default, limits, setting.help)
            out.append(f"| {' | '.join(cells)} |")
        out.append("")
    return "\n".join(out)


def _code(text: str) -> str:
    return f"`{text}`"


def keyword_stub() -> str:
    """``mtkit/llm/keywords.pyi``: the keywords of ``mtkit.generate`` and ``mtkit.Model``."""
    from mtkit.api.model import OF_AN_ANSWER
    from mtkit.settings import GenerateSettings, TextAnswerSettings
    from mtkit.settings.declaration import table

    out = [
        '"""Keywords of mtkit.generate and mtkit.Model, by python -m tools.generate."""',
        "",
        "from typing import TypedDict",
        "",
        "from mtkit.settings import Flash, KvType, Waiting",
        "",
    ]
    names: set[str] = {"model"}
    for head, about, own in (
        ("AnswerKeywords(TypedDict, total=False)", "Those of one answer", OF_AN_ANSWER),
        (
            "ModelKeywords(AnswerKeywords, total=False)",
            "Those of a model",
            table(TextAnswerSettings),
        ),
        (
            "GenerateKeywords(ModelKeywords, total=False)",
            "Those of one call",
            table(GenerateSettings),
        ),
    ):
        rows = [
            x for x in table(GenerateSettings).values() if x.name in own and x.name not in names
        ]
        names |= {x.name for x in rows}
        out += [f"class {head}:", f'    """{about}; docs/settings.md says what they do."""', ""]
        out += [*(f"    {x.name}: {x.annotation}" for x in rows), ""]
    return "\n".join(out)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def rule_table() -> str:
    """``docs/rules.md``: the rules for files and specifications."""
    from mtkit.checks import checker, tensors
    from mtkit.gguf import rules, shards
    from mtkit.spec.rules import RULES

    out = [
        "# Rules of mtkit check\n",
        "A file with an `error` is refused (exit code 3). A `warning` is reported, and reading",
        "continues. A `note` is worth knowing. `mtkit check` applies all rules; other commands",
        "apply only those of the first and the last table. The codes never change; JSON has them",
        "under `warnings` (`mtkit inspect`) and `findings` (`mtkit check`).\n",
    ]
    for title, found in (
        ("GGUF", (*rules.RULES, *shards.SHARD_RULES)),
        (
            "Model and tokenizer files, by `mtkit check` only",
            (*checker.file_rules(), *tensors.DATA_RULES),
        ),
        ("Tokenizers of every format", RULES),
    ):
        out += [
            f"## {title}\n",
            "| code | severity | field | required by | what was found |",
            "|---|---|---|---|---|",
        ]
        fields: dict[str, dict[str, None]] = {}
        for rule in found:
            fields.setdefault(rule.code, {})[rule.field or "any"] = None
        rules_of = {rule.code: rule for rule in found}
        out += [
            f"| `{code}` | {rule.severity} | {', '.join(fields[code])} | {rule.source} |"
            f" {rule.explanation} |"
            for code, rule in rules_of.items()
        ]
        out.append("")
    return "\n".join(out)


def architecture_table() -> str:
    """``docs/architectures.md``: the models that are converted whole."""
    from mtkit.architectures import architectures
    from mtkit.architectures.projectors import projectors

    out = [
        "# Supported architectures\n",
        "`mtkit convert` can turn HuggingFace folders of these models into a GGUF and back; see",
        "[Converting models](models.md). Other classes are refused, and the error names the",
        "nearest supported ones.\n",
        "| in a GGUF | classes of transformers |",
        "|---|---|",
    ]
    names: dict[str, list[str]] = {}
    for class_name, architecture in architectures().items():
        names.setdefault(architecture.name, []).append(f"`{class_name}`")
    out += [f"| `{name}` | {', '.join(names[name])} |" for name in sorted(names)]
    out += [
        "\n## Projectors\n",
        "`mtkit convert --mmproj` converts the [projectors](models.md#projectors) of these.",
        "InternVL is named by its vision_config, Mistral's own form by `PixtralModel`.\n",
        f"{', '.join(f'`{name}`' for name in sorted(projectors()))}",
    ]
    return "\n".join([*out, ""])


READ_HEADING = "## What is read of a folder"


def models_page() -> str:
    """``docs/models.md``, of which one section is drawn from the tables of files and fields."""
    with open(os.path.join(ROOT, "docs", "models.md"), encoding="utf-8") as file:
        before, _, rest = file.read().partition(f"{READ_HEADING}\n")
    after = rest[rest.index("\n## ") + 1 :]
    return f"{before}{READ_HEADING}\n\n{folder_section()}\n{after}"


def folder_section() -> str:
    """Return what a conversion reads of a folder, and what has no effect, with the reason."""
    from mtkit.checkpoints.without_effect import FIELDS, FILES, READ_FIELDS, READ_FILES, TENSORS

    def codes(names: Iterable[str]) -> str:
        return ", ".join(f"`{_cell(name)}`" for name in names)

    out = [
        "Whatever lies in a folder is read, or stands in these tables as without effect.",
        "`convert`, `check` and `inspect` name everything else in a note, or refuse it. `*` stands",
        "for any text, a slash at the end for a folder.",
        "",
        "| files | for |",
        "|---|---|",
        *(f"| {codes(names)} | {purpose} |" for purpose, names in READ_FILES.items()),
        "",
        "| files without effect | reason |",
        "|---|---|",
        *(f"| {codes(row.names)} | {row.reason} |" for row in FILES),
        "",
        "Fields of config.json that the architecture of the model asks for are read, too; one that",
        "llama.cpp has fixed for an architecture, such as its activation, is compared with that.",
        "",
        "| of the file | fields that are read for every model |",
        "|---|---|",
        *(f"| {file} | {codes(names)} |" for file, names in READ_FIELDS.items()),
        "",
        "| of the file | fields without effect | reason |",
        "|---|---|---|",
    ]
    for file, rows in FIELDS.items():
        for row in rows:
            values = row.values or ()
            only = ", if " + " or ".join(json.dumps(value) for value in values) if values else ""
            out.append(f"| {file} | {codes(row.names)} | {row.reason}{only} |")
    out += ["", "| tensors without effect | reason |", "|---|---|"]
    out += [f"| {codes(row.names)} | {row.reason} |" for row in TENSORS]
    return "\n".join([*out, ""])


DOCUMENTS = {
    "docs/architectures.md": architecture_table,
    "docs/cli.md": cli_reference,
    "docs/formats.md": format_table,
    "docs/losses.md": loss_table,
    "docs/models.md": models_page,
    "docs/loss-matrix.md": loss_matrix,
    "docs/python.md": reference,
    "docs/rules.md": rule_table,
    "docs/settings.md": setting_table,
    "mtkit/llm/keywords.pyi": keyword_stub,
    "native/tables/opcodes.hpp": header,
    **manual.pages(),
}


def main() -> int:
    """Write or check every document; return the exit code."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m tools.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    stale = 0
    for path, make in DOCUMENTS.items():
        text = make()
        full = os.path.join(ROOT, path)
        if check:
            with open(full, encoding="utf-8") as file:
                if file.read() != text:
                    print(f"{path} is out of date; run: python -m tools.generate")
                    stale = 1
            continue
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)
        print(path)
    return stale


if __name__ == "__main__":
    sys.exit(main())
