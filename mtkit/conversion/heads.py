"""What stands behind the last layer of a model: its head, a reranker's two rows, dense layers.

A head is compared with the embedding, not assumed to equal it: transformers 5 ties them only where
they do. Qwen3's rerankers are language models of which the tokens "yes" and "no" alone count.

Source: transformers, modeling_utils.py (``tie_weights``); llama.cpp, conversion/qwen.py
(``Qwen3Model``), conversion/gemma.py (``EmbeddingGemma``).
"""

from __future__ import annotations

import os

from mtkit.architectures.changes import SAME, PickedRows
from mtkit.architectures.config import class_of
from mtkit.architectures.decoder_rows import RERANK, SENTENCE_POOLING, SUPPRESSED
from mtkit.architectures.table import Row
from mtkit.architectures.tensor_match import Match
from mtkit.base.binary import read_head
from mtkit.base.escape import quoted
from mtkit.base.record import Record, replace
from mtkit.checkpoints import folder_files, sentence_modules
from mtkit.checkpoints.folder_files import GENERATION, optional_json
from mtkit.errors import FormatError, MtkitError, UnsupportedError, wording
from mtkit.gguf.writer import Key
from mtkit.sources import hub
from mtkit.sources.locate import TOKENIZER, in_folder
from mtkit.tokenizer.load import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from mtkit.architectures import Architecture
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims
    from mtkit.checkpoints.folder_files import StoredTensor
    from mtkit.checkpoints.model_folder import ModelFolder

HEAD, OUTPUT, EMBEDDING = "lm_head.weight", "output.weight", "token_embd.weight"
CLASSIFIER = "cls.output.weight"
TIE = "tie_word_embeddings"
_UNTIED = frozenset((
    "arcee", "deepseek2", "exaone4", "glm4", "granite", "granitemoe", "hunyuan-dense", "llama",
    "olmo", "phi3", "qwen2", "qwen3", "qwen3moe", "seed_oss",
))  # fmt: skip
"""Architectures whose configuration in transformers says ``tie_word_embeddings`` false by default,
as far as llama.cpp runs them without a head."""
_SENTENCE_CLASS = "Qwen3ForSequenceClassification"
_DECODERS = ("Qwen3ForCausalLM", "Qwen3Model", _SENTENCE_CLASS)
_MARKS = ("qwen3-reranker", "qwen3-vl-reranker")
_ANSWERS = ("yes", "no")
_MOST_CARD_BYTES = 1 << 20


