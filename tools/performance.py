"""Measure and write docs/performance.md: ``python -m tools.performance`` (``make bench``).

    python -m tools.performance [--from RESULT.json] [-t NAME ...] [OPTIONS OF benchmarks.peers]

Without ``--from`` it runs ``python -m benchmarks.peers`` on the tokenizers and texts of the shared
folder, where there is one, else on the test fixtures and texts that Python brings, and keeps the
result in build/bench/result.json. Everything that is measured against:
pip install -r benchmarks/peers.txt
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.peers import plot
from benchmarks.peers.libraries import OWN
from benchmarks.peers.summary import Row, differing, rows_of
from mtkit.base import plotting
from mtkit.errors import MissingExtra, format_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "bench"
RESULT = FOLDER / "result.json"
PAGE, PICTURE = ROOT / "docs" / "performance.md", ROOT / "docs" / "performance.svg"
KEPT = "## Batches\n", "## Serving\n", "## Beside transformers, by mtkit.hf\n", "## Starts\n"
"""Sections of runs of their own: benchmarks.batches, serve, hf and startup."""
SHARED = Path(os.environ.get("MTKIT_SHARED") or ROOT.parent / "shared")
LOADS = FOLDER / "loads.json"
"""What ``tools.loads`` measured; without it the page has no table of loads."""
TOKENIZERS = (
    "gpt2/tokenizer.json", "qwen3/tokenizer.json", "llama-3/tokenizer.json",
    "bert-base-uncased/tokenizer.json", "t5-small/tokenizer.json",
    "xlnet-base-cased/tokenizer.json", "llama-2/tokenizer.json", "chinese-llama-2/tokenizer.model",
    "sp-test-ja/tokenizer.model",
)  # fmt: skip
FIXTURES = ("bbpe-8k/tokenizer.json", "wordpiece/tokenizer.json", "spm-bpe/tokenizer.model",
            "spm-unigram/tokenizer.model")  # fmt: skip
TEXTS = ("english", "code", "cjk")
ARTICLE = {"load .mtok": ("load", 154), "short": ("four short texts", 5.5),
           "5 KB": ("5 KB", 6.4), "decode": ("decode, token by token", 4.5)}  # fmt: skip
"""Scenario -> what the article calls it, and its ratio to HuggingFace there."""
NAMES = [name for name, _ in ARTICLE.values()]
RIVALS = ("transformers", "tokenizers")
"""What the article measured, and what does the work in it."""
ARTICLES_OWN = "gguf-vocab/ggml-vocab-qwen35.gguf.xz"
"""The vocabulary of the article's tokenizer, Qwen3.5's; its tokenizer.json is written from it."""
ARTICLES_NAME = "qwen3.5/tokenizer.json"
INTRODUCTION = """Written by `make bench` from one interleaved run of `benchmarks/peers`. Each
library runs in a process of its own. Ids are compared before anything is measured; if they
differ from the reference's, no ratio is given. A ratio is mtkit's speed divided by the
library's (for memory, its bytes divided by mtkit's): the median of the rounds, with the
lowest and highest in parentheses. Every measurement runs in a fresh process that has only
loaded the file. Times are CPU time, except those of `1 thread` and `2 threads`, which are
wall-clock time. Ids are returned as an array if the library can do that.

- `load`: loading the file and encoding one word; `load memory`: the memory that it takes
- `short`: four short texts, seen before; `5 KB`: the beginning of a text, seen before
- `whole`: a text as one string; `documents`: in parts of 4 KB; `lines`: line by line
- `batch`: all lines in one call; `1 thread` and `2 threads`: all documents in one call
- `list`: ids as a Python list; `offsets`: with the offsets of each token
- `decode`: one token at a time; `decode all`: all ids in one call
- `fresh`: the process has not seen the text; `again`: the same text a second time
- `memory`: bytes beyond `load memory`, per byte of text

`load .mtok`, the loads of the next table and the instruction counts use the .mtok with
tables that `mtkit convert` writes; everything else uses the file named above its table.
Such a .mtok has nothing to compute when it is loaded, and merges a word when a text first
contains it; the other files of GPT-2, Llama, Qwen and BERT merge their vocabulary when they
are loaded. New text is therefore slower: GPT-2's .mtok takes two to four times as long for
5 to 200 kB.
""".splitlines()
REPEATED = """## On another machine

```sh
make bench    # all of this; BENCH="--quick" is shorter
mtkit bench -t tokenizer.json corpus.txt      # mtkit alone, with your file and your text
python -m benchmarks.peers -t tokenizer.json corpus.txt      # and other libraries
python -m benchmarks.peers -t tokenizer.json --instructions  # counted by valgrind
```

`pip install -r benchmarks/peers.txt` installs the libraries of these tables. To add another one,
describe it in a Python file and pass the file with `--peers tokenizers,mine.py`:

```python
from benchmarks.peers.libraries import Library


class Mine(Library):
    name = "mine"  # of the package that is imported, too
    reads = ("hf",)  # names of formats: mtkit formats

    def load(self, path):
        import mine

        return mine.Tokenizer(path)

    def ids(self, loaded, text):
        return loaded.encode(text)
```

