"""The manual pages and completions of share/: of the help's words, and in the wheel."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support import absent

ROOT = Path(__file__).parents[2]
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
