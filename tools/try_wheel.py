"""Install a wheel or an sdist into an empty environment and do the main job with it.

    python tools/try_wheel.py dist/mtkit-0.1.0-cp312-abi3-linux_x86_64.whl [--tests [-n auto …]]

A wheel is installed without a compiler on the path, and has to bring the native core. ``--tests``
runs the whole suite against what was installed, from another folder than the checkout; what follows
goes to pytest. The wheel of llama-cpp-python is the one that ``make test`` built and kept: there is
none to fetch.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import venv

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
WHEELS = os.path.join(CACHE, "mtkit", "wheels", platform.machine())
"""Where the Makefile keeps the wheel of llama-cpp-python."""


def main() -> int:
    """Return 0 where all of it works."""
    package, *rest = sys.argv[1:]
    package = os.path.abspath(package)
    is_wheel = package.endswith(".whl")
    with tempfile.TemporaryDirectory() as folder:
        venv.create(os.path.join(folder, "env"), with_pip=True)
        binaries = os.path.join(folder, "env", "Scripts" if os.name == "nt" else "bin")
        suffix = ".exe" if os.name == "nt" else ""
        python, mtkit = (os.path.join(binaries, name + suffix) for name in ("python", "mtkit"))
        environment = {**os.environ, "PYTHONSAFEPATH": "1"}
        environment.pop("PYTHONPATH", None)
        if is_wheel:
            environment |= {"CC": "no-compiler", "CXX": "no-compiler", "CMAKE_GENERATOR": "none"}

        def run(*command: str, cwd: str = folder) -> str:
            done = subprocess.run(
                command, cwd=cwd, env=environment, check=True, stdout=subprocess.PIPE, text=True
            )
            return done.stdout

        extra = "[test,generate]" if rest[:1] == ["--tests"] else ""
        if extra:
            links = os.environ.get("PIP_FIND_LINKS", "")
            environment["PIP_FIND_LINKS"] = f"{links} {WHEELS}".strip()
        run(python, "-m", "pip", "install", "--quiet", package + extra)
        if extra:
            references = os.path.join(ROOT, "tests", "references.txt")
            run(python, "-m", "pip", "install", "--quiet", "--no-deps", "-r", references)
        version = run(mtkit, "--version")
        print(version.strip())
        if is_wheel and "native" not in version:
            print(f"{package} brought no native core", file=sys.stderr)
            return 1
        page = os.path.join(folder, "env", "share", "man", "man1", "mtkit.1")
        if not os.path.exists(page):
            print(f"{package} brought no manual page", file=sys.stderr)
            return 1
        spm = os.path.join(ROOT, "tests", "fixtures", "spm-bpe", "tokenizer.model")
        run(mtkit, "convert", spm, os.path.join(folder, "made.mtok"))
        for tokenizer in ("default", "made.mtok"):
            options = () if tokenizer == "default" else ("-t", os.path.join(folder, tokenizer))
            print(run(mtkit, "encode", "Hello, MNN!", *options).strip())
        if extra:
            return subprocess.run(
                [python, "-m", "pytest", "-c", os.path.join(ROOT, "pyproject.toml"), "--rootdir",
                 ROOT, os.path.join(ROOT, "tests"), *rest[1:]],
                cwd=folder, env=environment, check=False,
            ).returncode  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