`listed`, `batch`, `decode` and `offsets` can be defined as well; a scenario whose method is missing
is skipped.
"""
LONGEST = 110
"""Of an error."""
LEFT_OUT = ("hard", "list fresh", "batch fresh", "offsets again", "decode all again")
DRAWN = ("load .mtok", "short", "decode", "whole", "documents")


def unpacked(path: str) -> Path:
    """Return a file of the shared folder, unpacked into build/bench, with what lies beside it."""
    source = SHARED / path
    target = FOLDER / source.parent.name
    target.mkdir(parents=True, exist_ok=True)
    for packed in source.parent.iterdir():
        if packed.name.startswith((source.name.partition(".")[0], "pattern.")):
            data = packed.read_bytes()
            plain = target / packed.name.removesuffix(".xz")
            plain.write_bytes(lzma.decompress(data) if packed.suffix == ".xz" else data)
    return target / source.name


def inputs(names: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """Return the tokenizers and the texts."""
    if not (SHARED / "tokenizers").is_dir():
        return [ROOT / "tests" / "fixtures" / name for name in names or FIXTURES], []
    paths = [unpacked(f"tokenizers/tokenizers/{name}") for name in names or TOKENIZERS]
    return [*paths, *[articles_own()] * (not names)], [unpacked(f"corpus/{x}.txt") for x in TEXTS]


def articles_own() -> Path:
    """Return the tokenizer.json of the article's tokenizer."""
    target = FOLDER / ARTICLES_NAME
    target.parent.mkdir(parents=True, exist_ok=True)
    vocab = target.with_name("vocab.gguf")
    vocab.write_bytes(lzma.decompress((SHARED / ARTICLES_OWN).read_bytes()))
    options = ["--to", "hf", "-o", str(target), "--force"]
    subprocess.run([sys.executable, "-m", "mtkit", "convert", str(vocab), *options], check=True)
    return target


def measure(names: Sequence[str], options: Sequence[str]) -> dict[str, Any]:
    """Run the benchmark on each tokenizer; what is done is kept if a later one fails."""
    tokenizers, texts = inputs(names)
    FOLDER.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {}
    for number, path in enumerate(tokenizers, 1):
        print(f"{number} of {len(tokenizers)}: {path.relative_to(path.parents[1])}", flush=True)
        command = [sys.executable, "-m", "benchmarks.peers", *map(str, texts), "--json", *options]
        command += ["-t", str(path)]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE)
        if not done.stdout:
            sys.exit(done.returncode)
        found = json.loads(done.stdout)
        document = document or {**found, "tokenizers": []}
        document["tokenizers"] += found["tokenizers"]
        RESULT.write_text(json.dumps(document), encoding="utf-8")
    return document


def cell(row: Row, name: str) -> str:
    """Return a ratio with its range."""
    ratio = row.ratios.get(name)
    if ratio is None:
        return "–"
    if f"{ratio.low:.2f}" == f"{ratio.high:.2f}":
        return f"{ratio.middle:.2f}"
    return f"{ratio.middle:.2f} ({ratio.low:.2f}–{ratio.high:.2f})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def article(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the figures of the article, all sides measured here."""
    rows = []
    for tokenizer in document["tokenizers"]:
        seen = set()
        for row in rows_of(tokenizer):
            if row.scenario in ARTICLE and RIVALS[0] in row.ratios and row.scenario not in seen:
                seen.add(row.scenario)  # of the first text
                what, factor = ARTICLE[row.scenario]
                sides = [x for name in RIVALS for x in (" ".join(row.shown(name)), cell(row, name))]
                theirs = f"{factor:g}" if row.tokenizer == ARTICLES_NAME else ""
                rows.append((row.tokenizer, what, " ".join(row.shown(OWN)), *sides, theirs))
    rows.sort(key=lambda row: (row[0], NAMES.index(row[1])))
    if rows:
        yield "## The article's four figures\n"
        yield "MNN's article on its tokenizer compares loading (mean of 5), four short texts (100"
        yield "times), 5 KB (20 times) and decoding 21 tokens one by one (1000 times) with"
        yield "HuggingFace Transformers, for the tokenizer of Qwen3.5; the last column has its"
        yield "results. tokenizers is the library that transformers uses, called directly. mtkit"
        yield "loads the .mtok, the others tokenizer.json; other files that transformers reads are"
        yield "not counted.\n"
        yield from table(
            ("tokenizer", "", OWN, *(x for name in RIVALS for x in (name, "times")), "article"),
            rows,
        )


