"""Every command and every program in the documents runs, and shows what stands there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
from pathlib import Path

import pytest
import snippets
from range_server import serving
from screens import screen
from support import reference
from typer.main import get_command

from mtkit.cli import COMMANDS
from mtkit.commands import load_command
from mtkit.commands.application import application

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
MEASURED = {
    "docs/performance.md": "make bench takes half an hour",
    "docs/shenxing.md": "the measurements took hours, with models that are not in a clone",
}
SLOW = {"mtkit bench": "measures for minutes", "mtkit sx bench": "measures for minutes",
        "mtkit sx tune": "measures for minutes"}  # fmt: skip
ANSWERS_NO = ("mtkit compare", "mtkit diff", "mtkit check", "mtkit token")
"""Commands whose exit code may say that the answer is no."""
F16 = "mtkit quantize model.gguf --allow-requantize --type F16 -o model-f16.gguf\n"
PREPARED = {
    "mtkit convert-endian model-big-endian": (
        "mtkit convert-endian model.gguf -o model-big-endian.gguf\n"
    ),
    "mtkit count docs/": "mkdir docs src; echo text > docs/a.md; echo code > src/b.c\n",
    "mtkit diff model.gguf": "mtkit edit model.gguf --set general.name=new -o renamed.gguf\n",
    "mtkit report model-f16": F16 + "mv small.gguf model-q4_0.gguf\n",
    "mtkit diff model-f16": F16 + "mv small.gguf model-q4_0.gguf\n",
    "mtkit edit model.gguf --unset": (
        "mtkit edit model.gguf --set general.url=string:x -o new.gguf; mv new.gguf model.gguf\n"
    ),
    "mtkit merge parts/": "mtkit split model.gguf --max-size 1M -o parts/; rm model.gguf\n",
    "mtkit merge model-00001": "mtkit split model.gguf --max-size 2M\n",
    "mtkit quantize model-f16": F16,
    "mtkit quantize model-bf16": F16 + "mv model-f16.gguf model-bf16.gguf; rm small.gguf\n",
    "mtkit quantize model-q8": "mv small.gguf model-q8.gguf\n",
    "mtkit trim": "rm small.gguf\n",
    "mtkit hash model.gguf --check": "mtkit hash model.gguf > model.manifest\n",
    "mtkit sx vocab": "rm vocab.txt\n",
    "mtkit generate -m model.gguf --draft small.gguf --sx-static-vocab vocab.txt --sx-quant": (
        "mtkit sx quantize-embeddings model.gguf -o model-sx/\n"
    ),
    "mtkit sx prune": "mtkit sx vocab corpus.txt -t model.gguf -n 4096 --force -o vocab.txt\n",
}
"""What the reader of an example has done before: the beginning of its line -> commands."""


def played() -> list[Path]:
    """Return the pages with something to run, the Chinese README being the English one again."""
    found = [page for page in PAGES if snippets.RUN & {one.kind for one in snippets.blocks(page)}]
    known = {str(page.relative_to(ROOT)) for page in found}
    assert set(MEASURED) <= known
    return [page for page in found if str(page.relative_to(ROOT)) not in MEASURED
            and page.name != "README.zh-CN.md"]  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    snippets.make_files(folder)
    return folder


def copied(files: Path, folder: Path) -> Path:
    """Return a copy of the files; the large ones are the same file, which no command changes."""
    shutil.copytree(files, folder, copy_function=os.link)
    (folder / "model.gguf").unlink()  # but edit --in-place does
    shutil.copyfile(files / "model.gguf", folder / "model.gguf")
    return folder


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_every_block_says_what_it_is() -> None:
    for page in PAGES:
        for block in snippets.blocks(page):
            place = f"{page.relative_to(ROOT)}:{block.line}"
            assert block.kind in snippets.RUN | snippets.SHOWN, place
            if block.kind in snippets.SHOWN and page.name != "cli.md":
                assert not re.search(r"^(\$ |mtkit |import (?!{))", block.text, re.M), place


def test_extras_that_are_installed_are_there() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = set(
        re.findall(r"^([a-z]+) = \[", project.partition("optional-dependencies]")[2], re.M)
    )
    named = [
        extra
        for page in PAGES
        for found in re.findall(r"""install "(?:\.|mtkit)\[([a-z,]+)\]""", page.read_text("utf-8"))
        for extra in found.split(",")
    ]
    assert len(named) > 4
    assert set(named) <= extras


