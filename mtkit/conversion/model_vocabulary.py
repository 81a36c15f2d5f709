"""The tokenizer of a model folder, as the keys of its GGUF.

It is written and proved as in every conversion. Then it becomes the model's: tokens that were added
to a SentencePiece model beside it, roles that config.json gives, and unused tokens up to the rows
of the embedding.

Source: llama.cpp, conversion/base.py (``_create_vocab_sentencepiece``), gguf-py/gguf/vocab.py
(``SpecialVocab``).
"""

from __future__ import annotations

from mtkit.base.binary import Source
from mtkit.base.escape import quoted
from mtkit.base.record import Record
from mtkit.conversion.convert import write
from mtkit.conversion.verify import verify
from mtkit.conversion.vocabulary_of_model import SCORES, TOKENS, TYPES, fill
from mtkit.errors import FormatError, UsageError
from mtkit.formats.added_tokens import CONFIG
from mtkit.gguf import open_gguf
from mtkit.gguf.writer import Key
from mtkit.sources.locate import TOKENIZER, in_folder
from mtkit.spec import TokenType
from mtkit.tokenizer.load import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.conversion.verify import Verified
    from mtkit.formats.contract import Loss, WriteOptions

PREFIX = "tokenizer."
SENTENCEPIECE = ("tokenizer.model", "spiece.model", "sentencepiece*.model")
"""Come before a tokenizer.json: llama.cpp's tokenizer of this kind wants their scores."""
ROLES = {
    "bos": "bos", "eos": "eos", "unk": "unknown", "sep": "seperator", "pad": "padding",
    "cls": "cls", "mask": "mask",
}  # fmt: skip
"""Role in ``ROLE_token_id`` of config.json -> in the key of a GGUF, which misspells one."""
_ADDED_SCORE = -1000.0
_MOST_DIGITS = 9


class ModelVocabulary(Record):
    """A tokenizer as a model's GGUF holds it.

    Attributes:
        keys: Those of the tokenizer, in their order.
        name: ``general.name``, from which llama.cpp takes rules of some tokenizers.
        losses: What the GGUF does not hold of the tokenizer's files.
        assumptions: What was supplied.
        verified: How it compares with its source.
    """

    keys: tuple[Key, ...]
    name: str
    losses: tuple[Loss, ...]
    assumptions: tuple[str, ...]
    verified: tuple[Verified, ...]


def model_vocabulary(
    folder: str,
    config: Config,
    wanted: int,
    options: WriteOptions,
    allow_loss: Collection[str] = (),
) -> ModelVocabulary:
    """Write the tokenizer of a folder and prove it.

    Args:
        folder: Of the model.
        config: config.json.
        wanted: Ids of the model.
        options: Choices of the writer, the model's name among them.
        allow_loss: Codes of losses that may happen although they change ordinary ids.

    Raises:
        UsageError: There is no tokenizer, or it has more ids than the model.
        UnsupportedError: llama.cpp has nothing that does the same.
        LossError: Ordinary text would get different ids and that is not allowed.
        AnswerNo: What was written does not give the same ids.
    """
    from mtkit.formats import gguf

    path = in_folder(folder, SENTENCEPIECE) or in_folder(folder, TOKENIZER.files)
    if path is None:
        hint = "the tokenizer's files go beside config.json"
        raise UsageError("is a folder without a tokenizer", source=folder, hint=hint)
    given = load(path)
    tokenizer, assumptions, written = write(given, gguf, options, allow_loss)
    verified = verify(tokenizer, gguf, written, allow_loss)
    metadata = open_gguf(Source(".gguf", written.files[".gguf"])).metadata
    keys = {
        name: Key(name, metadata.type_name(name), value)
        for name, value in metadata.items()
        if name.startswith(PREFIX)
    }
    is_trained = given.format_name == "spm"
    if is_trained:
        _add_beside(keys, Source.open(path), wanted)
    fill(keys, wanted, path)
    for key in _roles(config, wanted):
        # What a SentencePiece model calls its tokens is what it was trained with, no more.
        if is_trained or key.name not in keys:
            keys[key.name] = key
    name = str(metadata.get("general.name", ""))
    return ModelVocabulary(tuple(keys.values()), name, written.losses, assumptions, verified)


