"""Reading tokenizer.json and the files beside it to a specification.

What the specification cannot hold (keys that the library ignores, older spellings) is in ``extras``
under the name of its file, so that it is written back in its own form.

Source: huggingface/tokenizers 0.23, tokenizer/serialization.rs, tokenizer/added_vocabulary.rs
(``add_tokens``: an added token's id is the model's where it has the text, else the next free one;
the id in the file is not used), utils/padding.rs, utils/truncation.rs.
"""

from __future__ import annotations

from mtkit.errors import FormatError, UnsupportedError, format_first
from mtkit.formats.contract import Reading
from mtkit.formats.hf.components import read_stage, residue
from mtkit.formats.hf.config import CLEAN_UP, SideFiles, config_forms
from mtkit.formats.hf.model_reader import parse_document, read_model
from mtkit.formats.json_fields import U64, Fields, check_plain, encode_text, format_value
from mtkit.formats.tokenizer_config import CONFIG, TOKEN_FLAGS, Settings, number_tokens, token_form
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    Padding,
    TokenizerSpec,
    Truncation,
    Vocabulary,
    replace,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.base.binary import Source
    from mtkit.formats.hf.model_reader import NativeVocabulary
    from mtkit.spec.models import Model

SIDES = {"Left": "left", "Right": "right"}
STRATEGIES = {
    "LongestFirst": "longest_first",
    "OnlyFirst": "only_first",
    "OnlySecond": "only_second",
}


def _model_name(path: object) -> str:
    from re import ASCII, fullmatch

    match = fullmatch(r"(?:[\w.-]+/)?([\w.-]*\w)", path, ASCII) if isinstance(path, str) else None
    return match[1] if match else ""


def read_spec(source: Source) -> Reading:
    """Read a tokenizer.json with what lies beside it."""
    document, dictionary = parse_document(source.data)
    root = Fields(document, "")
    _check_small_parts(root)
    if root.string("version", "1.0") != "1.0":
        what = f"is {format_value(root.get('version'))}, but only 1.0 is known"
        raise UnsupportedError(what, field="version")
    vocabulary, model = read_model(root, dictionary)
    beside = SideFiles(source)
    listed = listed_tokens(root)
    only = _config_tokens(source, listed, vocabulary)
    ids = ids_in(root, [token.content for token in listed], vocabulary, dictionary)
    tokens = number_tokens([*listed, *only], ids, count_tokens(vocabulary))[0]
    added = AddedTokens(tuple(tokens.values()))
    if only:
        document = list_tokens(document, added)
    spec = specification(document, beside, vocabulary, model, added)
    names = format_first([token.content.decode("utf-8", "replace") for token in only], 3)
    assumptions = (f"added tokens that {CONFIG} or a file like it has alone: {names}",)
    return Reading(spec, assumptions if only else ())


def list_tokens(document: dict[str, Any], added: AddedTokens) -> dict[str, Any]:
    """Return a document with these added tokens."""
    listed = [{"id": token.id, **token_form(token)} for token in added.tokens]
    return {**document, "added_tokens": listed}


def specification(
    document: dict[str, Any],
    beside: SideFiles,
    vocabulary: Vocabulary,
    model: Model,
    added: AddedTokens,
) -> TokenizerSpec:
    """Return the specification of a document whose vocabulary and tokens have been read."""
    root = Fields(document, "")
    config = beside.documents.get(CONFIG, {})
    ids = {token.content: token.id for token in added.tokens}

    def id_of(content: str) -> int | None:
        piece = encode_text(content, CONFIG)
        return ids[piece] if piece in ids else vocabulary.pieces.find(piece)

    spec = TokenizerSpec(
        vocabulary=vocabulary,
        model=model,
        normalizer=read_stage(root, "normalizer"),
        pre_tokenizer=read_stage(root, "pre_tokenizer"),
        post_processor=read_stage(root, "post_processor"),
        decoder=read_stage(root, "decoder"),
        added_tokens=added,
        special_ids=beside.special_ids(id_of, getattr(model, "unk", None)),
        truncation=read_truncation(root),
        padding=read_padding(root),
        clean_up_spaces="on_request" if config.get(CLEAN_UP) is True else "none",
        chat_templates=beside.chat_templates,
        name=_model_name(config.get("name_or_path")),
    )
    forms = config_forms(spec)
    extras: list[tuple[str, object]] = []
    for name, side_file in beside.documents.items():
        form = forms.get(name, {})
        extras.append((name, {k: v for k, v in side_file.items() if k not in form or form[k] != v}))
    extras.append(("tokenizer.json", residue(document, spec)))
    return replace(spec, extras=tuple((name, extra) for name, extra in extras if extra))


