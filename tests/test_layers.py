"""Each layer of the house imports only from those below it."""

import ast
from pathlib import Path

import mtkit

ROOT = Path(mtkit.__file__).parent

# From the ground up; a module may import from its own line and from those above it here.
LAYERS = [
    {"_version", "errors", "escape", "record", "_native"},
    {"binary", "core"},
    {"packed"},
    {"spec"},
    {"pipeline", "gguf"},
    {"engine"},
    {"formats", "checkpoints"},
    {
        "encoding",
        "spelling",
        "tokenizer",
        "loading",
        "hub",
        "conversion",
        "targets",
        "checkpoint_conversion",
        "probes",
        "compare",
        "chat",
        "chat_limits",
        "chat_sandbox",
        "llm",
        "inspection",
        "config",
    },
    {"commands"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def imported(path: Path) -> set[str]:
    """Absolute names of mtkit modules that a file imports, at run time or for types."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module == "mtkit":
                names |= {f"mtkit.{alias.name}" for alias in node.names}
            elif node.module.startswith("mtkit."):
                names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {a.name for a in node.names if a.name.startswith("mtkit.")}
    return names


def test_imports_point_down() -> None:
    paths = sorted(ROOT.rglob("*.py"))
    assert len(paths) > 10
    for path in paths:
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts == ("__init__",):
            continue  # the public API names every layer
        for name in imported(path):
            target = name.split(".")[1]
            if target.startswith("__"):
                continue
            assert target in LEVEL, f"{name}: no layer in tests/test_layers.py"
            assert LEVEL[target] <= LEVEL[parts[0]], f"{path.relative_to(ROOT)} imports {name}"


def test_the_native_core_has_one_door() -> None:
    importers = {p.name for p in ROOT.rglob("*.py") if "mtkit._native" in imported(p)}
    assert importers == {"core.py"}


def test_only_the_backend_calls_llama_cpp() -> None:
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            names += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if any(name.split(".")[0] == "llama_cpp" for name in names):
                assert path.parent.name == "llm", path
                assert path.stem.startswith("backend"), path
                assert node not in tree.body, f"{path}: imported before it is needed"


def test_one_module_asks_oniguruma() -> None:
    for path in sorted(ROOT.rglob("*.py")):
        if path.stem != "pattern_library":
            assert "onigurumacffi import" not in path.read_text(encoding="utf-8"), path


def test_format_modules_do_not_know_each_other() -> None:
    shared = {
        "contract",
        "__init__",
        "strict_json",
        "rank_spec",
        "remainder",
        "mnn_header",
    }  # two formats of MNN begin with the same lines
    paths = [p for p in sorted((ROOT / "formats").glob("*.py")) if p.stem not in shared]
    assert len(paths) > 10
    for path in paths:
        for name in imported(path):
            parts = name.split(".")
            if parts[1] != "formats" or len(parts) < 3:
                continue
            family = path.stem.split("_")[0]
            assert parts[2] in shared or parts[2].split("_")[0] == family, f"{path.stem}: {name}"


def test_gguf_container_knows_no_tokenizer() -> None:
    known = {"gguf", "binary", "errors", "escape", "packed", "record", "core"}
    paths = sorted((ROOT / "gguf").glob("*.py"))
    assert len(paths) > 5
    for path in paths:
        assert {name.split(".")[1] for name in imported(path)} <= known, path.name
