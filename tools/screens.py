"""Draw what commands show on a terminal: ``python -m tools.screens [NAME ...]`` (``make screens``).

Each picture of docs/screens/ is what the real commands send to a pseudo terminal of 80 or 120
columns (60, too, for what is typed most), in a copy of the files that a clone has, drawn by rich,
dark or light as the reader has it. Its <desc> has the text: a screen reader reads it, and
``tests/upkeep/test_screens.py`` compares it with a fresh run. docs/screens.md shows all.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from xml.sax.saxutils import escape

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(ROOT, "tests", "support"))

from screens import screen  # type: ignore[import-not-found]  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.containers import Lines
    from rich.text import Text

COLUMNS = (80, 120)
NARROW = 60
COMMON = (
    "help", "inspect", "check", "edit", "convert", "encode", "chat", "generate", "serve", "bench",
)  # fmt: skip
MODEL = "mtkit/data/default-model.gguf"
SPM = "tests/fixtures/spm-bpe/tokenizer.model"
HF = "tests/fixtures/bbpe-8k/tokenizer.json"
PARTS = "default-model-00001-of-00002.gguf"
TEXT = "Hello, MNN! 中文 🙂"
SCREENS: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "first": (
        "A model, a conversion, a text",
        (
            ("inspect", MODEL),
            ("convert", HF, "--to", "gguf", "-o", "demo-out/"),
            ("encode", "Hello, MNN! 中文", "-t", "demo-out/tokenizer.gguf"),
        ),
    ),
    "help": ("The commands", (("--help",),)),
    "inspect": ("A model", (("inspect", MODEL),)),
    "inspect-tokenizer": ("A tokenizer", (("inspect", HF),)),
    "inspect-safetensors": (
        "Weights in several files",
        (("inspect", "tests/data/safetensors/model.safetensors.index.json"),),
    ),
    "convert": ("A conversion", (("convert", SPM, "--to", "gguf", "-o", "demo-out/"),)),
    "convert-refused": (
        "A conversion that is refused",
        (
            ("convert", HF, "--to", "vocab-merges", "-o", "demo-out/"),
            ("convert", HF, "--to", "spm"),
        ),
    ),
    "compare": (
        "Two tokenizers on the same texts",
        (("compare", SPM, "tests/fixtures/spm-unigram/tokenizer.model"),),
    ),
    "check": ("Problems in a file", (("check", MODEL), ("check", "LICENSE"))),
    "edit": (
        "A model with other metadata",
        (
            ("edit", MODEL, "--set", "general.name=renamed", "-o", "new.gguf"),
            ("diff", MODEL, "new.gguf"),
        ),
    ),
    "report": (
        "An HTML report",
        (("report", MODEL), ("report", MODEL, HF, "-o", "both.html")),
    ),
    "split": (
        "Splitting and merging a model",
        (
            ("split", MODEL, "--split-max-size", "2M"),
            ("merge", PARTS, "-o", "whole.gguf"),
        ),
    ),
    "convert-endian": (
        "A model for big-endian machines",
        (
            ("convert-endian", MODEL, "-o", "big-endian.gguf"),
            ("convert-endian", "big-endian.gguf", "-o", "back.gguf"),
            ("diff", MODEL, "back.gguf"),
        ),
    ),
    "quantize": (
        "Quantizing a model",
        (
            ("quantize", MODEL, "--type", "Q4_1", "-o", "new.gguf"),
            ("quantize", MODEL, "--type", "Q4_1", "--allow-requantize", "-o", "new.gguf"),
        ),
    ),
    "trim": (
        "A model with a smaller vocabulary",
        (("trim", MODEL, "--corpus", "LICENSE", "-o", "small.gguf"), ("inspect", "small.gguf")),
    ),
    "hash": ("Hashes of a model", (("hash", MODEL, "--tokenizer"),)),
    "count": ("Counting tokens", (("count", "LICENSE", "tests/fixtures/spm-bpe/cases.jsonl"),)),
    "corpus": (
        "Encoding a corpus",
        (("corpus", "encode", "LICENSE", "--lines", "-t", HF, "-o", "license.npy"),),
    ),
    "bench": ("The help of a benchmark", (("bench", "--help"),)),
    "dump": ("Tokens by their text", (("dump", "vocab", HF, "--filter", "*中*"),)),
    "token": ("Tokens by id and text", (("token", "1000", "5000-5003", " the", "-t", HF),)),
    "encode": ("From text to ids", (("encode", TEXT),)),
    "trace": ("Every step from text to ids", (("encode", "It's 中文", "-t", HF, "--trace"),)),
    "explain": (
        "A text and its tokens",
        (("explain", "Hello, MNN! <|im_end|> 中文 🙂", "-t", HF),),
    ),
    "decode": ("From ids to text", (("decode", "27362", "11", "501", "15296", "0"),)),
    "template": (
        "A chat as the model reads it",
        (("template", "tests/fixtures/bbpe-8k", "--system", "Be brief.", "--user", "Hello!"),),
    ),
    "generate": (
        "A model continues a text",
        (("generate", "The quick brown fox", "-n", "24", "--temp", "0", "-q"),),
    ),
    "chat": ("A question to a model", (("chat", "Hello!", "-n", "24", "--temp", "0", "-q"),)),
    "perplexity": ("How well a model predicts a text", (("perplexity", "LICENSE"),)),
    "imatrix": ("An importance matrix", (("imatrix", "LICENSE", "-o", "imatrix.gguf"),)),
    "logits": ("What a model expects next", (("logits", "Once upon a time"),)),
    "serve": (
        "Options that the server refuses",
        (("serve", "--host", "0.0.0.0"), ("serve", "--chat-template", "lama3")),
    ),
    "sx": ("The help of a group of commands", (("sx", "--help"),)),
    "formats": ("The formats", (("formats",),)),
    "config": ("The settings in use", (("config",),)),
    "errors": (
        "Errors that say what to do",
        (("inspect", "LICENSE"), ("encode", "Hello", "-t", "no/such"), ("tokenise", "Hello")),
    ),
}
"""Name -> title and the commands of a picture."""
# Background, foreground, then black, red, green, yellow, blue, magenta, cyan, white.
_COLORS = (
    (13, 17, 23),
    (217, 217, 217),
    [(72, 79, 88), (255, 123, 114), (86, 211, 100), (227, 179, 65), (121, 172, 255),
     (210, 153, 255), (86, 212, 221), (217, 217, 217)],
)  # fmt: skip
_LIGHT = {
    "0d1117": "fff", "d9d9d9": "1f2328", "87898b": "59636e", "ff7b72": "b3261e", "56d364": "116329",
    "e3b341": "7d4e00", "79acff": "0550ae", "d299ff": "6639ba", "56d4dd": "0b6b74",
}  # fmt: skip
"""Dark -> light: backgrounds, texts, remarks, and the colors above that a text can have."""
_STYLE = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<desc>@desc@</desc>
<style>.{unique_id}-matrix,.{unique_id}-title{{font-family:ui-monospace,Menlo,Consolas,\
"DejaVu Sans Mono",monospace;font-size:{char_height}px;line-height:{line_height}px}}
{styles}</style>
{chrome}
<g transform="translate({terminal_x},{terminal_y})">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""


# The memory of the machine, how long it took, the last digits of what a model computes, and what
# a library for compression makes of a page.
_VARIES = re.compile(
    r"(?<=fits in )\S+|[\d.]+(?=(?: |&#160;)s\b)|(?<=\.\d)\d{2,}|\d+(?= kB · open it in a browser)"
)


def settled(text: str) -> list[str]:
    """Return the words of a text, less what differs from run to run."""
    return _VARIES.sub("N", text).split()


def commands(name: str, columns: int, *, color: bool = True) -> Iterator[tuple[str, str]]:
    """Yield each command of a picture with what it sends to a terminal."""
    with tempfile.TemporaryDirectory() as folder:
        for part in ("tests/fixtures", "tests/data/safetensors", "mtkit/data"):
            shutil.copytree(os.path.join(ROOT, part), os.path.join(folder, part))
        shutil.copy(os.path.join(ROOT, "LICENSE"), folder)
        environment = {
            "HOME": folder,
            "XDG_CONFIG_HOME": "~/.config",
            "XDG_CACHE_HOME": os.path.join(folder, ".cache"),
        }
        for command in SCREENS[name][1]:
            sent = screen(*command, columns=columns, color=color, cwd=folder, **environment)
            yield f"mtkit {shlex.join(command)}", _last_states(sent.text)


def _last_states(sent: str) -> str:
    """Return what stands on a terminal in the end: the last state of each line."""
    lines = (line.rpartition("\r")[2] for line in sent.replace("\r\n", "\n").split("\n"))
    return "\n".join(line.removeprefix("\x1b[K") for line in lines)


def text(name: str, columns: int) -> str:
    """Return the text of a picture, without colors."""
    shown = (f"$ {command}\n{sent}" for command, sent in commands(name, columns, color=False))
    return "\n".join(shown).rstrip("\n")


def picture(name: str, columns: int) -> str:
    """Return a picture as SVG."""
    from rich.console import Console
    from rich.terminal_theme import TerminalTheme
    from rich.text import Text

    console = Console(record=True, width=columns, file=io.StringIO(), color_system="truecolor")
    lines = []
    for command, sent in commands(name, columns):
        lines += [Text.assemble(("$ ", "dim"), (command, "bold")), Text.from_ansi(sent)]
    shown = Text("\n").join(lines)
    for line in shown.split("\n", allow_blank=True):
        console.print(Text("\n").join(_cut(line, columns)), end="\n", soft_wrap=True)
    plain = shown.plain.rstrip("\n")
    drawn = console.export_svg(
        title=SCREENS[name][0],
        theme=TerminalTheme(*_COLORS),
        code_format=_STYLE,
        unique_id="s",
    )
    drawn = re.sub(r' clip-path="url\(#s-line-\d+\)"|<text[^>]*>\s*</text>', "", drawn)
    drawn = re.sub(r"^\s+|\s+$", "", drawn, flags=re.M).replace("@desc@", escape(plain)) + "\n"
    return with_light(drawn)


def with_light(drawn: str) -> str:
    """Give a dark picture the colors for readers who prefer a light one."""
    style, end, rest = drawn.partition("</style>")
    rules = [
        f'rect[fill="#0d1117"]{{fill:#{_LIGHT["0d1117"]}}}.s-title{{fill:#{_LIGHT["d9d9d9"]}}}'
    ]
    for name, color in re.findall(r"^(\.s-r\d+) \{ fill: #(\w+)", style, re.M):
        if color in _LIGHT:
            rules.append(f"{name}{{fill:#{_LIGHT[color]}}}")
    return f"{style}\n@media(prefers-color-scheme:light){{{''.join(rules)}}}{end}{rest}"


def widths(name: str) -> tuple[int, ...]:
    """Return the columns of the pictures of a name."""
    return (NARROW, *COLUMNS) if name in COMMON else COLUMNS


def _cut(line: Text, columns: int) -> Lines:
    """Cut a line where a terminal goes on in the next row."""
    from rich.cells import cell_len

    cuts, used = [], 0
    for at, character in enumerate(line.plain):
        used += cell_len(character)
        if used > columns:
            cuts.append(at)
            used = cell_len(character)
    return line.divide(cuts)


def page() -> str:
    """Return docs/screens.md."""
    out = [
        "# Screens\n",
        "The commands on a terminal of 80 columns; below each picture are links to other widths.",
        "When output is piped, columns are separated by tabs. `make screens` draws real output.\n",
    ]
    for name, (title, _) in SCREENS.items():
        out.append(f"## {title}\n\n![{title}](screens/{name}-80.svg)\n")
        others = [columns for columns in widths(name) if columns != 80]
        links = [f"[{columns} columns](screens/{name}-{columns}.svg)" for columns in others]
        out.append(" · ".join(links) + "\n")
    return "\n".join(out)


def main() -> None:
    """Draw the pictures that are named, or all."""
    folder = os.path.join(ROOT, "docs", "screens")
    os.makedirs(folder, exist_ok=True)
    for name in sys.argv[1:] or SCREENS:
        for columns in widths(name):
            path = os.path.join(folder, f"{name}-{columns}.svg")
            drawn = picture(name, columns)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    if settled(file.read()) == settled(drawn):
                        continue
            with open(path, "w", encoding="utf-8") as file:
                file.write(drawn)
        print(f"docs/screens/{name}-*.svg", flush=True)
    with open(os.path.join(ROOT, "docs", "screens.md"), "w", encoding="utf-8") as file:
        file.write(page())


if __name__ == "__main__":
    main()
