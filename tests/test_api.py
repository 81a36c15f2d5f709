"""The public names are what ``mtkit`` exports, each with the type that checkers see."""

import ast
from pathlib import Path

import mtkit
from mtkit.pipeline import Pipeline
from mtkit.tokenizer import Tokenizer


def test_exports_are_declared_once() -> None:
    tree = ast.parse(Path(mtkit.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
    }
    assert typed == mtkit._EXPORTS
    assert list(mtkit._EXPORTS) == sorted(mtkit._EXPORTS)
    assert dir(mtkit) == sorted([*typed, "__version__"])


def test_no_module_hides_an_export() -> None:
    for name, module in mtkit._EXPORTS.items():
        assert module != f"mtkit.{name}", f"importing {module} would replace mtkit.{name}"


def test_no_module_of_the_engine_hides_a_function() -> None:
    """Importing ``mtkit.engine.NAME`` replaces what ``mtkit.engine`` calls NAME."""
    tree = ast.parse((Path(mtkit.__file__).parent / "engine" / "__init__.py").read_text("utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    modules = {path.stem for path in (Path(mtkit.__file__).parent / "engine").glob("*.py")}
    assert not defined & modules


def test_ids_come_as_a_buffer_of_int32() -> None:
    tokenizer = mtkit.load()
    for engine in (tokenizer.engine, Pipeline(tokenizer.spec)):
        found = Tokenizer(tokenizer.spec, engine=engine).encode_array("Hello, MNN!")
        ids = tokenizer.encode_ids("Hello, MNN!")
        assert (found.format, found.itemsize, found.tolist()) == ("i", 4, ids)
