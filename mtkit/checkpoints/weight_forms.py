"""Forms of weights that are not read: how their files are called, and how to get safetensors.

A folder whose weights are all in such a form is refused, because what remains of it is a tokenizer.
Beside a model.safetensors they are other copies of the same weights.

Source: transformers, utils/__init__.py (names of weights), modeling_utils.py
(``_get_resolved_checkpoint_files``); huggingface_hub, serialization.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase

from mtkit.architectures.config import class_of
from mtkit.base.escape import shown
from mtkit.base.record import Record
from mtkit.checkpoints.folder_files import INDEX, MODEL_CONFIG, is_weights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any


class Form(Record):
    """A form of weights.

    Attributes:
        patterns: Names of its files, in small letters.
        what: What such a file is or has, behind its name.
        advice: What to do; ``{loader}`` is the class of transformers that loads the whole model.
        is_pickle: Loading it runs code.
    """

    patterns: tuple[str, ...]
    what: str
    advice: str
    is_pickle: bool = False


_SAVED = "in Python: transformers.{loader}.from_pretrained(FOLDER%s).save_pretrained(NEW)%s"
_ORIGINAL = "take the repository of the model it was made from, with model.safetensors"
_PICKLE = "is a pickle, which runs code when it is loaded"
_BY_PICKLE = _SAVED % ("", " writes model.safetensors")
_EITHER = "%s, which only transformers 4 reads"
_INNER = Form((), "is in a folder of its own", "convert that folder, or move its files up")
FORMS = (
    Form(
        ("adapter_model.*", "adapters.safetensors", "*_adapters.safetensors"),
        "has the weights of an adapter, whose adapter_config.json is missing",
        "download the folder again, or take the merged model",
    ),
    Form(
        ("*.safetensors.index.json",),
        "lists files of weights that are not there",
        "download the folder again",
    ),
    Form(
        ("*pytorch_model*.bin", "*.pth", "*.pt", "*.th", "*.pkl", "*.joblib",
         "*pytorch_model*.bin.index.json"),
        _PICKLE,
        _BY_PICKLE,
        is_pickle=True,
    ),
    Form(
        ("consolidated*.safetensors",),
        "has weights under Mistral's own names",
        "take the model*.safetensors of the same repository, with its config.json",
    ),
    Form(
        ("*.safetensors",),
        "is not a name under which transformers loads weights",
        "rename it to model.safetensors, several to model-00001-of-0000N.safetensors and so on",
    ),
    Form(
        ("*.h5", "*.keras", "*.hdf5"),
        _EITHER % "is HDF5 of TensorFlow",
        _SAVED % (", from_tf=True", " with transformers 4"),
    ),
    Form(
        ("*.msgpack",),
        _EITHER % "is msgpack of Flax",
        _SAVED % (", from_flax=True", " with transformers 4"),
    ),
    Form(
        ("*.ckpt", "*.ckpt.index", "*.ckpt.data-*", "*.nemo", "*.distcp"),
        "is a checkpoint of a training program",
        "load it with that program and save the model with save_pretrained of transformers",
        is_pickle=True,
    ),
    Form(("*.onnx", "*.onnx_data", "*.onnx.data", "*.ort"), "is ONNX, a graph", _ORIGINAL),
    Form(
        ("*.npz", "*.npy"),
        "has arrays of NumPy",
        "in Python: safetensors.numpy.save_file(dict(numpy.load(FILE)), 'model.safetensors'), "
        "where the names of the arrays are those of transformers",
    ),
    Form(("openvino*.bin", "openvino*.xml"), "is a model of OpenVINO", _ORIGINAL),
    Form(
        ("*.tflite", "*.mlmodel", "*.mlpackage", "*.mlmodelc", "*.llamafile", "*.engine", "*.plan",
         "*.ot", "*.pte", "*.ptl", "*.mar", "*.task", "*.litertlm", "*.mnn", "*.rknn", "*.trt",
         "*.pdparams", "*.pdiparams", "*.pdmodel"),
        "is a model for another program",
        _ORIGINAL,
    ),
    Form(
        ("*.safetensors.incomplete", "*.safetensors.part", "*.safetensors.tmp",
         "*.safetensors.aria2", "*.safetensors.crdownload", "*.safetensors.download"),
        "is a download that did not end",
        "download the folder again",
    ),
    Form(
        ("*.safetensors.gz", "*.safetensors.xz", "*.safetensors.zst", "*.safetensors.zip"),
        "is compressed",
        "unpack it",
    ),
    Form(
        ("*model*.bin", "*weights*.bin", "ggml*.bin", "*.pb"),
        "is a binary file of another program",
        _ORIGINAL,
    ),
)  # fmt: skip
NO_WEIGHTS = (
    "optimizer*", "scheduler*", "scaler*", "rng_state*", "training_args*", "trainer_state*",
    "tokenizer*", INDEX,
)  # fmt: skip
"""Files of the same suffixes that are no weights of a model."""
_FOLDERS = ("onnx", "original", "openvino", "flax", "tf", "0_Transformer", "checkpoint")
"""Where publishers put weights that lie not beside config.json."""
_PACKAGES = (".mlpackage", ".mlmodelc")
"""Ends of folders that are models."""
_AUTO = {
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForConditionalGeneration": "AutoModelForSeq2SeqLM",
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForTokenClassification": "AutoModelForTokenClassification",
}
"""End of a class -> the class that finds it for any model; a decoder has the one of the rest."""


class UnreadFile(Record):
    """A file of weights in a form that is not read."""

    name: str
    form: Form

    @property
    def fault(self) -> str:
        """Why it is refused."""
        return f"{shown(self.name)} {self.form.what}"

    def advice(self, config: Mapping[str, Any]) -> str:
        """Return what to do with the model of a config.json."""
        return self.form.advice.format(loader=loader_of(config))


def loader_of(config: Mapping[str, Any]) -> str:
    """Return the class of transformers that loads a model with its head; AutoModel drops it."""
    name = class_of(config)
    if name.endswith("Model") and not name.endswith("LMHeadModel") and name.isidentifier():
        return name
    return next((auto for end, auto in _AUTO.items() if name.endswith(end)), "AutoModelForCausalLM")


def form_of(name: str) -> Form | None:
    """Return the form of a file by its name; None for what holds no weights."""
    name = name.lower()
    if any(fnmatchcase(name, pattern) for pattern in NO_WEIGHTS):
        return None
    return next(
        (form for form in FORMS if any(fnmatchcase(name, pattern) for pattern in form.patterns)),
        None,
    )


def unread_weights(path: str, names: Iterable[str]) -> list[UnreadFile]:
    """Return the files of weights in forms that are not read; those that a model needs first.

    Args:
        names: Files in the folder.
    """
    files = [UnreadFile(name, form) for name in names if (form := form_of(name))]
    files.sort(key=lambda file: (FORMS.index(file.form), file.name.endswith(".json"), file.name))
    return files or list(_in_folders(path))


def _in_folders(path: str) -> Iterator[UnreadFile]:
    packages = [name for name in sorted(os.listdir(path)) if name.endswith(_PACKAGES)]
    for name in packages:
        form = form_of(name)
        if form is not None:
            yield UnreadFile(name, form)
    folders: Iterable[str] = _FOLDERS
    if os.path.isfile(os.path.join(path, MODEL_CONFIG)):  # else tokenizers alone may lie there
        others = (name for name in sorted(os.listdir(path)) if not name.startswith("."))
        folders = dict.fromkeys((*_FOLDERS, *others))
    for folder in folders:
        inner = os.path.join(path, folder)
        if os.path.isdir(inner):
            for name in sorted(os.listdir(inner)):
                form = _INNER if is_weights(name) else form_of(name)
                if form is not None and os.path.isfile(os.path.join(inner, name)):
                    yield UnreadFile(f"{folder}/{name}", form)