def _check_small_parts(root: Fields) -> None:
    """Check everything but vocabulary and merges, which are checked as they are read."""
    model = root.values.get("model")
    for key, value in root.values.items():
        if key == "model" and type(model) is dict:
            value = {k: v for k, v in model.items() if k not in ("vocab", "merges")}
        check_plain(value, key)


def listed_tokens(root: Fields) -> list[AddedToken]:
    """Return the added tokens in the order and with the ids of the file."""
    tokens = []
    for place, item in enumerate(root.items("added_tokens") if "added_tokens" in root else []):
        at = Fields(item, f"added_tokens[{place}]")
        number, content = at.integer("id"), encode_text(at.string("content"), at.path("content"))
        flags = {flag: at.boolean(flag) for flag in TOKEN_FLAGS}
        tokens.append(AddedToken(number, content, **flags))
    return tokens


def read_added_tokens(root: Fields, vocabulary: Vocabulary) -> AddedTokens:
    """Read the added tokens, numbered as the library does; of one text the last entry counts."""
    listed = listed_tokens(root)
    ids = ids_in(root, [token.content for token in listed], vocabulary, None)
    return AddedTokens(tuple(number_tokens(listed, ids, count_tokens(vocabulary))[0].values()))


def count_tokens(vocabulary: Vocabulary) -> int:
    """Count the tokens, which gives the first free id."""
    if vocabulary.types is None:
        return len(vocabulary)
    return len(vocabulary) - vocabulary.types.data.tobytes().count(0xFF)


def ids_in(
    root: Fields, contents: list[bytes], vocabulary: Vocabulary, dictionary: NativeVocabulary | None
) -> dict[bytes, int]:
    """Look up texts in the vocabulary (the last of equal pieces counts).

    Indexing every piece of a large vocabulary costs more than looking for the few needed.
    """
    model = root.values.get("model")
    vocab = model.get("vocab") if type(model) is dict else None
    if type(vocab) is dict:
        ids = dictionary or vocab
        numbers = {content: ids.get(content.decode("utf-8")) for content in contents}
        return {content: number for content, number in numbers.items() if number is not None}
    places = vocabulary.pieces.places(set(contents))
    return {vocabulary.pieces[number]: number for number in places}


def _config_tokens(
    source: Source, listed: list[AddedToken], vocabulary: Vocabulary
) -> list[AddedToken]:
    """Return the tokens that neither the list nor the vocabulary has, as transformers adds them."""
    try:
        settings = Settings(source)
        tokens = settings.tokens(settings.role_tokens({}))
    except (FormatError, UnsupportedError):  # transformers does not read them, either
        return []
    texts = {token.content for token in listed}
    tokens = [token for token in tokens if token.content not in texts and token.content]
    contents = {token.content for token in tokens}
    texts = {vocabulary.pieces[number] for number in vocabulary.pieces.places(contents)}
    return [token for token in tokens if token.content not in texts]


def read_truncation(root: Fields) -> Truncation | None:
    """Read the truncation section."""
    if root.get("truncation", None) is None:
        return None
    at = root.object("truncation")
    return Truncation(
        max_length=at.integer("max_length", most=U64),
        stride=at.integer("stride", most=U64),
        strategy=at.choice("strategy", STRATEGIES),
        direction=at.choice("direction", SIDES, "right"),
    )


def read_padding(root: Fields) -> Padding | None:
    """Read the padding section."""
    if root.get("padding", None) is None:
        return None
    at = root.object("padding")
    strategy = at.get("strategy")
    length = None
    if type(strategy) is dict and set(strategy) == {"Fixed"}:
        length = at.object("strategy").integer("Fixed", most=U64)
    elif strategy != "BatchLongest":
        raise FormatError("is neither BatchLongest nor Fixed", field=at.path("strategy"))
    return Padding(
        pad_id=at.integer("pad_id"),
        pad_token=at.string("pad_token"),
        pad_type_id=at.integer("pad_type_id"),
        length=length,
        pad_to_multiple_of=at.optional_integer("pad_to_multiple_of"),
        direction=at.choice("direction", SIDES),
    )
