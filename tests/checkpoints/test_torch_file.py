"""Files of torch.save: tensors in both forms, and every trick of pickles and zips is an error."""

from __future__ import annotations

import json
import os
import random
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from adapters import linear_layers, write_adapter
from model_folders import write_folder
from torch_files import (
    HOOKS,
    number,
    numbers,
    pickle,
    saved,
    saved_before,
    state_dict,
    storage,
    table,
    tensor,
    text,
    zipped,
)

from mtkit.base.binary import Source
from mtkit.base.rules import BrokenRule
from mtkit.checkpoints import model_folder, torch_file
from mtkit.checkpoints.folder_files import (
    TORCH_INDEX,
    TORCH_WEIGHTS,
    WEIGHTS,
    tensors_in,
    tensors_of,
)
from mtkit.checks.checker import check
from mtkit.conversion.adapter_merge import merge_into_folder
from mtkit.conversion.model import convert_model
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.contract import WriteOptions

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = np.arange(24, dtype="<f4")
PLAIN = storage("0", 24)
STATE = table(
    {
        "a": tensor(PLAIN, (4, 6)),
        "turned": tensor(PLAIN, (6, 4), (1, 6)),
        "part": tensor(PLAIN, (2, 3), (6, 1), first=8),
        "one": tensor(PLAIN, (), (), first=5),
        "none": tensor(PLAIN, (0, 4)),
    }
)
EXPECTED = {
    "a": DATA.reshape(4, 6),
    "turned": DATA.reshape(4, 6).T,
    "part": DATA.reshape(4, 6)[1:3, 2:5],
    "one": DATA[5],
    "none": DATA[:0].reshape(0, 4),
}


def read(data: bytes) -> dict[str, np.ndarray]:
    source = Source("pytorch_model.bin", data)
    tensors = tensors_in(source, torch_file.read(source))
    return {stored.weight.name: stored.floats() for stored in tensors}


def zip_of(state: bytes) -> bytes:
    return saved(state, {"0": DATA.tobytes()})


