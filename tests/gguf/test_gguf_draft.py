"""Files made from other files: what is not changed stays byte for byte, cut and joined is whole,
and commands take a set of files by its first.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import gguf_layout as lay
import pytest
from gguf_layout import Layout
from hypothesis import given
from hypothesis import strategies as st
from support import VOCABULARIES, Run, one_line, reference, shared

import mtkit
from mtkit.base.binary import Source
from mtkit.errors import FormatError, UnsupportedError, UsageError
from mtkit.gguf import GgufFile, open_gguf
from mtkit.gguf.digests import digests
from mtkit.gguf.draft import Draft, parse_key
from mtkit.gguf.file import is_edit_unfinished
from mtkit.gguf.in_place import InPlace
from mtkit.gguf.shards import merge_shards, open_whole, shard_file_names, split_model
from mtkit.gguf.types import BY_NAME, TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, gguf_bytes

MODEL = os.path.join(os.path.dirname(mtkit.__file__), "data", "default-model.gguf")
F32 = TENSOR_TYPES[0]


def read(data: bytes, name: str = "made.gguf") -> GgufFile:
    return open_gguf(Source(name, data))


def bytes_of(draft: Draft) -> bytes:
    return b"".join(draft.chunks())


@pytest.mark.parametrize("version", [2, 3])
def test_what_is_not_changed_stays(version: int) -> None:
    """But padding, which becomes zero."""
    file = read(lay.sample(Layout(version)))
    data = bytes_of(Draft.of(file))
    assert data[: file.data_offset] == bytes(file.data[: file.data_offset])
    made = read(data)
    assert [bytes(made.tensor_data(one)) for one in made.tensors] == [
        bytes(file.tensor_data(one)) for one in file.tensors
    ]
    assert not made.trailing_bytes


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_vocabulary_stays(name: str) -> None:
    path = shared(f"gguf-vocab/ggml-vocab-{name}.gguf")
    assert bytes_of(Draft.of(open_gguf(path))) == path.read_bytes()


@pytest.mark.parametrize("layout", [Layout(1), Layout(3, ">")])
def test_other_layouts_are_not_rewritten(layout: Layout) -> None:
    with pytest.raises(UnsupportedError, match="is not rewritten"):
        Draft.of(read(lay.sample(layout)))


NAMES = ["a.a", "b", "c.very.long.name.indeed", "general.alignment", "d"]


@st.composite
def models(draw: st.DrawFn) -> bytes:
    """Draw a file: some keys, an alignment, tensors of odd sizes."""
    keys = [Key(name, "u32", 64 if "align" in name else len(name))
            for name in draw(st.lists(st.sampled_from(NAMES), unique=True))]  # fmt: skip
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=12))
    tensors = [
        NewTensor(f"t{number}", (size,), F32, os.urandom(4 * size))
        for number, size in enumerate(sizes)
    ]
    return gguf_bytes(keys, tensors)


@given(models(), st.integers(1, 6) | st.none(), st.integers(1, 400) | st.none(), st.booleans())
def test_cut_and_joined_is_the_file(
    tmp_path_factory: pytest.TempPathFactory,
    data: bytes,
    tensors: int | None,
    limit: int | None,
    first: bool,
) -> None:
    folder = tmp_path_factory.mktemp("split")
    file = read(data)
    parts = split_model(file, max_bytes=limit, max_tensors=tensors, first_without_tensors=first)
    paths = shard_file_names(str(folder / "m.gguf"), len(parts))
    for path, part in zip(paths, parts, strict=True):
        with open(path, "wb") as out:
            out.write(bytes_of(part))
        assert tensors is None or len(part.tensors) <= tensors
        room = sum(
            -(-len(t.data) // file.alignment) * file.alignment for t in part.tensors.values()
        )
        assert limit is None or len(part.tensors) < 2 or room <= limit
    assert not parts[0].tensors or not first
    if len(parts) > 1:
        assert bytes_of(merge_shards(open_gguf(paths[0]))) == data


def test_a_set_that_is_not_whole_is_not_joined(tmp_path: Path) -> None:
    parts = split_model(open_gguf(MODEL), max_tensors=10)
    paths = shard_file_names(str(tmp_path / "m.gguf"), len(parts))
    for path, part in zip(paths, parts, strict=True):
        with open(path, "wb") as out:
            out.write(bytes_of(part))
    with pytest.raises(UsageError, match="is file 2 of"):
        merge_shards(open_gguf(paths[1]))
    again = split_model(open_gguf(paths[0]), max_tensors=3)
    assert [*map(bytes_of, again)] == [*map(bytes_of, split_model(open_gguf(MODEL), max_tensors=3))]
    os.unlink(paths[2])
    with pytest.raises(FormatError, match=r"1 of \d files is missing"):
        merge_shards(open_gguf(paths[0]))
    with pytest.raises(UsageError, match="is not a shard"):
        merge_shards(open_gguf(MODEL))
    with pytest.raises(UsageError, match="nothing to split"):
        split_model(read(gguf_bytes([Key("a", "u8", 1)])), max_tensors=1)


def test_a_set_of_one_file_is_joined(tmp_path: Path) -> None:
    """A model below --max-size is one part, as gguf-split makes it."""
    (part,) = split_model(open_gguf(MODEL), max_bytes=1 << 40)
    (path,) = shard_file_names(str(tmp_path / "m.gguf"), 1)
    Path(path).write_bytes(bytes_of(part))
    assert bytes_of(merge_shards(open_gguf(path))) == Path(MODEL).read_bytes()


WRITTEN: list[tuple[str, list[str]]] = [
    ("new.gguf", ["edit m.gguf --set general.name=string:other -o new.gguf"]),
    ("new.gguf", ["edit m.gguf --rename-key general.name=x.name --unset x.name -o new.gguf"]),
    ("m.gguf", ["edit m.gguf --set general.file_type=u32:7 --in-place"]),
    ("parts/m-00001-of-00005.gguf", ["split m.gguf --max-tensors 9 -o parts"]),
    ("parts/m-00001-of-00006.gguf",
     ["split m.gguf --max-tensors 9 --no-tensor-first-split -o parts"]),
    ("joined.gguf", ["split m.gguf --max-tensors 9 -o parts",
                     "merge parts/m-00001-of-00005.gguf -o joined.gguf"]),
    ("back.gguf", ["convert-endian m.gguf -o big.gguf", "convert-endian big.gguf -o back.gguf"]),
]  # fmt: skip


@pytest.mark.parametrize(("written", "lines"), WRITTEN)
def test_llama_cpp_loads_what_is_written(
    mtkit: Run, tmp_path: Path, written: str, lines: list[str]
) -> None:
    """And computes the same."""
    reference("llama_cpp")
    (tmp_path / "m.gguf").write_bytes(Path(MODEL).read_bytes())
    for line in lines:
        done = mtkit(*line.split(), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    both = [
        mtkit("generate", "Once upon", "-m", path, "-n", "12", "--temp", "0", "-q", cwd=tmp_path)
        for path in (written, MODEL)
    ]
    assert [done.returncode for done in both] == [0, 0], both[0].stderr
    assert both[0].stdout == both[1].stdout


def test_keys_and_tensors_are_renamed_in_their_place() -> None:
    data = lay.sample(Layout())
    draft = Draft.of(read(data))
    names = list(draft.keys)
    draft.rename_key("a.u32", "a.renamed")
    draft.rename_tensor("t.q8", "t.renamed")
    draft.unset("a.bool")
    draft.set(Key("a.string", "string", "another"))
    made = read(bytes_of(draft))
    wanted = [n.replace("a.u32", "a.renamed") for n in names if n != "a.bool"]
    assert list(made.metadata) == wanted
    assert made.metadata["a.renamed"] == 2**32 - 1
    assert made.metadata["a.string"] == "another"
    assert [tensor.name for tensor in made.tensors] == ["t.f32", "t.renamed"]
    for before, after in zip(read(data).tensors, made.tensors, strict=True):
        assert bytes(made.tensor_data(after)) == bytes(read(data).tensor_data(before))
    with pytest.raises(UsageError, match=r"is it a\.u8"):
        draft.unset("a.u9")
    with pytest.raises(UsageError, match="already"):
        draft.rename_key("a.u8", "a.i8")
    with pytest.raises(UsageError, match="is empty"):
        draft.rename_tensor("t.f32", "")


VALUES = [
    ("u8:255", "u8", 255), ("i16:-3", "i16", -3), ("u32:0x10", "u32", 16), ("f32:0.5", "f32", 0.5),
    ("bool:false", "bool", False), ("str:a:b", "string", "a:b"), ("string:", "string", ""),
    ("u32[]:[1, 2]", "u32[]", [1, 2]), ("bool[]:[true]", "bool[]", [True]),
    ('str[]:["a", "\u4f60"]', "string[]", ["a", "\u4f60"]), ("f64[]:[1, 0.25]", "f64[]", [1, 0.25]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "value"), VALUES)
def test_values_as_they_are_typed(text: str, kind: str, value: object) -> None:
    key = parse_key("k", text, read(gguf_bytes([])).metadata)
    assert (key.type, key.value) == (kind, value)
    made = read(gguf_bytes([key])).metadata
    assert made.type_name("k") == kind
    assert (list(made["k"]) if kind.endswith("[]") else made["k"]) == value


@pytest.mark.parametrize(
    "text",
    ["u8:256", "u8:-1", "u8:1.5", "u8:", "bool:1", "bool:True", "bool:0", "f32:x", "u32[]:1",
     "u32[]:[1.5]", "u32[]:[true]", "bool[]:[1]", "str[]:[1]", "u8[]:[", "array:1", "plain",
     "f32[]:[" * 40, "u8[]:[256]"],
)  # fmt: skip
def test_values_that_are_none(text: str) -> None:
    with pytest.raises(UsageError):
        parse_key("k", text, read(gguf_bytes([])).metadata)


def test_a_key_keeps_its_type() -> None:
    metadata = read(lay.sample(Layout())).metadata
    assert parse_key("a.i8", "-5", metadata).type == "i8"
    assert parse_key("a.string", "https://a.b", metadata).value == "https://a.b"
    assert set(BY_NAME) >= {metadata.type_name("a.i8")}


def test_hashes_are_those_of_the_gguf_package(tmp_path: Path) -> None:
    reference("gguf")
    script = [sys.executable, "-m", "gguf.scripts.gguf_hash", MODEL]
    done = subprocess.run(script, capture_output=True, text=True, check=True, cwd=tmp_path)
    wanted = {tuple(line.split(None, 2)) for line in done.stdout.splitlines() if MODEL in line}
    found = {
        (algorithm, digest, f"{MODEL}{':' * bool(tensor)}{tensor}")
        for algorithm, digest, tensor in digests([open_gguf(MODEL)], ("sha256", "sha1", "uuid"))
    }
    assert found == wanted
    assert len(found) > 70


KILLS = int(os.environ.get("MTKIT_KILLS") or 8)
KILLED = """
import sys
from mtkit.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("command", ["edit", "edit --in-place", "split", "merge", "convert-endian"])
def test_killed_at_any_moment_leaves_the_old_or_the_new(tmp_path: Path, command: str) -> None:
    """Whatever carries the final name is whole; ``MTKIT_KILLS`` says how often."""
    big = tmp_path / "big.gguf"
    tensors = [NewTensor(f"t{n}", (1 << 18,), F32, bytes([n]) * (1 << 20)) for n in range(24)]
    big.write_bytes(gguf_bytes([Key("a", "u32", 1)], tensors))
    out = tmp_path / "out"
    out.mkdir()
    new = out / "new.gguf"
    args = {
        "edit": ["edit", big, "--set", "a=2", "-o", new, "--force"],
        "edit --in-place": ["edit", new, "--set", "a=2", "--in-place"],
        "split": ["split", big, "--max-tensors", 8, "-o", out, "--force"],
        "merge": ["merge", tmp_path / "big-00001-of-00003.gguf", "-o", new, "--force"],
        "convert-endian": ["convert-endian", big, "-o", new, "--force"],
    }[command]  # fmt: skip
    run = partial(
        subprocess.Popen, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path
    )
    if command == "merge":
        cut = [sys.executable, "-c", KILLED, "split", str(big), "--max-tensors", "8"]
        assert run(cut).wait() == 0
    if "--in-place" in args:
        new.write_bytes(big.read_bytes())
    argv = [sys.executable, "-c", KILLED, *map(str, args)]
    began = time.monotonic()
    assert run(argv).wait() == 0
    took = time.monotonic() - began
    whole = {p.name: {hashlib.sha256(p.read_bytes()).digest()} for p in out.iterdir()}
    if "--in-place" in args:
        whole[new.name].add(hashlib.sha256(big.read_bytes()).digest())
    rng = random.Random(command)
    killed = 0
    for _ in range(KILLS):
        if "--in-place" in args:
            new.write_bytes(big.read_bytes())
        process = run(argv)
        time.sleep(rng.uniform(0.2, 1.1) * took)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        if is_edit_unfinished(str(new)):
            InPlace(str(new)).close()
        for path in out.iterdir():
            if path.name.endswith(".gguf"):
                assert hashlib.sha256(path.read_bytes()).digest() in whole[path.name]
            else:
                assert path.name.endswith(".part")
                path.unlink()
    assert killed


