"""Build the native core for development: `python -m tools.native`.

Builds with CMake and Ninja into build/native and puts the module into mtkit/, in seconds when
little changed. Warnings are errors here, and only here: an installation must not fail on those of
a newer compiler. ``--sanitize=address`` builds with address and undefined-behavior sanitizers into
build/sanitize-address, beside a copy of the package, and runs the engine's tests with it;
``--sanitize=thread`` does so with ThreadSanitizer and the tests of threads.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SANITIZED_TESTS = [
    "tests/engine/test_engine.py",
    "tests/engine/test_engine_characters.py",
    "tests/engine/test_engine_chunks.py",
    "tests/engine/test_engine_decode.py",
    "tests/engine/test_engine_cuts.py",
    "tests/engine/test_engine_models.py",
    "tests/engine/test_engine_offsets.py",
    "tests/engine/test_engine_segments.py",
    "tests/engine/test_engine_tables.py",
    "tests/engine/test_engine_words.py",
    "tests/patterns/test_pattern.py",
    "tests/formats/test_damage_tables.py",
    "tests/base/test_truncated_in_use.py::test_neighbors_that_truncate",
]


THREAD_TESTS = [
    "tests/engine/test_engine.py::test_one_engine_serves_many_threads",
    "tests/engine/test_engine_cache.py::test_threads_share_one_engine",
    "tests/base/test_truncated_in_use.py::test_neighbors_that_truncate",
    "tests/engine/test_engine.py::test_first_calls_of_all_threads_at_once",
    "tests/engine/test_engine_batches.py",
]
SANITIZERS = {
    "address": (
        "address,undefined",
        ("libasan.so", "libubsan.so"),
        {
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        },
        SANITIZED_TESTS,
    ),
    "thread": (
        "thread",
        ("libtsan.so",),
        # Memory that only Python touches is not the core's; a report ends the run with 66. What a
        # thread forked goes on.
        {"TSAN_OPTIONS": "halt_on_error=1:ignore_noninstrumented_modules=1:die_after_fork=0"},
        THREAD_TESTS,
    ),
}
"""Name -> flag of the compiler, libraries to load first, their settings, the tests that run."""


def build(folder: str, *options: str) -> None:
    """Configure (once) and build into ``folder``."""
    import nanobind

    configure = [
        *("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja"),
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-Dnanobind_DIR={nanobind.cmake_dir()}",
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        "-DCMAKE_UNITY_BUILD=OFF",
        "-DMTKIT_WERROR=ON",
        *options,
    ]
    if _source_of(folder) not in ("", ROOT):  # copied with the sources, it would build there
        shutil.rmtree(folder)
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        subprocess.run(configure, check=True)
    subprocess.run(["cmake", "--build", folder], check=True)


def _source_of(folder: str) -> str:
    """Return the folder of the sources that a build was made for; "": there is none."""
    try:
        with open(os.path.join(folder, "CMakeCache.txt"), encoding="utf-8") as cache:
            found = [line for line in cache if line.startswith("CMAKE_HOME_DIRECTORY:")]
    except OSError:
        return ""
    return found[0].partition("=")[2].strip() if found else ""


def module_in(folder: str) -> str:
    """Return the path of the module that was built into a folder."""
    (name,) = [n for n in os.listdir(folder) if n.startswith("_native.") and n.endswith(".so")]
    return os.path.join(folder, name)


def install(module: str, package: str) -> str:
    """Put the module into a package folder, whole or not at all (it may be mapped)."""
    target = os.path.join(package, os.path.basename(module))
    shutil.copy(module, target + ".part")
    os.replace(target + ".part", target)
    return target


def sanitize(name: str) -> int:
    """Run the engine's tests with sanitizers; return pytest's exit code."""
    flag, preloaded, settings, tests = SANITIZERS[name]
    folder = os.path.join(ROOT, "build", f"sanitize-{name}")
    # Files of a folder are compiled as one, as for users: half the time.
    build(
        folder,
        f"-DMTKIT_SANITIZE={flag}",
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
        "-DCMAKE_UNITY_BUILD=ON",
    )
    package = os.path.join(folder, "python", "mtkit")
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(
        os.path.join(ROOT, "mtkit"), package, ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    install(module_in(folder), package)
    libraries = [
        subprocess.run(
            ["c++", f"-print-file-name={library}"], check=True, capture_output=True, text=True
        ).stdout.strip()
        for library in preloaded
    ]
    environment = {
        **os.environ,
        **settings,
        "LD_PRELOAD": " ".join(libraries),
        "PYTHONPATH": os.path.dirname(package),
    }
    # The core is what is tested here; some reference libraries do not load under the sanitizers.
    environment.pop("MTKIT_REQUIRE_REFERENCE", None)
    python = [*_fixed_addresses(), sys.executable, "-P"]
    # An editable install or the current folder could bring the ordinary module instead.
    show = "import mtkit._native as n; print(n.__file__); assert 'sanitize' in n.__file__"
    subprocess.run([*python, "-c", show], check=True, env=environment, cwd=ROOT)
    workers = ["-n", "auto"] if name == "address" else []  # those of threads need the cores
    command = [*python, "-m", "pytest", "-x", "-p", "no:cacheprovider", *workers, *tests]
    return subprocess.run(command, check=False, env=environment, cwd=ROOT).returncode


def _fixed_addresses() -> list[str]:
    """Return what starts a program without random addresses, where that is allowed.

    ThreadSanitizer needs its shadow memory where some kernels put something else.
    """
    command = ["setarch", "-R"]
    tried = shutil.which("setarch") and subprocess.run([*command, "true"], check=False)
    return command if tried and not tried.returncode else []


def main() -> int:
    """Build, and put the module where ``import mtkit`` finds it."""
    for name in SANITIZERS:
        if f"--sanitize={name}" in sys.argv[1:]:
            return sanitize(name)
    folder = os.path.join(ROOT, "build", "native")
    build(folder)
    print(install(module_in(folder), os.path.join(ROOT, "mtkit")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