FILES = {
    "zip": zip_of(STATE),
    "before 1.6": saved_before(STATE, {"0": (24, DATA.tobytes())}),
    "of a training": zip_of(table({"epoch": number(3), "state_dict": STATE})),
    "with attributes": zip_of(HOOKS[:-2] + b")R" + STATE[1:] + table({"_metadata": HOOKS}) + b"b"),
    "parameters": zip_of(
        table({name: b"ctorch._utils\n_rebuild_parameter\n(" + value + b"\x88" + HOOKS + b"tR"
               for name, value in (("a", tensor(PLAIN, (4, 6))),)})
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_tensors(name: str) -> None:
    tensors = read(FILES[name])
    assert tensors.keys() == ({"a"} if name == "parameters" else EXPECTED.keys())
    for key, values in tensors.items():
        assert values.shape == EXPECTED[key].shape
        assert np.array_equal(values, EXPECTED[key]), key


def test_numbers_of_all_kinds() -> None:
    kinds = {"HalfStorage": "<f2", "DoubleStorage": "<f8", "CharStorage": "i1", "IntStorage": "<i4"}
    for kind, dtype in kinds.items():
        data = DATA.astype(dtype).tobytes()
        state = table({"a": tensor(storage("0", 24, kind), (24,))})
        assert np.array_equal(read(saved(state, {"0": data}))["a"], DATA)


def loaded(body: bytes) -> bytes:
    """A state dict with something else for its tensor."""
    return zip_of(b"}" + text("a") + body + b"s")


SHELL = b"(" + text("id") + b"t"
EXPLOITS = {
    "GLOBAL": b"cos\nsystem\n" + SHELL + b"R",
    "STACK_GLOBAL": text("posix") + text("system") + b"\x93" + SHELL + b"R",
    "INST": b"(" + text("id") + b"ios\nsystem\n",
    "OBJ": b"(cos\nsystem\n" + text("id") + b"o",
    "NEWOBJ": b"ctorch\nSize\n" + SHELL + b"\x81",
    "NEWOBJ_EX": b"ctorch\nSize\n)}\x92",
    "EXT1": b"\x82\x01",
    "EXT4": b"\x84\x01\x00\x00\x00",
    "NEXT_BUFFER": b"\x97",
    "PERSID": b"Pstorage\n",
    "builtins": b"cbuiltins\nexec\n" + SHELL + b"R",
    "dotted": text("torch") + text("nn.Module") + b"\x93",
    "method": text("collections") + text("OrderedDict.fromkeys") + b"\x93" + SHELL + b"R",
    "load in a load": b"ctorch.storage\n_load_from_bytes\n(B\x00\x00\x00\x00tR",
    "numpy": b"cnumpy.core.multiarray\n_reconstruct\n)R",
    "runpy": b"crunpy\n_run_code\n)R",
    "pip": b"cpip\nmain\n)R",
    "getattr": b"c__builtin__\ngetattr\n)R",
    "a call of a name that is no function": b"ctorch\nFloatStorage\n)R",
    "a call of a text": text("os.system") + SHELL + b"R",
    "a call of a call": HOOKS + SHELL + b"R",
    "arguments that are a list": b"ccollections\nOrderedDict\n]R",
    "state of a tensor": tensor(PLAIN, (4, 6)) + table({"__class__": number(1)}) + b"b",
    "state of a name": b"ctorch\nSize\n}b",
    "codec": b"c_codecs\nencode\n(" + text("a") + text("rot13") + b"tR",
}
DAMAGED = {
    "no tensor": number(3),
    "a name alone": b"ctorch\nSize\n",
    "memo without a value": b"h\x05",
    "memo of nothing": b"(q\x00",
    "integer of 2 GB": b"\x8b\xff\xff\xff\x7f1",
    "digits": b"L" + b"9" * 3000 + b"L\n",
    "text of 2^63 bytes": b"\x8d" + b"\xff" * 7 + b"\x7f",
    "text that is not UTF-8": b"X\x01\x00\x00\x00\xff",
    "keys that are tuples": b"}" + b"))\x86q\x00h\x00\x86q\x00h\x00\x86" + b"Ns",
    "keys that are lists": b"}]Ns",
    "a key twice": b"}" + text("x") + b"Ns" + text("x") + b"Ns",
    "an append to a table": b"}Na",
    "no mark": b"t",
    "the stack empty": b"000000",
    "values behind": b"NN",
    "a line without an end": b"I" + b"1" * 10_000,
    "protocol": b"\x80\x09",
    "a storage that is no tuple": text("storage") + b"Q",
    "a storage by another name": b"(" + text("module") + text("x") + b"tQ",
    "a storage that is missing": tensor(storage("7", 24), (4, 6)),
    "a storage too long": tensor(storage("0", 25), (4, 6)),
    "a storage too short": tensor(storage("0", 23), (4, 5)),
    "of another kind": tensor(storage("0", 24, "DoubleStorage"), (4, 6)),
    "a storage with a path": tensor(storage("../data.pkl", 24), (4, 6)),
    "beyond": tensor(PLAIN, (5, 6)),
    "beyond by its offset": tensor(PLAIN, (4, 6), first=1),
    "beyond by its strides": tensor(PLAIN, (4, 6), (7, 1)),
    "before": tensor(PLAIN, (4, 6), first=-1),
    "strides that go back": tensor(PLAIN, (4, 6), (-6, 1)),
    "one number many times": tensor(PLAIN, (1 << 20, 1 << 20), (0, 0)),
    "strides missing": tensor(PLAIN, (4, 6), (1,)),
    "hundred axes": tensor(PLAIN, (1,) * 100),
    "shape of texts": tensor(PLAIN, (4, 6)).replace(numbers((4, 6)), text("46"), 1),
}


@pytest.mark.parametrize("name", [*EXPLOITS, *DAMAGED])
def test_a_trick_is_one_error(name: str) -> None:
    """Nothing is imported, nothing called; the error says what the pickle asked for."""
    body = {**EXPLOITS, **DAMAGED}[name]
    for data in (loaded(body), zip_of(body), saved_before(body, {"0": (24, DATA.tobytes())})):
        with pytest.raises(BrokenRule) as caught:
            read(data)
        assert "\n" not in str(caught.value)
    if name in EXPLOITS:
        assert caught.value.finding.rule is torch_file.PICKLE


def test_what_takes_long_or_much_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mtkit.checkpoints.pickles.MOST_STEPS", 1000)
    for body in (b"]" * 2000, b"(" * 2000, b"N" + b"\x85" * 2000, b"]" + b"2" * 2000):
        with pytest.raises(BrokenRule, match="steps"):
            read(loaded(body))


def swap(old: bytes, new: bytes, *, last: bool = False) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        place = data.rindex(old) if last else data.index(old)
        return data[:place] + new + data[place + len(old) :]

    return change


def again(data: bytes) -> bytes:
    """The list names data.pkl twice: the second is the entry of byteorder."""
    return swap(b"archive/byteorder", b"archive/data.pkl\0", last=True)(data)


def moved(data: bytes, place: int) -> bytes:
    """The entry of byteorder is elsewhere."""
    name = data.rindex(b"archive/byteorder")
    return data[: name - 4] + place.to_bytes(4, "little") + data[name:]


def overlapping(data: bytes) -> bytes:
    """The entry of data.pkl claims what is behind it: in its header and in the list."""
    for name in (data.index(b"archive/data.pkl"), data.rindex(b"archive/data.pkl")):
        at = name - 12 if name < len(data) // 2 else name - 26
        size = int.from_bytes(data[at : at + 4], "little") + 50
        data = data[:at] + size.to_bytes(4, "little") * 2 + data[at + 8 :]
    return data


ENTRY, LIST, END = b"PK\3\4", b"PK\1\2", b"PK\5\6"
ZIPS: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda _: b"",
    "the head alone": lambda data: data[:4],
    "cut": lambda data: data[:-1],
    "a comment": lambda data: data[:-2] + b"\1\0x",
    "something in front": lambda data: b"MZ" + data,
    "something between": lambda data: data.replace(END, b"xxxx" + END),
    "a name in its own header": swap(b"archive/data.pkl", b"archive/data.pk1"),
    "a name in the list": swap(b"archive/data.pkl", b"archive/data.pk1", last=True),
    "two of a name": again,
    "no entry where the list says": swap(ENTRY, b"PK\3\5"),
    "a list that is none": swap(LIST, b"PK\1\3"),
    "compressed": lambda _: zipped(
        {"data.pkl": pickle(STATE), "data/0": DATA.tobytes()}, method=zipfile.ZIP_DEFLATED),
    "many entries": lambda data: data[:-14] + b"\xff\xff\xff\xff" + data[-10:],
    "big-endian": lambda data: data.replace(b"little", b"big123"),
    "no data.pkl": lambda _: zipped({"a": b""}),
    "two folders": lambda data: data.replace(b"archive/version", b"brchive/version"),
    "a program": lambda _: zipped({"data.pkl": pickle(STATE), "constants.pkl": b""}),
    "entries that overlap": overlapping,
    "an entry beyond the list": lambda data: moved(data, len(data) - 10),
    "encrypted": lambda data: data.replace(ENTRY + b"\x14\0\0\0", ENTRY + b"\x14\0\1\0", 1),
    "7z": lambda _: b"7z\xbc\xaf\x27\x1c" + bytes(40),
    "a page": lambda _: b"<!DOCTYPE html><html>",
}  # fmt: skip


@pytest.mark.parametrize("name", ZIPS)
def test_a_zip_that_lies_is_one_error(name: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(ZIPS[name](FILES["zip"]))
    assert "\n" not in str(caught.value)


def mutated(draw: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(changed))
        kind = draw.randrange(4)
        if kind == 0:
            changed[place] = draw.randrange(256)
        elif kind == 1:
            changed[place] ^= 1 << draw.randrange(8)
        elif kind == 2:
            del changed[place : place + draw.randint(1, 8)]
        else:
            start = draw.randrange(len(changed))
            changed[place:place] = changed[start : start + draw.randint(1, 30)]
    return bytes(changed)


MUTANTS = int(os.environ.get("MTKIT_MUTANTS", "600"))


def test_mutants_are_a_value_or_one_error() -> None:
    draw, values = random.Random(63), 0
    for number_ in range(MUTANTS):
        if number_ % 3:
            name = draw.choice(list(FILES))
            data = mutated(draw, FILES[name])
        else:  # the pickle alone, in a sound zip
            data = zip_of(mutated(draw, STATE))
        try:
            values += len(read(data)) > 0
        except FormatError as error:
            assert "\n" not in str(error)
    assert 0 < values < MUTANTS


def test_a_folder_of_pickles_is_that_of_safetensors(tmp_path: Path) -> None:
    """The same GGUF, from one file and from shards with an index; and no merge into it."""
    base = write_folder(tmp_path / "base", kind="F32")
    before = convert_model(base, tmp_path / "a.gguf", options=WriteOptions(name="m"))
    adapter = write_adapter(tmp_path / "lora", base, linear_layers(base, ("q_proj",)))
    tensors = {t.weight.name: t.floats() for t in tensors_of(str(base / WEIGHTS))}
    (base / WEIGHTS).unlink()
    (base / TORCH_WEIGHTS).write_bytes(state_dict(tensors))
    assert model_folder.sniff(str(base))
    whole = convert_model(base, tmp_path / "b.gguf", options=WriteOptions(name="m"))
    (base / TORCH_WEIGHTS).unlink()
    names = {}
    for number_, keys in enumerate((list(tensors)[:5], list(tensors)[5:]), 1):
        file = f"pytorch_model-{number_:05d}-of-00002.bin"
        (base / file).write_bytes(state_dict({key: tensors[key] for key in keys}))
        names.update(dict.fromkeys(keys, file))
    (base / TORCH_INDEX).write_text(json.dumps({"weight_map": names}))
    shards = convert_model(base, tmp_path / "c.gguf", options=WriteOptions(name="m"))
    contents = [Path(done.path).read_bytes() for done in (before, whole, shards)]
    assert contents[0] == contents[1] == contents[2]
    report = check(str(base), deep=True)
    assert not [finding for finding in report.findings if finding.is_error]
    with pytest.raises(UnsupportedError, match="merging needs"):
        merge_into_folder(str(base), [str(adapter)])