JOINED_MODEL = Path(MODEL)


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """Return the first of three or more files."""
    parts = split_model(open_gguf(JOINED_MODEL), max_tensors=12)
    assert len(parts) > 2
    paths = shard_file_names(str(tmp_path / "model.gguf"), len(parts))
    for path, part in zip(paths, parts, strict=True):
        Path(path).write_bytes(b"".join(part.chunks()))
    return Path(paths[0])


def test_a_set_is_what_it_was_cut_from(first: Path) -> None:
    whole, model = open_whole(str(first)), open_gguf(str(JOINED_MODEL))
    assert [*whole.metadata] == [*model.metadata]
    assert [one.name for one in whole.tensors] == [one.name for one in model.tensors]
    for tensor in model.tensors:
        assert whole.tensor_data(whole.names[tensor.name]) == model.tensor_data(tensor)


@pytest.mark.parametrize(
    "line",
    [
        ("edit", "--set", "general.name=renamed", "--rename-tensor", "output_norm.weight=o"),
        ("edit", "--unset", "tokenizer.chat_template"),
        ("trim", "--corpus", __file__, "--coverage", "0.9"),
    ],
)
def test_a_command_does_what_it_does_with_the_whole(
    line: tuple[str, ...], first: Path, mtkit: Run, tmp_path: Path
) -> None:
    command, *options = line
    made = [tmp_path / f"of-{kind}.gguf" for kind in ("set", "whole")]
    for source, target in zip((first, JOINED_MODEL), made, strict=True):
        done = mtkit(command, source, *options, "-o", target)
        assert (done.returncode, done.stderr) == (0, b"")
    assert made[0].read_bytes() == made[1].read_bytes()


