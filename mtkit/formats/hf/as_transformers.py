"""A folder with a tokenizer.json as ``AutoTokenizer`` of transformers 5 reads it.

transformers takes the class that tokenizer_config.json or config.json names. Some build their own
normalizer, pre-tokenizer, decoder and model around the vocabulary of tokenizer.json
(``class_pipelines``); the others run the file as it is. Added tokens are those of all files.

Source: huggingface/transformers 5.24, tokenization_utils_base.py (``_from_pretrained``),
tokenization_utils_tokenizers.py (``convert_to_native_format``, ``__init__``).
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.formats.added_tokens import CONFIG, numbered
from mtkit.formats.contract import Reading
from mtkit.formats.hf.auto_class import GENERIC, class_of
from mtkit.formats.hf.class_pipelines import CLASSES, Ends
from mtkit.formats.hf.config import Beside
from mtkit.formats.hf.numbers import read_float
from mtkit.formats.hf.packed_model import parse_document
from mtkit.formats.hf.read_model import read_model
from mtkit.formats.hf.reader import count, ids_in, listed_tokens, specification, with_tokens
from mtkit.formats.json_fields import Fields, parse
from mtkit.formats.tokenizer_class import Settings
from mtkit.spec import AddedTokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.base.binary import Source
    from mtkit.formats.hf.class_pipelines import Built
    from mtkit.formats.hf.packed_model import Dictionary
    from mtkit.spec import AddedToken

MODEL = "config.json"
_STAGES = ("normalizer", "pre_tokenizer", "decoder")


def read_as_transformers(source: Source) -> Reading:
    """Read a tokenizer.json and the files beside it.

    Raises:
        FormatError: A file is damaged.
        UnsupportedError: The class is not known here, or does not take this file.
    """
    document, dictionary = parse_document(source.data)
    settings = Settings(source, listed_tokens(Fields(document, "")))
    name = _class_of(source, settings, document)
    if name == GENERIC:
        return _as_it_is(source, settings, document, dictionary)
    if name not in CLASSES:
        raise UnsupportedError(f"what a {name} makes of it is not known", field=CONFIG)
    built = CLASSES[name](settings, _charsmap(document.get("normalizer")))
    is_list = type(document["model"].get("vocab")) is list
    if is_list and (built.kind == "BPE" or isinstance(built.unk, str)):
        document, dictionary = parse(source.data, parse_float=read_float), None
    document = _rebuilt(document, built, settings, dictionary)
    root = Fields(document, "")
    vocabulary, model = read_model(root, dictionary)
    named = settings.named(built.roles, built.marks)
    tokens = settings.tokens(named, again=built.again, extra=built.extra)
    ids = ids_in(root, [token.content for token in tokens], vocabulary, dictionary)
    by_id, numbers = numbered(tokens, ids, count(vocabulary))
    document["post_processor"] = _around(document, built, named, numbers, name)
    added = AddedTokens(
        tuple(by_id[number] for number in sorted(by_id)),
        parse_special=not settings.flag("split_special_tokens", False),
    )
    document = with_tokens(document, added)
    spec = specification(document, Beside(source), vocabulary, model, added)
    return Reading(spec, (f"builds a {name} instead",))


def _class_of(source: Source, settings: Settings, document: dict[str, Any]) -> str:
    data = source.beside(MODEL)
    model = {} if data is None else parse(data, MODEL)
    return class_of(
        settings.config.values,
        model if isinstance(model, dict) else {},
        is_byte_level=any(
            _has_byte_level(document.get(stage)) for stage in ("pre_tokenizer", "decoder")
        ),
        has_tekken=source.beside("tekken.json") is not None,
    )


def _has_byte_level(form: Any) -> bool:
    """Tell whether a stage is byte-level, or has a step that is."""
    if not isinstance(form, dict):
        return False
    steps = [step for key in ("pretokenizers", "decoders") for step in form.get(key) or ()]
    return form.get("type") == "ByteLevel" or any(map(_has_byte_level, steps))


def _as_it_is(
    source: Source, settings: Settings, document: dict[str, Any], dictionary: Dictionary | None
) -> Reading:
    root = Fields(document, "")
    vocabulary, model = read_model(root, dictionary)
    listed = listed_tokens(root)
    tokens = [*listed, *settings.tokens(settings.named({}), present=listed)]
    ids = ids_in(root, [token.content for token in tokens], vocabulary, dictionary)
    added = AddedTokens(
        tuple(numbered(tokens, ids, count(vocabulary))[0].values()),
        parse_special=not settings.flag("split_special_tokens", False),
    )
    document = with_tokens(document, added)
    return Reading(specification(document, Beside(source), vocabulary, model, added))


def _rebuilt(
    document: dict[str, Any], built: Built, settings: Settings, dictionary: Dictionary | None
) -> dict[str, Any]:
    """Return a document with the stages and the model of a class.

    Raises:
        UnsupportedError: The class cannot take this vocabulary.
    """
    given = document["model"]
    vocab = given.get("vocab")
    if (built.kind == "Unigram") != isinstance(vocab, list) and built.kind != "BPE":
        what = f"a class with a {built.kind} model does not take this vocabulary"
        raise UnsupportedError(what, field="model.vocab")
    unk = settings.named(built.roles)["unk"]
    text = None if unk is None else unk.content.decode("utf-8")
    model = {"type": built.kind, "vocab": vocab, **_DEFAULTS[built.kind], **built.model}
    if built.kind == "BPE":
        if isinstance(vocab, list):  # the order of the tokens counts; there are no merges
            model["vocab"] = {piece: number for number, (piece, _) in enumerate(vocab)}
        model["merges"] = given.get("merges") or []
        if model["unk_token"] == "named":
            model["unk_token"] = text
    elif built.kind == "WordPiece":
        model["unk_token"] = text
    else:
        model["unk_id"] = unk_id = _unknown(built, text, vocab)
        if type(unk_id) is not int or not 0 <= unk_id < len(dictionary or vocab):
            what = f"the class looks for its unknown token at {unk_id}"
            raise UnsupportedError(what, field="model.vocab")
    stages = {stage: getattr(built, stage) for stage in _STAGES}
    return {**document, **stages, "model": model, "added_tokens": []}


_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "BPE": {
        "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
        "ignore_merges": False,
    },
    "WordPiece": {},
    "Unigram": {"byte_fallback": False},
}  # fmt: skip


def _unknown(built: Built, text: str | None, vocab: list[Any]) -> int | str:
    """Return the place of a Unigram's unknown token."""
    places = (place for place, row in enumerate(vocab) if row[0] == text)
    if built.unk == "named":
        return next(places, 0)
    if built.unk == "zero":
        return next((place for place in places if vocab[place][1] == 0.0), built.or_else)
    return built.unk


def _around(
    document: dict[str, Any],
    built: Built,
    named: Mapping[str, AddedToken | None],
    numbers: Mapping[bytes, int],
    name: str,
) -> dict[str, Any] | None:
    """Return the post-processor."""
    kept: dict[str, Any] | None = document.get("post_processor")
    if built.around is None or (built.prefers and kept is not None):
        if kept is None and built.needs:
            what = f"{name} makes one of its own, which is not known"
            raise UnsupportedError(what, field="post_processor")
        return kept
    texts = {role: token.content.decode("utf-8") for role, token in named.items() if token}
    ids = {role: numbers.get(token.content) for role, token in named.items() if token}
    try:
        return built.around(Ends(texts, ids, numbers))
    except KeyError as error:
        what = f"{name} needs a {error.args[0]}_token"
        raise UnsupportedError(what, field=CONFIG) from None


def _charsmap(form: Any) -> str | None:
    """Return the first table of characters among the steps of a normalizer."""
    if not isinstance(form, dict):
        return None
    steps = form.get("normalizers") if form.get("type") == "Sequence" else [form]
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, dict) and step.get("type") == "Precompiled":
            table = step.get("precompiled_charsmap")
            return table if isinstance(table, str) else None
    return None
