"""Fixtures that many tests share."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    Run = Callable[..., subprocess.CompletedProcess[bytes]]

# Small products on many threads: OpenBLAS spins while it waits, ten times the work on busy cores.
# It is read when numpy is imported, which no test module does before this one.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Programs that tests start in the root of a checkout take the mtkit that is tested, which may be an
# installed one, not the folder of that name there (Python before 3.11 does not know the variable).
os.environ["PYTHONSAFEPATH"] = "1"


def pytest_configure() -> None:
    """Start from the same conditions everywhere.

    Where the native core must be there, the pipeline is not tested in its place. A suite that runs
    in the background may ignore SIGINT, which its children would inherit. Drawn examples are the
    same in each run, unless more of them are asked for than the suite takes.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    explore = "MTKIT_EXAMPLES" in os.environ
    settings.register_profile("suite", deadline=None, database=None, derandomize=not explore)
    settings.load_profile("suite")
    with pytest.MonkeyPatch.context() as patch:  # 1.3 s of 1.4, in each worker: mtkit/cli.py
        patch.setitem(sys.modules, "mistral_common", None)
        import gguf  # noqa: F401  for all tests
    import mtkit as package
    from mtkit.cli import version

    if os.environ.get("MTKIT_REQUIRE_NATIVE") and "native" not in version():
        where = os.path.dirname(package.__file__)
        pytest.exit(f"no native core in {where} (MTKIT_REQUIRE_NATIVE is set)", 1)


def pytest_collection_finish() -> None:
    """Leave what is imported by now out of garbage collections, of which tests ask for hundreds."""
    gc.freeze()


def pytest_unconfigure() -> None:
    """Close what llama_cpp opens when it is imported: a worker would end with warnings of it."""
    module = sys.modules.get("llama_cpp._utils")
    for name in ("outnull_file", "errnull_file"):
        if (file := getattr(module, name, None)) is not None:
            file.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which package was tested if not the checkout, how many tests were skipped, and why."""
    import mtkit as package

    tested = os.path.dirname(os.path.realpath(package.__file__))
    if tested != os.path.join(os.path.dirname(os.path.dirname(__file__)), "mtkit"):
        terminalreporter.line(f"tested: {tested}; PYTHONPATH=$PWD tests the checkout instead")
    reasons = Counter(
        re.sub(
            r"^shared (file|tokenizer) \S+ is not here",
            r"a shared \1 is not here (MTKIT_SHARED names their folder)",
            report.longrepr[2].removeprefix("Skipped: "),
        )
        for report in terminalreporter.stats.get("skipped", ())
    )
    if reasons:
        total = reasons.total()
        terminalreporter.section(f"{total} test{'s' * (total != 1)} skipped")
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count:5}  {reason}")


@pytest.fixture
def mtkit(tmp_path: Path) -> Run:
    """Run ``python -m mtkit`` as a user would, in a pipe, with an empty configuration."""

    def run(
        *args: object, stdin: bytes = b"", env: dict[str, str] | None = None, cwd: Path = tmp_path
    ) -> subprocess.CompletedProcess[bytes]:
        argv = [sys.executable, "-m", "mtkit", *map(str, args)]
        return subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            check=False,
            cwd=cwd,
            env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path), **(env or {})},
        )

    return run


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all workers of a run share, and that ends with it."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Start Chromium for the tests of a module; they have no event loop of their own."""
    import browser

    with browser.chromium() as found:
        yield found
