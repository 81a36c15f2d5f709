"""The metadata of a model's GGUF: its name, its architecture's keys and its tokenizer.

The tokenizer of the folder is written and verified as in every conversion (``model_vocabulary``).
Then come roles that only config.json gives, and unused tokens up to the rows of the embedding.

``replace_vocabulary``, which is ``mtkit edit --tokenizer``, puts another tokenizer between the keys
of a model. llama.cpp's rules depend on those as well, so it is read back from there to be verified.

Source: llama.cpp, gguf-py/gguf/vocab.py (``SpecialVocab``).
"""

from __future__ import annotations

import os

from mtkit.architectures.metadata import keys_of
from mtkit.architectures.rope import check_rope
from mtkit.base.binary import Source
from mtkit.base.escape import quoted
from mtkit.base.record import Record, fields, replace
from mtkit.checkpoints import folder_files
from mtkit.checkpoints.folder_files import GENERATION, MODEL_CONFIG, optional_json
from mtkit.conversion.remainder import token_notes
from mtkit.conversion.tokenizer import write_tokenizer
from mtkit.conversion.verification import verify
from mtkit.errors import UsageError
from mtkit.formats.contract import Loss
from mtkit.gguf import open_gguf
from mtkit.gguf.arrays import GgufArray
from mtkit.gguf.draft import Draft
from mtkit.gguf.writer import Key
from mtkit.sources.locate import TOKENIZER, in_folder
from mtkit.tokenizer.folder import FAIRSEQ_FILE, token_files
from mtkit.tokenizer.load import in_its_folder, load
from mtkit.tokenizer.tokenizer import Tokenizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.architectures import Architecture
    from mtkit.architectures.config import Config
    from mtkit.conversion.verification import Verification
    from mtkit.formats.contract import WriteOptions
    from mtkit.gguf.draft import KeptKey
    from mtkit.gguf.file import GgufFile, Metadata
    from mtkit.gguf.writer import NewTensor
    from mtkit.spec import AddedToken, TokenizerSpec


QUANTIZATION_VERSION = 2
"""Source: ggml.h (``GGML_QNT_VERSION``)."""
_SAMPLING: Mapping[str, tuple[type, ...]] = {
    "sequence": (str,), "top_k": (int,), "top_p": (int, float), "min_p": (int, float),
    "xtc_probability": (int, float), "xtc_threshold": (int, float), "temperature": (int, float),
    "penalty_last_n": (int,), "repetition_penalty": (int, float), "penalty_repeat": (int, float),
    "mirostat": (int,),
    "mirostat_tau": (int, float), "mirostat_eta": (int, float),
}  # fmt: skip
"""Fields of generation_config.json that a GGUF has -> their types.

Of two for one key the last counts.
"""
_GGUF_NAMES = {"temperature": "temp", "repetition_penalty": "penalty_repeat"}
_TYPES = {
    "STRING": "string", "UINT32": "u32", "INT32": "i32", "FLOAT32": "f32", "BOOL": "bool",
    "ARRAY": "string[]",
}  # fmt: skip
"""Types of the ``gguf`` package -> ours; its only arrays here are of strings."""


NAME_KEY = "general.name"
OUTSIDE = "vocab_size"
"""Field of the loss of tokens for which the embedding has no row."""