def test_a_set_is_split_and_compared_as_the_whole(first: Path, mtkit: Run, tmp_path: Path) -> None:
    assert mtkit("diff", first, JOINED_MODEL).returncode == 0
    for source, folder in ((first, "of-set"), (JOINED_MODEL, "of-whole")):
        done = mtkit("split", source, "--max-tensors", 20, "-o", tmp_path / folder)
        assert done.returncode == 0, done.stderr
    a, b = (sorted((tmp_path / name).iterdir()) for name in ("of-set", "of-whole"))
    assert [one.read_bytes() for one in a] == [one.read_bytes() for one in b]
    assert a[0].name.startswith("model-00001-of-")


def test_a_set_is_quantized_as_the_whole(first: Path, mtkit: Run, tmp_path: Path) -> None:
    reference("llama_cpp")
    made = []
    for number, source in enumerate((first, JOINED_MODEL)):
        target = tmp_path / f"{number}.gguf"
        done = mtkit("quantize", source, "--type", "Q8_0", "--allow-requantize", "-o", target)
        assert done.returncode == 0, done.stderr
        made.append(target)
    assert mtkit("diff", *made).returncode == 0


def test_an_edited_file_of_a_set_says_where_it_loads(
    first: Path, mtkit: Run, tmp_path: Path
) -> None:
    (tmp_path / "new").mkdir()
    same = tmp_path / "new" / first.name
    second = first.name.replace("-00001-", "-00002-")
    done = mtkit("edit", first, "--set", "general.name=x", "-o", same)
    assert done.returncode == 0
    assert f"it loads once {same.with_name(second)} is there, too".encode() in done.stderr
    assert len(open_gguf(str(same)).tensors) == 12
    for other in first.parent.glob("model-0000[2-9]*"):
        shutil.copy(other, same.parent)
    done = mtkit("edit", first, "--set", "general.name=x", "-o", same, "--force")
    assert (done.returncode, done.stderr) == (0, b"")
    odd = tmp_path / "odd.gguf"
    done = mtkit("edit", first.with_name(second), "--set", "a.b=u8:1", "-o", odd)
    assert b"llama.cpp finds it only as NAME-00002-of-" in done.stderr


def test_a_set_by_other_names_is_called_one(first: Path, mtkit: Run, tmp_path: Path) -> None:
    odd, whole = tmp_path / "renamed_1.gguf", tmp_path / "whole.gguf"
    shutil.copy(first, odd)
    for command in (("merge", odd, "-o", whole), ("generate", "a", "-m", odd, "-n", 1)):
        line = one_line(mtkit(*command), 3)
        assert "is file 1 of " in line
        assert "rename it to NAME-00001-of-" in line
    parts = sorted(first.parent.glob("model-0000*"))
    (tmp_path / "cat").mkdir()
    for name in ("joined.gguf", first.name):
        joined = tmp_path / "cat" / name
        joined.write_bytes(b"".join(part.read_bytes() for part in parts))
        line = one_line(mtkit("merge", joined, "-o", whole), 3)
        assert "has another GGUF behind its tensors, as cat puts files one behind the other" in line
        said = mtkit("check", joined).stdout
        assert b"another GGUF, as cat puts files one behind the other" in said