def loads(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what every published tokenizer takes to load."""
    if not rows:
        return
    yield "## Loads\n"
    yield "A .mtok with tables of every published tokenizer of the shared folder, loaded by"
    yield "`python -m tools.loads --peers` in processes of their own that have imported what they"
    yield "need with another file: to the ids of `Hello, MNN!`. Page faults are the most, and"
    yield "milliseconds of CPU time the median, of 5 processes; private is the memory that each"
    yield "of 10 processes at once shares with no other, the median. ×: how many times as long"
    yield "transformers and tokenizers take for the tokenizer.json, as for `load .mtok` below;"
    yield "the article has 154 for the tokenizer of Qwen3.5. The rest of a file is read when a"
    yield "text needs it, from pages that all processes share.\n"
    yield from table(
        ("tokenizer", "ids", ".mtok", "page faults", "ms", "private", *(f"× {x}" for x in RIVALS)),
        [
            (
                row["name"],
                f"{row['ids']:,}",
                f"{row['bytes'] / 1e6:.1f} MB",
                str(row["faults"]),
                f"{row['ms']:.2f}",
                f"{row['private'] / 1e3:.0f} kB",
                *(_times(row["times"].get(name)) for name in RIVALS),
            )
            for row in rows
        ],
    )


def _times(ratio: Sequence[float] | None) -> str:
    return "–" if ratio is None else "{:.0f} ({:.0f}–{:.0f})".format(*ratio)


def said(error: str) -> str:
    """Return what a library said, as one short piece of code."""
    line = error.partition("\n")[0].replace("`", "'")
    return f"`{line[:LONGEST]}…`" if len(line) > LONGEST else f"`{line}`"


def libraries(states: Mapping[str, Any]) -> Iterator[str]:
    """Yield who gives the right ids and who does not."""
    for name, state in states.items():
        label = f"{name} {state['version']}".strip()
        for scenario, error in state.get("failed", {}).items():
            yield f"- {label}: {scenario}: {said(error)}"
        if "error" in state:
            yield f"- {label}: not measured: {said(state['error'])}"
        elif state["wrong"]:
            wrong = ", ".join(entry["text"] for entry in state["wrong"])
            yield f"- {label}: different ids in {wrong}: no ratio there"
        elif name != OWN:
            yield f"- {label}: same ids in every text"


def page(document: Mapping[str, Any]) -> str:
    """Return docs/performance.md."""
    machine, settings = document["machine"], document["settings"]
    texts = ", ".join(f"{x['name']} ({x['bytes']:,} bytes)" for x in document["texts"])
    cores, rounds = (
        format_count(machine["cores"], "core"),
        format_count(settings["rounds"], "round"),
    )
    where = (
        f"{machine['cpu']}, {cores} (load {machine['load']:.1f}), {machine['system']},"
        f" Python {machine['python']}, mtkit {document['mtkit']}, {machine['date']}; {rounds}."
        f" Texts: {texts}.\n"
    )
    out = [
        "# Performance\n",
        *INTRODUCTION,
        "",
        where,
        f"![Speed compared with other libraries]({PICTURE.name})\n",
        *article(document),
        *loads(json.loads(LOADS.read_text(encoding="utf-8")) if LOADS.exists() else ()),
    ]
    for heading in KEPT if PAGE.exists() else ():
        _, start, rest = PAGE.read_text(encoding="utf-8").partition(heading)
        out.append(start + rest.partition("\n## ")[0])
    for tokenizer in document["tokenizers"]:
        rows = [row for row in rows_of(tokenizer) if not row.scenario.startswith(LEFT_OUT)]
        peers = [name for name in tokenizer["libraries"] if any(name in x.ratios for x in rows)]
        out += [f"## {tokenizer['name']}\n", *libraries(tokenizer["libraries"]), ""]
        out += table(
            ("", "text", "mtkit", *(f"× {name}" for name in peers)),
            [
                (row.scenario, row.text, " ".join(row.shown(OWN)), *(cell(row, x) for x in peers))
                for row in rows
            ],
        )
    return "\n".join([*out, REPEATED])


def draw(document: dict[str, Any]) -> None:
    """Draw what the page shows of the first text."""
    first = ("", document["texts"][0]["name"])
    drawn = [
        {
            **tokenizer,
            "figures": [
                figure
                for figure in tokenizer["figures"]
                if figure["scenario"] in DRAWN and figure["text"] in first
            ],
        }
        for tokenizer in document["tokenizers"]
    ]
    plot.write({**document, "tokenizers": drawn}, str(PICTURE))


def main() -> int:
    """Measure, write; 1 where ids are not the reference's."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--from", dest="result", type=Path, help="a result of benchmarks.peers --json"
    )
    parser.add_argument("-t", action="append", default=[], dest="names", metavar="NAME")
    asked, options = parser.parse_known_args()
    try:
        plotting.require()
    except MissingExtra as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if asked.result:
        document = json.loads(asked.result.read_text(encoding="utf-8"))
    else:
        document = measure(asked.names, options)
    PAGE.write_text(page(document), encoding="utf-8")
    draw(document)
    for path in (PAGE, PICTURE):
        print(path.relative_to(ROOT))
    for name, wrong in differing(document):
        print(f"{name}: ids differ from the reference's in {wrong['text']}")
    return int(bool(differing(document)))


if __name__ == "__main__":
    sys.exit(main())