def sampling_fields(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of generation_config.json that keys of a GGUF give."""
    names = {field: _GGUF_NAMES.get(field, field) for field in _SAMPLING}
    names.pop("penalty_repeat")  # transformers calls it repetition_penalty
    keys = {field: f"general.sampling.{name}" for field, name in names.items()}
    return {field: metadata[key] for field, key in keys.items() if key in metadata}


def name_keys(
    folder: str, tensors: Iterable[NewTensor], name: str | None, *, is_adapter: bool = False
) -> list[Key]:
    """Return the keys of ``general``: name, author, size, sampling; from card, folder and tensors.

    Args:
        name: None: as the card or the folder says.
    """
    from pathlib import Path

    import gguf

    total, shared, expert, experts = _count_parameters(tensors)
    path = Path(os.path.abspath(folder))
    signed = -total if is_adapter else total  # gguf takes a negative count for an adapter's
    card = folder_files.read_card(folder)
    hub_name = optional_json(folder, MODEL_CONFIG).get("_name_or_path")
    about = {"_name_or_path": hub_name} if isinstance(hub_name, str) else {}
    metadata = gguf.Metadata.apply_metadata_heuristic(gguf.Metadata(), card, about, path, signed)
    settings = optional_json(folder, GENERATION)
    for field, types in _SAMPLING.items():
        if type(value := settings.get(field)) in types:
            setattr(metadata, f"sampling_{_GGUF_NAMES.get(field, field)}", value)
    metadata.name = name or metadata.name or path.name
    if not is_adapter:
        metadata.size_label = metadata.size_label or gguf.size_label(total, shared, expert, experts)
    writer = gguf.GGUFWriter(None, "")
    writer.add_type(gguf.GGUFType.MODEL)
    metadata.set_gguf_meta_model(writer)
    return [
        Key(name, _TYPES[value.type.name], value.value)
        for name, value in writer.kv_data[0].items()
        if name != "general.architecture"
    ]


def general_keys(
    folder: str, tensors: Iterable[NewTensor], name: str, about: Iterable[Key]
) -> dict[str, Key]:
    """Return the keys of ``general`` by name: as ``name_keys``, and in their place ``about``.

    Args:
        name: Of the model, before any other; empty: as ``about``, card or folder say.
    """
    keys = {key.name: key for key in (*name_keys(folder, tensors, name or None), *about)}
    if name:  # the command line comes before a file of metadata
        keys[NAME_KEY] = Key(NAME_KEY, "string", name)
    return keys


def _count_parameters(tensors: Iterable[NewTensor]) -> tuple[int, int, int, int]:
    """Count parameters: all, shared by all tokens, of one expert; and the experts."""
    from math import prod

    total = shared = expert = 0
    counts = []
    for tensor in tensors:
        size = prod(tensor.shape)
        total += size
        if "_exps." in tensor.name and len(tensor.shape) >= 2:
            counts.append(tensor.shape[-1])
            expert += size // max(counts[-1], 1)
        else:
            shared += size
    return total, shared, expert, sum(counts) // len(counts) if counts else 0


def architecture_keys(architecture: Architecture, config: Config, file_type: int) -> list[Key]:
    """Return the keys of the architecture, once its checks pass."""
    for check in architecture.checks:
        check(config)
    check_rope(architecture, config)
    return [
        *keys_of(architecture.name, architecture.keys, config),
        Key("general.file_type", "u32", file_type),
        Key("general.quantization_version", "u32", QUANTIZATION_VERSION),
    ]


PREFIX = "tokenizer."
TEMPLATES = ("tokenizer.chat_template", "tokenizer.chat_templates")
TOKENS, SCORES, TYPES = (f"tokenizer.ggml.{name}" for name in ("tokens", "scores", "token_type"))
EMBEDDING = "token_embd.weight"
_CONTROL, _UNUSED, _UNUSED_SCORE = 3, 5, -10000.0
PLAMO, _PLAMO_SCORE = "plamo", -1000.0
"""Whose unused tokens are numbered from 1. Source: conversion/base.py (``_set_vocab_plamo``)."""
_END_OF_TURN, _TWO_LINES = "tokenizer.ggml.eot_token_id", 261
"""Source: conversion/base.py of llama.cpp, which fills a vocabulary up in the same way."""


def replace_vocabulary(
    draft: Draft, file: GgufFile, tokenizer: Tokenizer, allow_loss: Collection[str] = ()
) -> Metadata:
    """Put another tokenizer into the draft of a model; return the new metadata.

    Ids that the embedding has and the tokenizer lacks become unused tokens. Chat templates stay
    where the tokenizer has none.
    """
    from mtkit.base.record import replace
    from mtkit.formats import gguf
    from mtkit.formats.contract import WriteOptions

    name = str(file.metadata.get("general.name", ""))
    tokenizer, _, written = write_tokenizer(tokenizer, gguf, WriteOptions(name=name), allow_loss)
    metadata = open_gguf(Source(".gguf", written.files[".gguf"])).metadata
    new = {
        name: Key(name, metadata.type_name(name), value)
        for name, value in metadata.items()
        if name.startswith(PREFIX)
    }
    fill_vocabulary(new, _count_ids(file), file.name)
    draft.keys = _merge_keys(draft.keys, new)
    architecture = str(file.metadata.get("general.architecture", ""))
    size_key = f"{architecture}.vocab_size"
    if size_key in draft.keys:
        draft.set(Key(size_key, file.metadata.type_name(size_key), len(new[TOKENS].value)))
    vocabulary = b"".join(Draft(draft.keys.values(), (), draft.version).chunks())
    verify(tokenizer, gguf, replace(written, files={".gguf": vocabulary}), allow_loss)
    return open_gguf(Source(".gguf", vocabulary)).metadata


def _count_ids(file: GgufFile) -> int:
    embedding, tokens = file.names.get(EMBEDDING), file.metadata.get(TOKENS)
    if embedding is not None and embedding.shape:
        return embedding.shape[-1]
    return len(tokens) if isinstance(tokens, GgufArray) else 0


def fill_vocabulary(
    new: dict[str, Key], size: int, source: str, shift: int = 0, score: float = _UNUSED_SCORE
) -> None:
    """Add unused tokens up to the number of ids of a model; ``shift`` is between id and name."""
    tokens = list(new[TOKENS].value)
    if len(tokens) > size:
        raise UsageError(
            f"has {size} ids, but the tokenizer has {len(tokens)}",
            source=source,
            hint="give the tokenizer that the model was trained with",
        )
    if len(tokens) == size:
        return
    numbers = range(len(tokens), size)
    for name, values in (
        (TOKENS, [f"[PAD{number + shift}]" for number in numbers]),
        (SCORES, [score] * len(numbers)),
        (TYPES, [_UNUSED] * len(numbers)),
    ):
        if name in new:
            new[name] = Key(name, new[name].type, [*new[name].value, *values])


def _merge_keys(
    old: Mapping[str, KeptKey | Key], new: Mapping[str, Key]
) -> dict[str, KeptKey | Key]:
    """Return the keys of a model with a new vocabulary in the place of the old one."""
    brings_templates = any(name.startswith(TEMPLATES) for name in new)
    old_keys = [
        key
        for name, key in old.items()
        if not name.startswith(PREFIX) or (name.startswith(TEMPLATES) and not brings_templates)
    ]
    starts = (place for place, name in enumerate(old) if name.startswith(PREFIX))
    before = next(starts, len(old))
    keys: list[KeptKey | Key] = [*old_keys[:before], *new.values(), *old_keys[before:]]
    return {key.name: key for key in keys}


SENTENCEPIECE = ("tokenizer.model", "spiece.model", "sentencepiece*.model")
"""Preferred to a tokenizer.json: llama.cpp's tokenizer of this kind needs their scores."""
ROLES = {
    "bos": "bos", "eos": "eos", "unk": "unknown", "sep": "seperator", "pad": "padding",
    "cls": "cls", "mask": "mask",
}  # fmt: skip
"""Role in ``ROLE_token_id`` of config.json -> role in the key of a GGUF, which misspells one."""


class ModelVocabulary(Record):
    """A tokenizer as a model's GGUF holds it.

    Attributes:
        name: ``general.name``, from which llama.cpp derives rules of some tokenizers.
    """

    keys: tuple[Key, ...]
    name: str
    losses: tuple[Loss, ...]
    assumptions: tuple[str, ...]
    verified: tuple[Verification, ...]


def model_vocabulary(
    folder: str,
    config: Config,
    size: int,
    options: WriteOptions,
    allow_loss: Collection[str] = (),
    architecture: Architecture | None = None,
) -> ModelVocabulary:
    """Write the tokenizer of a folder and verify it.

    Args:
        architecture: Has special tokens by their texts.
    """
    from mtkit.formats import gguf

    path = in_folder(folder, SENTENCEPIECE) or in_folder(folder, TOKENIZER.files)
    if path is None:
        hint = "the tokenizer's files go beside config.json"
        raise UsageError("is a folder without a tokenizer", source=folder, hint=hint)
    whole = source = in_its_folder(load(path))
    source, losses = within(source, size)
    tokenizer, assumptions, written = write_tokenizer(source, gguf, options, allow_loss)
    verified = verify(tokenizer, gguf, written, allow_loss)
    metadata = open_gguf(Source(".gguf", written.files[".gguf"])).metadata
    keys = {
        name: Key(name, metadata.type_name(name), value)
        for name, value in metadata.items()
        if name.startswith(PREFIX)
    }
    if keys[f"{PREFIX}ggml.model"].value == "rwkv":
        _name_end(keys)
    # In fairseq's order, llama.cpp's converter names unused rows one number behind.
    is_shifted = os.path.basename(path) == FAIRSEQ_FILE and source.id_to_token(0) == "<s>"
    shift, score = -1 if is_shifted else 0, _UNUSED_SCORE
    if source.format_name == PLAMO:
        shift, score = 1 - source.vocab_size, _PLAMO_SCORE
    fill_vocabulary(keys, size, path, shift, score)
    texts = architecture.special_tokens if architecture else {}
    ids = {role: source.token_to_id(text) for role, text in texts.items()}
    by_text = [_role_key(role, number) for role, number in ids.items() if number is not None]
    for key in (*_role_keys(config, size), *by_text):
        keys.setdefault(key.name, key)
    if architecture and architecture.replaces_tokens:
        own = (key for key in architecture_keys(architecture, config, 0) if _is_of_tokenizer(key))
        keys.update({key.name: key for key in (*by_text, *own)})
    name = str(metadata.get("general.name", ""))
    assumptions = (
        *assumptions, *token_notes(folder, _ids_of(whole)), *_end_notes(folder, config, keys),
        *_stop_notes(source, written.files[".gguf"], keys), *_template_notes(source.spec),
    )  # fmt: skip
    losses = (*losses, *written.losses)
    return ModelVocabulary(tuple(keys.values()), name, losses, assumptions, verified)


def _end_notes(folder: str, config: Config, keys: Mapping[str, Key]) -> Iterator[str]:
    """Yield what is to be said where no token ends an answer, though the folder names some."""
    if "tokenizer.ggml.eos_token_id" in keys:
        return
    fields = optional_json(folder, GENERATION)
    for file, value in (
        (MODEL_CONFIG, config.get("eos_token_id")), (GENERATION, fields.get("eos_token_id"))
    ):  # fmt: skip
        if value is not None:
            yield (
                f"{file} has the eos_token_id {value}, but the GGUF gets none, as in llama.cpp's "
                "converter; mtkit edit FILE --special-token eos TEXT sets it"
            )


def _stop_notes(tokenizer: Tokenizer, data: bytes, keys: Mapping[str, Key]) -> Iterator[str]:
    """Yield the tokens that end an answer in transformers, but not in llama.cpp."""
    from mtkit.formats import gguf
    from mtkit.formats.gguf.roles import roles_of

    ends = tuple(f"{role}_token_id" for role in ("eos", "eot", "eom"))
    stop = set(tokenizer.spec.special_ids.stop)
    stop -= {key.value for key in keys.values() if key.name.endswith(ends)}
    if stop:
        stop -= set(roles_of(gguf.read(Source(".gguf", data), {}).spec).stop)
    for number in sorted(stop):
        yield (
            f"{GENERATION}: the id {number} ({quoted(tokenizer.id_to_token(number) or '')}) ends "
            "an answer, too, but not in llama.cpp; mtkit edit FILE --special-token eot TEXT adds "
            "one such token"
        )


def _template_notes(spec: TokenizerSpec) -> Iterator[str]:
    from mtkit.chat.sandbox import syntax_fault

    for template in spec.chat_templates:
        fault = syntax_fault(template.text)
        if fault:
            yield f"chat template {quoted(template.name)} does not parse: {fault}"


def _ids_of(tokenizer: Tokenizer) -> Callable[[str], int | None]:
    """Return a function from the text of a token to its id."""
    added = {token.content: token.id for token in tokenizer.spec.added_tokens.tokens}

    def of(text: str) -> int | None:
        number = added.get(text.encode("utf-8", "surrogatepass"))
        return tokenizer.token_to_id(text) if number is None else number

    return of


def _name_end(keys: dict[str, Key]) -> None:
    """Name the end of a document, which has no line in RWKV's file, and end turns by two newlines.

    Source: llama.cpp, conversion/base.py (``_set_vocab_rwkv_world``).
    """
    for name, value in ((TOKENS, "<s>"), (TYPES, _CONTROL)):
        keys[name] = Key(name, keys[name].type, [value, *list(keys[name].value)[1:]])
    if len(keys[TOKENS].value) > _TWO_LINES:
        keys[_END_OF_TURN] = Key(_END_OF_TURN, "u32", _TWO_LINES)


def _is_of_tokenizer(key: Key) -> bool:
    return key.name.startswith(PREFIX)


def within(tokenizer: Tokenizer, size: int) -> tuple[Tokenizer, tuple[Loss, ...]]:
    """Return a tokenizer without added tokens for which the embedding has no row, and that loss.

    Gemma 3's 1B and 270M have such a token, for pictures, and many fine-tunes one for padding. What
    a chat needs, or an ordinary text can hold, is refused, with the files that add it.
    """
    spec = tokenizer.spec
    outside = [token for token in spec.added_tokens.tokens if token.id >= size]
    if not outside:
        return tokenizer, ()  # a whole vocabulary that is too large: ``fill_vocabulary`` says so
    folder, first = os.path.dirname(tokenizer.source), outside[0]
    text = first.content.decode("utf-8", "replace")
    files = token_files(folder, text) or (os.path.basename(tokenizer.source),)
    more = f" and {len(outside) - 1} more" if len(outside) > 1 else ""
    what = f"{quoted(text)} with the id {first.id}{more}, but the model has {size} ids"
    if _needs(spec, outside, size):
        raise UsageError(
            f"adds {what}",
            source=os.path.join(folder, files[0]),
            field=f"also in {', '.join(files[1:])}" if len(files) > 1 else "",
            hint="take the token out of the file, or resize the embedding of the model",
        )
    kept = tuple(token for token in spec.added_tokens.tokens if token.id < size)
    ids, padding = spec.special_ids, spec.padding
    spec = replace(
        spec,
        vocabulary=spec.vocabulary.below(size),
        added_tokens=replace(spec.added_tokens, tokens=kept),
        special_ids=replace(ids, pad=None) if (ids.pad or 0) >= size else ids,
        padding=None if padding and padding.pad_id >= size else padding,
    )
    effect = f"left out of {' and '.join(files)}: {what}; a text that spells it gets others"
    loss = Loss("ids-special", OUTSIDE, effect)
    name, assumptions = tokenizer.format_name, tokenizer.assumptions
    return Tokenizer(
        spec, source=tokenizer.source, format_name=name, assumptions=assumptions
    ), (loss,)  # fmt: skip


def _needs(spec: TokenizerSpec, outside: Sequence[AddedToken], size: int) -> bool:
    """Tell whether something other than a text that spells them out uses tokens."""
    numbers = {token.id for token in outside}
    ids = spec.special_ids
    roles = {
        *ids.stop,
        *(getattr(ids, name) for name in fields(ids) if name not in ("stop", "pad")),
    }
    templates = "".join(template.text for template in spec.chat_templates).encode()
    return (
        bool(roles & numbers)
        or not numbers.issuperset(range(size, len(spec.vocabulary)))
        or any(not token.special or token.content in templates for token in outside)
    )


def _role_keys(config: Config, size: int) -> Iterator[Key]:
    for role, name in ROLES.items():
        number = config.get(f"{role}_token_id")
        if type(number) is int and 0 <= number < size:
            yield _role_key(name, number)


def _role_key(name: str, number: int) -> Key:
    return Key(f"tokenizer.ggml.{name}_token_id", "u32", number)