def _roles(config: Config, wanted: int) -> Iterator[Key]:
    """Yield the ids with a role that config.json gives."""
    for role, name in ROLES.items():
        number = config.get(f"{role}_token_id")
        if type(number) is int and 0 <= number < wanted:
            yield _role(name, number)


def _role(name: str, number: int) -> Key:
    return Key(f"tokenizer.ggml.{name}_token_id", "u32", number)


def _add_beside(keys: dict[str, Key], source: Source, wanted: int) -> None:
    """Take over what transformers' files add to a SentencePiece model: tokens, roles, templates.

    Raises:
        FormatError: One of the files is damaged.
        UsageError: A token has an id that the model does not have.
    """
    from mtkit.formats.gguf.writer import template_keys
    from mtkit.formats.hf.config import Beside, content_of

    beside = Beside(source)
    keys.update({key.name: key for key in template_keys(beside.chat_templates)})
    settings = beside.documents.get(CONFIG, {})
    added = _added(source, settings)
    end = max(added, default=-1) + 1
    if end > wanted:
        what = f"adds a token with the id {end - 1}, but the model has {wanted} ids"
        raise UsageError(what, source=source.name, field=CONFIG)
    fill(keys, max(end, len(keys[TOKENS].value)), source.name)
    tokens, scores, types = (list(keys[name].value) for name in (TOKENS, SCORES, TYPES))
    for number, (text, kind) in added.items():
        tokens[number], scores[number], types[number] = text, _ADDED_SCORE, kind
    for name, values in ((TOKENS, tokens), (SCORES, scores), (TYPES, types)):
        keys[name] = Key(name, keys[name].type, values)
    ids = {text: number for number, (text, _) in added.items()}
    for role, name in ROLES.items():
        found = ids.get(content_of(settings.get(f"{role}_token")) or "")
        if found is not None:
            key = _role(name, found)
            keys[key.name] = key


def _added(source: Source, settings: Mapping[str, Any]) -> dict[int, tuple[str, int]]:
    """Return id -> text and type of the tokens that the files beside a model add.

    Raises:
        FormatError: One of the files is damaged.
    """
    from mtkit.formats.json_fields import Fields, parse
    from mtkit.formats.tokenizer_class import ADDED

    found: dict[int, tuple[str, int]] = {}
    data = source.beside(ADDED)
    if data is not None:
        fields = Fields(parse(data, ADDED), ADDED)
        for text in fields.values:
            found[fields.integer(text)] = text, TokenType.USER_DEFINED
    table = settings.get("added_tokens_decoder")
    if table is not None:
        for number, value in Fields(table, CONFIG).values.items():
            entry = Fields(value, f"{CONFIG}: added_tokens_decoder.{number}")
            if not number.isdecimal() or len(number) > _MOST_DIGITS:
                raise FormatError(f"{quoted(number)} is not an id", field=CONFIG)
            text = entry.string("content")
            if entry.boolean("special", default=False) or _looks_special(text):
                found[int(number)] = text, TokenType.CONTROL
            else:
                found[int(number)] = text.replace("\u2581", " "), TokenType.USER_DEFINED
    return found


def _looks_special(text: str) -> bool:
    """Tell tokens that publishers forgot to mark.

    Source: llama.cpp, conversion/base.py (``does_token_look_special``).
    """
    pairs = (("<|", "|>"), ("<\uff5c", "\uff5c>"), ("<unused", ">"))
    return text in ("<pad>", "<mask>", "<2mass>", "[@BOS@]") or any(
        text.startswith(first) and text.endswith(last) for first, last in pairs
    )