def model_document(path: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return config.json with what the files beside it say of the model's use."""
    document = {**config, SENTENCE_POOLING: sentence_modules.pooling_of(path)}
    document[SUPPRESSED] = optional_json(path, GENERATION).get(SUPPRESSED)
    if is_reranker(path, config):
        document["architectures"] = [_DECODERS[0]]
        document[RERANK] = _answer_ids(path)
    return document


def is_reranker(path: str, config: Mapping[str, Any]) -> bool:
    """Tell one of Qwen3's rerankers by its class, its names, or its card."""
    name = class_of(config)
    if name not in _DECODERS:
        return False
    names = (os.path.basename(os.path.abspath(path)), hub.name_of(path),
             config.get("_name_or_path"), config.get("model_type"))  # fmt: skip
    if name == _SENTENCE_CLASS or any(mark in str(n).lower() for n in names for mark in _MARKS):
        return True
    head = read_head(os.path.join(path, folder_files.CARD), _MOST_CARD_BYTES)
    card = head.decode("utf-8", "replace").lower()
    return any(f"# {mark}" in card for mark in _MARKS)


def _answer_ids(path: str) -> list[int]:
    """Return the ids of the tokens "yes" and "no"."""
    file = in_folder(path, TOKENIZER.files)
    tokenizer = load(file) if file is not None and not file.endswith(".gguf") else None
    ids = [tokenizer.token_to_id(text) for text in _ANSWERS] if tokenizer else [None]
    if None in ids:
        what = "is a reranker, whose tokenizer needs the tokens yes and no"
        raise UnsupportedError(what, source=path)
    return [number for number in ids if number is not None]


class Heads(Record):
    """What becomes of the tensors of a folder that are heads.

    Attributes:
        shapes: Of the tensors that are converted, slowest axis first.
        notes: What is to be said of a head.
    """

    shapes: Mapping[str, tuple[int, ...]]
    notes: tuple[str, ...] = ()


def compare_heads(
    architecture: Architecture, config: Config, tensors: Mapping[str, StoredTensor]
) -> Heads:
    """Return the tensors that the GGUF gets.

    Raises:
        UnsupportedError: There is a head that llama.cpp's model has no place for.
    """
    skips = architecture.skips
    shapes = {
        name: stored.weight.shape
        for name, stored in tensors.items()
        if skips is None or not skips(name, config)
    }
    notes: list[str] = []
    place = next((row for row in architecture.rows if OUTPUT in row.gguf), None)
    is_decoder = any(row.gguf == (EMBEDDING,) for row in architecture.rows) and (
        architecture.name != "bert"
    )
    embedding = _embedding(architecture, tensors)
    head = tensors.get(HEAD)
    if head is None:
        has_no_place = place is None and is_decoder and config.fields.get(TIE) is False
        if embedding is not None and (has_no_place or (place is not None and place.optional)):
            notes += _missing_head(architecture, config, tensors)
    elif (
        is_decoder
        and embedding is not None
        and (place is None or (place.optional and _is_tied(architecture, config)))
    ):
        is_equal = head.equals(embedding)
        if not is_equal and place is None:
            what = (
                f"differs from the embedding, and llama.cpp's {architecture.name} has one for both"
            )
            raise UnsupportedError(what, source=head.path, field=f"tensor {quoted(HEAD)}")
        if is_equal and place is None:
            shapes.pop(HEAD, None)
        elif not is_equal:
            shapes = {name: tensors[name].weight.shape for name in tensors
                      if name in shapes or name == HEAD}  # fmt: skip
            notes.append(
                f"{HEAD} differs from the embedding though {TIE} is true: it is kept, as "
                "transformers 5 does; transformers 4 takes the embedding"
            )
    return Heads(shapes, tuple(notes))


def _is_tied(architecture: Architecture, config: Config) -> bool:
    ties = config.fields.get(TIE)
    return architecture.name not in _UNTIED if ties is None else ties is not False


def _missing_head(
    architecture: Architecture, config: Config, tensors: Iterable[str]
) -> Iterator[str]:
    """Yield what is to be said where a head is missing that transformers would have."""
    ties, name = config.fields.get(TIE), class_of(config.fields)
    is_untied = not _is_tied(architecture, config)
    has_head = name.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration"))
    if is_untied and has_head and not any(t.endswith(HEAD) for t in tensors):
        value = "is false" if ties is False else "is not set, which stands for false"
        yield (
            f"{HEAD} is missing though {TIE} {value}: the embedding is the head in the GGUF; "
            "transformers would fill a head with random numbers"
        )


def _embedding(
    architecture: Architecture, tensors: Mapping[str, StoredTensor]
) -> StoredTensor | None:
    names = next((row.folder for row in architecture.rows if row.gguf == (EMBEDDING,)), ())
    for name in names:
        for spelling in (name, name.removeprefix(architecture.prefix)):
            if spelling in tensors:
                return tensors[spelling]
    return None


def answer_matches(config: Config, matches: Iterable[Match]) -> Iterator[Match]:
    """Yield the matches of a model; of a reranker's head only the rows of its two answers."""
    ids = config.get(RERANK)
    if ids is None:
        yield from matches
        return
    is_tied = config.flag(TIE) is True
    place = EMBEDDING if is_tied else OUTPUT
    seen = False
    for match in matches:
        if match.gguf == (place,):
            seen = True
            row = Row(match.row.folder, (CLASSIFIER,), ("2 embd",), PickedRows(tuple(ids)))
            shapes = ((len(ids), *match.gguf_shapes[0][1:]),)
            yield replace(match, row=row, gguf=(CLASSIFIER,), gguf_shapes=shapes)
        if match.gguf != (OUTPUT,) or is_tied:
            yield match
    if not seen:
        raise FormatError(f"there is no tensor {quoted(HEAD)}")


def rerank_notes(config: Config) -> Iterator[str]:
    """Yield what is said of a reranker."""
    ids = config.get(RERANK)
    if ids is not None:
        numbers = " and ".join(map(str, ids))
        yield f"a reranker: its head is the rows {numbers} of the tokens yes and no ({CLASSIFIER})"


_DENSE_MODELS = ("gemma-embedding",)
"""Architectures of llama.cpp that compute dense layers behind the pooling."""


class DenseLayers(Record):
    """The dense layers of a model, as far as they are converted.

    Attributes:
        tensors: Name, with the folder in front -> tensor.
    """

    tensors: Mapping[str, StoredTensor] = {}
    matches: tuple[Match, ...] = ()
    keys: tuple[Key, ...] = ()
    notes: tuple[str, ...] = ()


def dense_layers(
    folder: ModelFolder, architecture: Architecture, dims: Dims, *, write: bool
) -> DenseLayers:
    """Return the dense layers that sentence-transformers puts behind a model.

    Args:
        write: Convert them; else they are only named.
    """
    places = sentence_modules.dense_places(folder.path)
    if not places:
        return DenseLayers()
    names = " and ".join(map(quoted, places))
    can = architecture.name in _DENSE_MODELS
    if not write:
        option = f"{wording('--dense-modules', 'dense_modules=True')} writes them"
        option = option if can else "llama.cpp has none in this architecture"
        effect = "without them, vectors are not those of sentence-transformers"
        return DenseLayers(notes=(f"the dense layers in {names} are left out; {effect}; {option}",))
    if not can:
        what = f"has dense layers ({names}), and llama.cpp has none in {architecture.name} models"
        raise UnsupportedError(
            what, source=folder.path, field=wording("--dense-modules", "dense_modules")
        )
    tensors, matches, keys = {}, [], []
    for layer in sentence_modules.read_dense(folder.path):
        name, stem = f"{places[layer.number - 2]}/linear.weight", f"dense_{layer.number}"
        shape = (layer.rows, layer.columns)
        tensors[name] = layer.weight
        row = Row((name,), (f"{stem}.weight",), (f"{layer.rows} {layer.columns}",), SAME)
        matches.append(Match(row, dims, (name,), row.gguf, (shape,), (shape,)))
        keys += [
            Key(f"{architecture.name}.{stem}_feat_in", "u32", layer.columns),
            Key(f"{architecture.name}.{stem}_feat_out", "u32", layer.rows),
        ]
    _check_sizes(matches, dims)
    return DenseLayers(tensors, tuple(matches), tuple(keys))


def _check_sizes(matches: list[Match], dims: Dims) -> None:
    """Check that vectors go in and come out as wide as the model's, as llama.cpp asserts."""
    width = dims["embd"]
    for match in matches:
        rows, columns = match.gguf_shapes[0]
        is_second = match.gguf[0].startswith("dense_2")
        if (columns if is_second else rows) != width:
            what = f"has the shape {[rows, columns]}; llama.cpp asks for {width} values"
            raise UnsupportedError(what, field=f"tensor {quoted(match.folder[0])}")


def module_notes(path: str) -> tuple[str, ...]:
    """Return what of modules.json a GGUF does not hold."""
    try:
        return tuple(sentence_modules.module_notes(path))
    except MtkitError:  # reading the pooling reports it
        return ()