@pytest.mark.parametrize("page", played(), ids=lambda page: page.stem)
def test_what_a_page_does_works(page: Path, files: Path, tmp_path: Path) -> None:
    blocks = snippets.blocks(page)
    text = "".join(block.text for block in blocks)
    runs = r"mtkit (generate|chat|logits|perplexity|imatrix|serve)|mtkit\.(generate|quantize)"
    if re.search(runs, text):
        reference("llama_cpp")
    for module in ("openai", "transformers", "tiktoken"):
        if re.search(rf"(from|import) {module}|mtkit.hf", text):
            reference("transformers" if module == "tiktoken" else module)
    folder = copied(files, tmp_path / "here")
    if page.stem == "tutorial":  # its tokenizer.json has a name of its own, and no other file
        (folder / "tokenizer_config.json").unlink()
    if "-o vocab.txt" in text:
        (folder / "vocab.txt").unlink()
    ports = {port: str(free_port()) for port in ("8080", "8081", "8082")}
    home = {"HOME": str(folder), "XDG_CONFIG_HOME": "none", "XDG_CACHE_HOME": "none"}
    for one in snippets.scripts(blocks):
        if isinstance(one, str):
            for port, free in ports.items():
                one = one.replace(port, free)
            done = snippets.run(one, folder)
            assert done.returncode == 0, f"{one}\n{done.stdout}\n{done.stderr}"
            continue
        for command, output in snippets.commands(one):
            name, *arguments = shlex.split(command)
            assert name == "mtkit"
            sent = screen(*arguments, cwd=str(folder), **home)
            assert sent.code == 0, sent.text
            assert "\n".join(sent.lines).rstrip("\n") == output.rstrip("\n"), command


def examples() -> dict[str, list[str]]:
    """Return the examples of every command's help."""
    told = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    found = {}
    for name, part in re.findall(r"^##+ (mtkit [^\n]*)\n(.*?)(?=^##+ |\Z)", told, re.M | re.S):
        block = part.partition("  Examples:\n")[2].partition("\n\n")[0]
        lines = re.sub(r"\\\n\s*", "", block).splitlines()
        if lines:
            found[name] = [line.strip() for line in lines]
    assert len(found) > 30
    return found


def parsed(line: str) -> None:
    """Take a command line apart as the command does, without running it."""
    words = shlex.split(line.partition(" > ")[0].partition(" | ")[0], comments=True)
    assert words.pop(0) == "mtkit"
    name = words.pop(0)
    command = get_command(application(load_command(COMMANDS[name][0])))
    if hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context(name, words)


@pytest.mark.parametrize("path", sorted(MEASURED))
def test_commands_of_long_measurements_are_taken(path: str) -> None:
    scripts = [one.text for one in snippets.blocks(ROOT / path) if one.kind == "sh"]
    lines = re.findall(r"^mtkit .*", "".join(scripts).replace("\\\n", ""), re.M)
    assert lines
    for line in lines:
        parsed(line)


@pytest.mark.parametrize("name", sorted(examples()))
def test_the_examples_of_help_work(name: str, files: Path, tmp_path: Path) -> None:
    if name in SLOW:
        for line in examples()[name]:
            parsed(line)
        return
    if re.search("generate|chat|serve|perplexity|imatrix|logits|quantize|sx", name):
        reference("llama_cpp")
    with serving(files / "model.gguf") as (address, server):
        for number, line in enumerate(examples()[name]):
            folder = copied(files, tmp_path / str(number))
            command = line.replace("https://example.org/model.gguf", address)
            before = [what for begin, what in PREPARED.items() if line.startswith(begin)]
            done = snippets.run("".join(before) + command, folder)
            codes = (0, 1) if name in ANSWERS_NO else (0,)
            assert done.returncode in codes, f"{line}\n{done.stdout}\n{done.stderr}"
            shutil.rmtree(folder)
        assert server.sent or "example.org" not in "".join(examples()[name])
