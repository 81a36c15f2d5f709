"""A model folder that lacks something is refused in one line: what, where, and what to do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from model_folders import write_folder

from mtkit.checkpoints import model_folder
from mtkit.checkpoints.folder_files import INDEX, MODEL_CONFIG, WEIGHTS
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError

SECOND = "model-00002-of-00002.safetensors"


def without(path: Path, *names: str) -> None:
    for name in names:
        (path / name).unlink()


def pickled(path: Path) -> None:
    without(path, INDEX, SECOND)
    (path / "model-00001-of-00002.safetensors").rename(path / "model.pth")


def cut(path: Path) -> None:
    (path / SECOND).write_bytes((path / SECOND).read_bytes()[:-4])


def quantized(path: Path) -> None:
    config = json.loads((path / MODEL_CONFIG).read_text())
    config["quantization_config"] = {"quant_method": "gptq"}
    (path / MODEL_CONFIG).write_text(json.dumps(config))


def as_pipes(path: Path) -> None:
    """Whoever opens one waits for its writer."""
    for weights in path.glob("*.safetensors"):
        weights.unlink()
        os.mkfifo(weights)


def unlisted(path: Path) -> None:
    index = json.loads((path / INDEX).read_text())
    index["weight_map"].pop("model.norm.weight")
    (path / INDEX).write_text(json.dumps(index))


def twice(path: Path) -> None:
    (path / SECOND).write_bytes((path / "model-00001-of-00002.safetensors").read_bytes())
    without(path, INDEX)


FAULTS: dict[str, tuple[Callable[[Path], None], type[MtkitError], str]] = {
    "config": (lambda path: without(path, MODEL_CONFIG), UsageError, f"has no {MODEL_CONFIG}; "),
    "no object": (
        lambda path: (path / MODEL_CONFIG).write_text("[1]") and None,
        FormatError,
        f"{MODEL_CONFIG}: is not a JSON object",
    ),
    "index": (
        lambda path: without(path, SECOND),
        UsageError,
        f"{INDEX}: weight_map: {SECOND} is missing, and 10 tensors with it; download",
    ),
    "pipes": (as_pipes, UsageError, f"{INDEX}: weight_map: model-00001-of-00002.safetensors is"),
    "pipes alone": (
        lambda path: [as_pipes(path), without(path, INDEX)][0],
        UsageError,
        f"looked for {WEIGHTS} and {INDEX}",
    ),
    "numbers": (
        lambda path: without(path, INDEX, SECOND),
        UsageError,
        f": weights: {SECOND} is missing; download the folder again",
    ),
    "pickle": (pickled, UnsupportedError, "is a pickle, which runs code when it is loaded; in"),
    "cut": (cut, FormatError, f"{SECOND}: data at offset "),
    "quantized": (
        quantized,
        UnsupportedError,
        f"{MODEL_CONFIG}: quantization_config: the weights are",
    ),
    "unlisted": (unlisted, FormatError, f"{INDEX}: weight_map: "),
    "twice": (twice, FormatError, f"{SECOND}: tensor "),
    "none": (
        lambda path: without(path, INDEX, SECOND, "model-00001-of-00002.safetensors"),
        UsageError,
        f"looked for {WEIGHTS} and {INDEX}",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_an_error_of_its_kind(name: str, tmp_path: Path) -> None:
    change, kind, message = FAULTS[name]
    path = write_folder(tmp_path / "model", files=2)
    assert model_folder.read(str(path)).tensors
    change(path)
    with pytest.raises(kind) as caught:
        model_folder.read(str(path))
    text = str(caught.value)
    assert type(caught.value) is kind
    assert text.startswith(str(path))
    assert message in text
    assert "\n" not in text


def test_what_is_refused_is_a_rule_of_the_survey() -> None:
    from mtkit.checkpoints import safetensors

    assert model_folder.REFUSED_RULES.keys() <= {*model_folder.RULES, *safetensors.INDEX_RULES}
