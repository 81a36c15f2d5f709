"""The documents, the manual pages and the examples say what the code does."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import posixpath
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from screens import screen
from support import FIXTURES, absent, reference

from mtkit.cli import COMMANDS, GROUPS, overview
from mtkit.formats import FORMATS

ROOT = Path(__file__).parents[2]
TEXTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]


@cache
def load_tool(name: str) -> ModuleType:
    """Import a module of tools/; the repository's root may not be on the path."""
    location = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert location is not None
    module = importlib.util.module_from_spec(location)
    assert location.loader is not None
    location.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "path",
    ["docs/architectures.md", "docs/cli.md", "docs/formats.md", "docs/losses.md",
     "docs/loss-matrix.md", "docs/rules.md", "docs/settings.md", "docs/python.md",
     "mtkit/llm/keywords.pyi", "native/tables/opcodes.hpp",
     *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("share/**/*") if path.is_file())],
)  # fmt: skip
def test_generated_document_is_up_to_date(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    generator = load_tool("generate")
    assert path in generator.DOCUMENTS
    made = generator.DOCUMENTS[path]()
    assert made == (ROOT / path).read_text(encoding="utf-8"), "run: python -m tools.generate"


def test_no_name_of_an_option_is_cut_at_the_end_of_a_line() -> None:
    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    assert not re.findall(r"--[a-z][\w-]*(?: \w+)?-$", text, re.M)


def test_asking_the_generator_for_help_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    generator = load_tool("generate")
    monkeypatch.setattr(generator, "DOCUMENTS", {"docs/none.md": lambda: pytest.fail("made")})
    monkeypatch.setattr("sys.argv", ["generate", "--help"])
    with pytest.raises(SystemExit) as stopped:
        generator.main()
    assert stopped.value.code == 0
    assert "--check" in capsys.readouterr().out


def test_every_command_is_in_one_group_and_no_help_is_cut() -> None:
    assert [name for names in GROUPS.values() for name in names.split()] == [*COMMANDS]
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert overview().rstrip() in text
    assert max(map(len, overview().splitlines())) <= 79
    assert not re.search(r"^  [a-z-]+ {2,}.*[.]{3}$", text, re.M)


def test_every_command_has_two_examples() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    parts = dict(re.findall(r"^## mtkit (\S+)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    assert set(parts) == set(COMMANDS)
    for name, part in parts.items():
        examples = part.partition("Examples:")[2].partition("\n\n")[0]
        assert len(re.findall(r"^ {4}.*mtkit", examples, re.M)) >= 2, name


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(path: Path) -> None:
    for link, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", path.read_text(encoding="utf-8")):
        if link.startswith("http"):
            continue
        target = path.parent / link if link else path
        assert target.exists(), link
        if anchor:
            heads = re.findall(r"^#+ (.*)", target.read_text(encoding="utf-8"), re.M)
            plain = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
            assert anchor in plain, f"{link}#{anchor}"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_item_of_a_list_begins_a_line(path: Path) -> None:
    """Wrapping a text anew must not make one item of two."""
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text("utf-8"), flags=re.M | re.S)
    merged = r"^.*(?:[.;:] (?:[-*+]|\d+\.) |[^|] [-*+] (?:\[|\*\*)).*$"
    assert re.findall(merged, text, re.M) == []


def test_every_file_that_the_architecture_names_is_there() -> None:
    pages = (ROOT / "ARCHITECTURE.md", ROOT / "docs" / "core.md")
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    words = re.findall(r"`([\w./*-]+(?:/|\.(?:[ch]pp|pyi?|json|mtok)))`", text)
    named = {word.rstrip("/") for word in words}
    assert len(named) > 60
    assert {"spec", "base/native.py"} <= named
    folders = [ROOT / name for name in ("mtkit", "native", "tests", "tools")]
    lost = {
        name
        for name in named
        if not (any(ROOT.glob(name)) or any(any(folder.rglob(name)) for folder in folders))
    }
    # To be written.
    assert lost == {"architectures/families/NAME.py", "commands/NAME.py", "formats/NAME.py"}


def test_readme_names_every_format_and_its_commands_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(FORMATS) <= set(re.findall(r"`([a-z0-9-]+)`", text))
    used = set(re.findall(r"^\$ mtkit (\S+)|`mtkit ([a-z]+)", text, re.M))
    assert {command or inline for command, inline in used} <= set(COMMANDS)
    assert len(used) > 5


def test_the_chinese_readme_says_the_same() -> None:
    """Blocks of code but for comments, code in sentences, rows, headings and links, in order."""
    english, chinese = (
        re.sub(r" +# .*", "", (ROOT / name).read_text(encoding="utf-8"))
        for name in ("README.md", "README.zh-CN.md")
    )
    for pattern in (
        r"```.*?```",
        r"(?<!`)`([^`\n]+)`(?!`)",
        r"^(\|)",
        r"^(##|-) ",
        r"\]\((docs/[^)]*)\)",
    ):
        found = [re.findall(pattern, text, re.M | re.S) for text in (english, chinese)]
        assert found[0] == found[1]
        assert found[0]
    for paragraph in re.sub(r"```.*?```", "", chinese, flags=re.S).split("\n\n"):
        lines = paragraph.strip().splitlines()
        assert len(lines) == 1 or all(line[0] in "-|" for line in lines), "one line a paragraph"


def test_readme_shows_what_its_commands_show_on_a_terminal(tmp_path: Path) -> None:
    for part in ("tests/fixtures", "mtkit/data"):
        shutil.copytree(ROOT / part, tmp_path / part)
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "none", "XDG_CACHE_HOME": "none"}
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\$ mtkit (.*)\n((?:(?!\$|```).*\n)+)", text, re.M)
    assert len(shown) == 3
    for command, output in shown:
        sent = screen(*shlex.split(command), cwd=str(tmp_path), **home)
        assert sent.code == 0, sent.text
        assert "\n".join(sent.lines) == output, command


def test_every_document_is_listed() -> None:
    listed = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    found = [str(path.relative_to(ROOT / "docs")) for path in ROOT.glob("docs/**/*.md")]
    assert len(found) > 10
    assert [name for name in found if f"]({name})" not in listed] == ["README.md"]


def test_the_index_calls_pages_by_their_titles() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\[([^\]]+)\]\(([^)#]+\.md)\)", index.partition("## ")[2])
    assert len(links) > 40
    for text, target in links:
        page = (ROOT / "docs" / target).read_text(encoding="utf-8")
        assert text == page.partition("\n")[0].removeprefix("# "), target


def test_notice_names_a_document_that_is_there() -> None:
    named = re.findall(r"docs/\S+\.md", (ROOT / "NOTICE").read_text(encoding="utf-8"))
    assert named
    assert all((ROOT / name).is_file() for name in named)


def test_the_site_has_every_document_and_its_links_lead_to_pages() -> None:
    """What zensical would warn of, without zensical: ``make docs`` builds the site itself."""
    site = load_tool("site")
    known = site.pages()
    commands = site.site_commands.pages((ROOT / "docs" / "cli.md").read_text(encoding="utf-8"))
    for path, place in known.items():
        if not place.endswith(".md"):
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        turned = site.turned(text, path, known)
        links = re.findall(r"\]\(((?![a-z]+:)[^)#\s]+)", turned)
        meant = {posixpath.normpath(posixpath.join(posixpath.dirname(place), x)) for x in links}
        assert meant <= {*known.values(), *commands}, path
        assert len(links) == len(re.findall(r"\]\(((?![a-z]+:)[^)#\s]+)", text))
    listed = re.findall(r"^ +- (?:.*: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    pages = sorted(place for place in known.values() if place.endswith(".md"))
    assert sorted(listed) == pages, "mkdocs.yml lists every document"


def test_a_link_that_leaves_the_site_is_refused() -> None:
    site = load_tool("site")
    with pytest.raises(ValueError, match="native/text"):
        site.turned("[core](../native/text)", "docs/cli.md", site.pages())


def test_every_format_has_a_page_with_its_layout() -> None:
    table = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    linked = dict(re.findall(r"^\| `([a-z0-9-]+)` \|.*\]\((formats/[^)]*)\)", table, re.M))
    assert set(linked) == set(FORMATS)
    pages = {*linked.values(), "formats/gguf.md", "formats/llama2c-checkpoint.md"}
    for page in pages - {"formats/gguf-vocabulary.md", "formats/llama2c.md", "formats/mtok.md"}:
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        assert re.search(r"^## Layout", text, re.M), page


HF, SPM = FIXTURES / "bbpe-8k" / "tokenizer.json", FIXTURES / "spm-bpe" / "tokenizer.model"
GIVEN: dict[str, tuple[list[object], tuple[str, ...]]] = {
    "inspect_files": ([HF, HF.parent.parent / "none"], ()),
    "convert_tokenizer": ([SPM, "made.gguf"], ()),
    "encode_corpus": ([ROOT / "LICENSE", HF], ()),
    "instead_of_transformers": ([HF], ("transformers",)),
    "instead_of_tiktoken": ([HF], ("tiktoken",)),
    "generate_text": ([], ("llama_cpp",)),
    "serve_to_openai": ([], ("llama_cpp", "uvicorn", "openai")),
    "speculative_decoding": ([], ("llama_cpp",)),
}
"""Arguments, and the libraries that a script needs."""


def test_every_script_is_run() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == set(GIVEN)


@pytest.mark.parametrize("name", GIVEN)
def test_a_script_runs(tmp_path: Path, name: str) -> None:
    arguments, needed = GIVEN[name]
    for module in needed:
        if importlib.util.find_spec(module) is None:
            reference(module)
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), *map(str, arguments)],
        cwd=tmp_path,
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path),
             "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


SHARE = ROOT / "share"
PAGES = sorted(SHARE.glob("man/man1/*.1"))


def test_every_command_has_a_page_and_no_page_is_left_over() -> None:
    reference = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    names = {
        name.replace(" ", "-") for name in re.findall(r"^##+ (mtkit [a-z -]+)$", reference, re.M)
    }
    assert len(names) > 30
    assert {path.stem for path in PAGES} == {"mtkit", *names}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_is_shown_without_a_warning_and_names_every_option(path: Path) -> None:
    groff = shutil.which("groff")
    if groff is None:
        absent("groff is not installed", "MTKIT_REQUIRE_REFERENCE")
    assert groff is not None
    done = subprocess.run(
        [groff, "-ww", "-mandoc", "-Tutf8", "-P-cbou", str(path)],
        capture_output=True, check=True, text=True, encoding="utf-8",
    )  # fmt: skip
    assert done.stderr == ""
    reference = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    title = "Command reference" if path.stem == "mtkit" else path.stem
    parts = re.split(r"^#+ (.*)$", reference, flags=re.M)
    parts = {name.replace("mtkit ", "mtkit-").replace(" ", "-"): text
             for name, text in zip(parts[1::2], parts[2::2], strict=True)}  # fmt: skip
    told = parts[title.replace(" ", "-")]
    shown = re.sub(r"[‐-]\n\s*", "", done.stdout)
    options = re.findall(r"^ {2}(-\S+.*?)(?: {2}|$)", told, re.M)
    assert len(options) >= 1
    missing = [one for one in options if "".join(one.split()) not in "".join(shown.split())]
    assert not missing


def test_bash_completes_with_the_installed_file(tmp_path: Path) -> None:
    command = tmp_path / "mtkit"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mtkit "$@"\n')
    command.chmod(0o755)
    script = (
        f'PATH="{tmp_path}:$PATH"; . "{SHARE}/bash-completion/completions/mtkit"\n'
        "COMP_WORDS=(mtkit conv); COMP_CWORD=1; _mtkit_completion mtkit; "
        'echo "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, check=True, text=True, cwd=ROOT
    )
    assert done.stdout.split() == ["convert", "convert-endian"]


def test_the_wheel_has_all_of_share(tmp_path: Path) -> None:
    try:
        listed = [str(one) for one in importlib.metadata.distribution("mtkit").files or ()]
    except importlib.metadata.PackageNotFoundError:  # a checkout: what would be installed
        pytest.importorskip("scikit_build_core")
        build = (
            "import sys; from scikit_build_core.build import build_wheel; build_wheel(sys.argv[1])"
        )
        subprocess.run(
            [sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True,
            capture_output=True, env={**os.environ, "MTKIT_PURE": "1"},
        )  # fmt: skip
        (wheel,) = tmp_path.glob("*.whl")
        listed = zipfile.ZipFile(wheel).namelist()
    wanted = {path.relative_to(ROOT).as_posix() for path in SHARE.rglob("*") if path.is_file()}
    assert len(wanted) > 30
    found = {one[one.index("share/") :] for one in listed if "share/" in one}
    assert wanted <= found
