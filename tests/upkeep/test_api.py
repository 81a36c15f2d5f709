"""The public names are what ``mtkit`` exports, each with the type that checkers see."""

import ast
import importlib
import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import FIXTURES

import mtkit
from mtkit.pipeline import Pipeline
from mtkit.spec import Padding, replace
from mtkit.tokenizer.tokenizer import Tokenizer


def test_exports_are_declared_alike() -> None:
    tree = ast.parse(Path(mtkit.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
    }
    assert mtkit.__all__ == sorted(typed)
    assert dir(mtkit) == sorted([*typed, "__version__", "errors", "hf", "tiktoken"])
    for name, module in typed.items():
        assert getattr(mtkit, name) is getattr(importlib.import_module(str(module)), name)
        assert module != f"mtkit.{name}", f"importing {module} would replace mtkit.{name}"


def test_a_typed_program_may_use_it(tmp_path: Path) -> None:
    """The README's program and the types it gets, for a type checker that allows no gaps."""
    api = pytest.importorskip("mypy.api")
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", readme, re.S)
    types = {
        "tokenizer": "mtkit.tokenizer.tokenizer.Tokenizer",
        "ids": "list[int]",
        "text": "str",
        "gguf": "mtkit.gguf.file.GgufFile",
        "tokenizer.encode_batch([text, (text, text)])": "list[mtkit.pipeline.encoding.Encoding]",
        "tokenizer.decode_stream().push(0)": "str",
        "mtkit.generate": "def (",
    }
    asked = "".join(f"reveal_type({name})\n" for name in types)
    path = tmp_path / "program.py"
    wrong = (  # under --strict an error that does not come is one itself
        'mtkit.generate("x", top_k="many")  # type: ignore[arg-type]\n'
        'mtkit.generate("x", kv_type="q9")  # type: ignore[arg-type]\n'
        'mtkit.generate("x", temprature=1)  # type: ignore[call-arg]\n'
        'convert("a", "b", to="hf-model", kind="f16")\n'
        'convert("a", kind="q8_0", max_tensors=9)\n'
        'convert("a", tokenizer="b", metadata={})\n'
        'convert(tokenizer, "a", kind="f16")  # type: ignore[call-overload]\n'
        'convert("a", "b", to="hf-model", kind="q8_0")  # type: ignore[call-overload]\n'
        'convert("a", to="mtok", dense_modules=True)  # type: ignore[call-overload]\n'
        'convert("a", tokenizer="b", base="c")  # type: ignore[call-overload]\n'
    )
    asked += wrong
    path.write_text(f"{program}from mtkit import *\nload(text)\n{asked}", encoding="utf-8")
    said, _, code = api.run(["--strict", f"--cache-dir={tmp_path}", str(path)])
    assert code == 0, said
    revealed = re.findall(r'Revealed type is "(.*)"', said)
    assert len(revealed) == len(types)
    for found, expected in zip(revealed, types.values(), strict=True):
        assert found.replace("builtins.", "").startswith(expected)


def test_no_module_hides_a_function_of_its_package() -> None:
    """Importing ``mtkit.engine.NAME`` replaces what ``mtkit.engine`` calls NAME."""
    doors = sorted(Path(mtkit.__file__).parent.rglob("__init__.py"))
    assert len(doors) > 20
    for door in doors:
        tree = ast.parse(door.read_text(encoding="utf-8"))
        defined = {
            node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        }
        modules = {path.stem for path in door.parent.iterdir()}
        assert not defined & modules, door


def test_ids_come_as_a_buffer_of_int32() -> None:
    tokenizer = mtkit.load()
    for engine in (tokenizer.engine, Pipeline(tokenizer.spec)):
        found = Tokenizer(tokenizer.spec, engine=engine).encode_array("Hello, MNN!")
        ids = tokenizer.encode_ids("Hello, MNN!")
        assert (found.format, found.itemsize, found.tolist()) == ("i", 4, ids)


def test_a_batch_is_its_texts_and_pairs_filled_up() -> None:
    spec = mtkit.load(FIXTURES / "wordpiece" / "tokenizer.json").spec
    tokenizer = Tokenizer(replace(spec, padding=Padding(pad_id=0, pad_token="[PAD]")))
    texts = ["a word", ("a pair", "of texts"), "", "Hello, MNN! " * 5]
    alone = [
        tokenizer.encode(*(entry if isinstance(entry, tuple) else (entry,))) for entry in texts
    ]
    assert tokenizer.encode_batch(iter(texts)) == alone
    filled = tokenizer.encode_batch(texts, padding="file")
    assert {len(one.ids) for one in filled} == {len(alone[3].ids)}
    for one, short in zip(filled, alone, strict=True):
        missing = len(one.ids) - len(short.ids)
        assert one.ids == [*short.ids, *[0] * missing]
        assert one.attention_mask == [1] * len(short.ids) + [0] * missing


@pytest.mark.parametrize("name", ["bbpe-8k/tokenizer.json", "wordpiece/vocab.gguf", ""])
def test_a_tokenizer_goes_to_another_process(name: str) -> None:
    """As libraries for data do, with or without an engine at hand."""
    tokenizer = mtkit.load(FIXTURES / name) if name else mtkit.load()
    for _ in range(2):
        back = pickle.loads(pickle.dumps(tokenizer))
        assert (back.spec, back.source) == (tokenizer.spec, tokenizer.source)
        assert back.engine.name == tokenizer.engine.name
        assert back.encode("Hello, MNN!") == tokenizer.encode("Hello, MNN!")


def test_generate_names_its_options() -> None:
    from mtkit.settings import GenerateSettings
    from mtkit.settings.declaration import table

    settings = table(GenerateSettings)
    parameters = inspect.signature(mtkit.generate).parameters
    assert [*parameters][:3] == ["prompt", "model", "on_text"]
    assert {*parameters} == {*settings, "prompt", "on_text"}
    assert parameters["top_k"].default == settings["top_k"].default
    assert parameters["kv_type"].annotation == "KvType"


def test_interfaces_of_other_libraries_are_there_without_an_import() -> None:
    said = "import mtkit; print(mtkit.tiktoken.get_encoding, mtkit.errors.MtkitError)"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert "get_encoding" in done.stdout
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mtkit.nothing  # noqa: B018
