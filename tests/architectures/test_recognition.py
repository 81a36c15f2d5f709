"""Which architecture a GGUF is of: what its metadata tell counts, not the order of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from model_folders import write_folder

from mtkit.architectures import architectures_of_name, tensor_match
from mtkit.architectures.tensor_match import recognize
from mtkit.base.record import replace
from mtkit.conversion.model import convert_model
from mtkit.errors import FormatError, UnsupportedError
from mtkit.gguf import open_gguf
from mtkit.gguf.draft import Draft
from mtkit.gguf.writer import Key

if TYPE_CHECKING:
    from pathlib import Path

    from mtkit.architectures import Architecture
    from mtkit.architectures.tensor_match import Recognition

CLASSES = ("Olmo3ForCausalLM", "Olmo2ForCausalLM", "MixtralForCausalLM", "RobertaModel")


def found(path: Path) -> Recognition:
    file = open_gguf(str(path))
    shapes = {tensor.name: tuple(reversed(tensor.shape)) for tensor in file.tensors}
    return recognize(file.metadata, shapes)


def changed(path: Path, *keys: Key) -> Path:
    draft = Draft.of(open_gguf(str(path)))
    for key in keys:
        draft.set(key)
    target = path.with_name("changed.gguf")
    target.write_bytes(b"".join(draft.chunks()))
    return target


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", CLASSES)
def test_the_order_of_the_table_does_not_count(
    name: str, turned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.gguf"
    folder = write_folder(tmp_path / "model", name, tokenizer="bbpe-8k")
    convert_model(folder, path, allow_loss=("ids", "ids-possible"))
    if turned:
        monkeypatch.setattr(
            tensor_match, "architectures_of_name", lambda name: architectures_of_name(name)[::-1]
        )
    one = found(path)
    assert (name in one.architecture.classes, one.tensors.faults) == (True, ())


def test_what_is_of_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.gguf"
    convert_model(write_folder(tmp_path / "model"), path)
    with pytest.raises(UnsupportedError, match="'other' is an architecture that"):
        found(changed(path, Key("general.architecture", "string", "other")))
    with pytest.raises(FormatError, match="not a whole number"):
        found(changed(path, Key("llama.block_count", "string", "two")))

    def none_fits(name: str) -> list[Architecture]:
        return [replace(one, fits=lambda _: False) for one in architectures_of_name(name)]

    monkeypatch.setattr(tensor_match, "architectures_of_name", none_fits)
    with pytest.raises(UnsupportedError, match="none of the llama models that mtkit knows"):
        found(path)
