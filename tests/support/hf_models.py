"""Small model folders, and what llama.cpp's converter makes of them.

Those of ``../shared/hf-models``, and those of ``tests/data/hf_cases*.json.xz``, a class each, which
the scripts of ``../shared/hf-models/reference`` write and give their expected values.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import lzma
import os
from functools import cache
from typing import TYPE_CHECKING, Any

from support import CACHE, SHARED, TESTS, shared

from mtkit.conversion.model import convert_model
from mtkit.gguf.arrays import GgufArray

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from mtkit.gguf import GgufFile

KINDS = ("auto", "f32", "f16", "bf16", "q8_0")
_TYPES = {
    "UINT8": "u8", "UINT32": "u32", "INT32": "i32", "FLOAT32": "f32", "STRING": "string",
    "BOOL": "bool",
}  # fmt: skip
_LONGEST = 64
"""Values of an array that the golden file has one by one."""


MORE = "b-"
"""What the names of the 17 models of ``hf-models/more`` begin with."""
OWN = "hf_cases*.json.xz"
_WRITER = "reference/folders.py"


@cache
def _maker(script: str) -> ModuleType:
    path = shared(f"hf-models/{script}")
    location = importlib.util.spec_from_file_location(path.stem, path)
    assert location is not None
    assert location.loader is not None
    module = importlib.util.module_from_spec(location)
    location.loader.exec_module(module)
    return module


@cache
def cases() -> dict[str, dict[str, Any]]:
    """Return the description of each case."""
    found: dict[str, dict[str, Any]] = json.loads(shared("hf-models/cases.json").read_bytes())
    return found | own_cases()


@cache
def own_cases() -> dict[str, dict[str, Any]]:
    """Return the description of each case of our own, under the name of its class."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((TESTS / "data").glob(OWN)):
        found |= json.loads(lzma.decompress(path.read_bytes()))
    return found


def fields_of(name: str) -> dict[str, dict[str, Any]]:
    """Return class -> the fields of config.json in a file of cases that say sizes and kinds."""
    others = (
        "vocab_size", "architectures", "token_id", "multiplier", "multipliers",
        "quantization_config",
    )  # fmt: skip
    cases: dict[str, Any] = json.loads(lzma.decompress((TESTS / "data" / name).read_bytes()))
    configs = {case: cases[case]["files"]["config.json"] for case in cases if "-" not in case}
    return {
        case: {field: value for field, value in config.items() if not field.endswith(others)}
        for case, config in configs.items()
    }


@cache
def cases_with_parts() -> dict[str, dict[str, Any]]:
    """Return those of our own whose GGUF does not give all names of the folder back.

    For two of them the converter was mended: it wants a tokenizer in Python for Hunyuan-A13B, and
    calls itself without end for Baichuan.
    """
    path = TESTS / "data" / "hf_cases_middle.json.xz"
    found: dict[str, dict[str, Any]] = json.loads(lzma.decompress(path.read_bytes()))
    return found


@cache
def form_cases() -> dict[str, dict[str, Any]]:
    """Return folders with weights in other forms (``folders``), and such weights (``weights``)."""
    path = TESTS / "data" / "hf_forms.json.xz"
    found: dict[str, dict[str, Any]] = json.loads(lzma.decompress(path.read_bytes()))
    return found


def form_folder(name: str) -> Path:
    """Return the folder of such a case, which is written once."""
    return _written(name, form_cases()["folders"][name], _WRITER)


@cache
def more_cases() -> dict[str, dict[str, Any]]:
    """Return the descriptions of embedding models, classifiers, rerankers and others."""
    found: dict[str, dict[str, Any]] = json.loads(shared("hf-models/more/cases.json").read_bytes())
    return found


def more_names() -> list[str]:
    """Return the names of those, or one that is absent."""
    return list(more_cases()) if (SHARED / "hf-models").is_dir() else ["b-none"]


def case(name: str) -> dict[str, Any]:
    """Return the description of a case of either kind."""
    return (more_cases() if name.startswith(MORE) else cases())[name]


def known() -> dict[str, dict[str, Any]]:
    """Return the cases that are here: none without the shared folder."""
    return cases() if (SHARED / "hf-models").is_dir() else {}


def names() -> list[str]:
    """Return the names of the cases, or one that is absent."""
    return list(known()) or ["none"]


def folder(name: str) -> Path:
    """Return the folder of a case, which is written once."""
    scripts = {name.startswith(MORE): "more/make_models.py", name in own_cases(): _WRITER}
    return _written(name, case(name), scripts.get(True, "make_models.py"))


def written(name: str, description: dict[str, Any]) -> Path:
    """Return the folder of a case of another file, which is written once."""
    return _written(name, description, _WRITER)


def _written(name: str, description: dict[str, Any], script: str) -> Path:
    module = _maker(script)
    version = hashlib.sha256(json.dumps(description).encode()).hexdigest()[:8]
    out: Path = CACHE / "hf-models" / version / name
    if not out.is_dir():
        part = out.with_name(f"{name}.{os.getpid()}")
        module.write_case(part, name, description)
        moved = part / name
        try:
            moved.rename(out)
        except OSError:  # another process was faster
            assert out.is_dir()
    return out


def converted(run_folder: Path, name: str, kind: str = "auto") -> Path:
    """Return the GGUF of a case, converted once in a run whichever worker asks first."""
    out = run_folder / "converted" / f"{name}-{kind}.gguf"
    if not out.exists():
        part = out.with_name(f"{os.getpid()}-{out.name}")
        out.parent.mkdir(exist_ok=True)
        convert_model(folder(name), part, kind=kind, allow_loss=("ids", "ids-possible"))
        part.rename(out)
    return out


def own_kind(name: str) -> str:
    """Return the type that the weights of a case have."""
    first = next(iter(cases()[name]["shards"][0].values()))
    return {"BF16": "bf16", "F16": "f16", "F32": "f32"}[first[0]]


def expected_keys(name: str, kind: str) -> dict[str, tuple[str, Any]]:
    """Return key -> type and value, as the converter writes them."""
    return keys_as_read(case(name)["expected"][kind]["kv"])


def keys_as_read(written: dict[str, Any]) -> dict[str, tuple[str, Any]]:
    """Return the keys of a case in the form of ``keys_of``."""
    found = {}
    for key, (said, value) in written.items():
        is_array = said.startswith("ARRAY/")
        found[key] = _TYPES[said.removeprefix("ARRAY/")] + "[]" * is_array, value
    return found


def keys_of(file: GgufFile) -> dict[str, tuple[str, Any]]:
    """Return key -> type and value of a file; long arrays as count and hash."""
    return {
        key: (file.metadata.type_name(key), _value(value)) for key, value in file.metadata.items()
    }


def _value(value: Any) -> Any:
    if not isinstance(value, GgufArray):
        return value
    values = list(value)
    if len(values) <= _LONGEST:
        return values
    digest = hashlib.sha256(json.dumps(values).encode()).hexdigest()
    return {"count": len(values), "sha256": digest}
