"""Build the native core for development: ``python -m tools.native [--sanitize]``.

Builds with CMake and Ninja into build/native and puts the module into mtkit/, in seconds when
little changed. Warnings are errors here, and only here: an installation must not fail on those of
a newer compiler. ``--sanitize`` builds with address and undefined-behaviour sanitizers into
build/sanitize, beside a copy of the package, and runs the engine's tests with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SANITIZED_TESTS = [
    "tests/engine/test_engine.py",
    "tests/engine/test_engine_bert.py",
    "tests/engine/test_engine_decode.py",
    "tests/engine/test_engine_marks.py",
    "tests/engine/test_engine_models.py",
    "tests/engine/test_engine_offsets.py",
    "tests/engine/test_engine_scripts.py",
    "tests/engine/test_engine_segments.py",
    "tests/engine/test_engine_steps.py",
    "tests/patterns/test_pattern_native.py",
    "tests/formats/test_damage_tables.py",
]


def build(folder: str, *options: str) -> str:
    """Configure (once) and build into ``folder``; return the path of the module."""
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
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        subprocess.run(configure, check=True)
    subprocess.run(["cmake", "--build", folder], check=True)
    (name,) = [n for n in os.listdir(folder) if n.startswith("_native.") and n.endswith(".so")]
    return os.path.join(folder, name)


def install(module: str, package: str) -> str:
    """Put the module into a package folder, whole or not at all (it may be mapped)."""
    target = os.path.join(package, os.path.basename(module))
    shutil.copy(module, target + ".part")
    os.replace(target + ".part", target)
    return target


def sanitize() -> int:
    """Run the engine's tests with the sanitizers; return pytest's exit code."""
    folder = os.path.join(ROOT, "build", "sanitize")
    module = build(folder, "-DMTKIT_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=RelWithDebInfo")
    package = os.path.join(folder, "python", "mtkit")
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(
        os.path.join(ROOT, "mtkit"), package, ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    install(module, package)
    libraries = [
        subprocess.run(
            ["c++", f"-print-file-name={name}"], check=True, capture_output=True, text=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONPATH": os.path.dirname(package),
    }
    # Memory is what is tested here; some reference libraries do not load under the sanitizers.
    environment.pop("MTKIT_REQUIRE_REFERENCE", None)
    # An editable install or the current folder could bring the ordinary module instead.
    show = "import mtkit._native as n; print(n.__file__); assert 'sanitize' in n.__file__"
    subprocess.run([sys.executable, "-P", "-c", show], check=True, env=environment, cwd=ROOT)
    command = [sys.executable, "-P", "-m", "pytest", "-x", "-p", "no:cacheprovider"]
    command += SANITIZED_TESTS
    return subprocess.run(command, check=False, env=environment, cwd=ROOT).returncode


def main() -> int:
    """Build, and put the module where ``import mtkit`` finds it."""
    if "--sanitize" in sys.argv[1:]:
        return sanitize()
    print(install(build(os.path.join(ROOT, "build", "native")), os.path.join(ROOT, "mtkit")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
