"""The tokenizer of a model folder: a SentencePiece model with what the files beside it add.

A tokenizer.json is read with its neighbors by its format; a SentencePiece model by itself has no
added tokens, and its roles are those of its training. Here it gets

* the added tokens of tokenizer.json, tokenizer_config.json, added_tokens.json and
  special_tokens_map.json, in transformers' order;
* the roles that tokenizer_config.json gives, where it is silent those of special_tokens_map.json,
  config.json and the model, in this order;
* what stands around a text, and the chat templates;
* fairseq's order of ids, where the class is XLM-RoBERTa's.

Source: llama.cpp, conversion/base.py (``_create_vocab_sentencepiece``), conversion/bert.py
(``_xlmroberta_set_vocab``), gguf-py/gguf/vocab.py (``SpecialVocab``); huggingface/transformers
4.57, models/xlm_roberta/tokenization_xlm_roberta.py (``fairseq_tokens_to_ids``).
"""

from __future__ import annotations

import os

from mtkit.base.binary import Source, read_beside
from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError, MtkitError, UnsupportedError
from mtkit.formats import spm
from mtkit.formats.hf.auto_tokenizer import MODEL_CONFIG, auto_class
from mtkit.formats.hf.components import read_stage
from mtkit.formats.hf.config import SideFiles, content_of, stop_ids
from mtkit.formats.hf.model_reader import parse_document
from mtkit.formats.hf.reader import listed_tokens
from mtkit.formats.json_fields import Fields, parse_json
from mtkit.formats.tokenizer_config import ADDED_TOKENS, CONFIG, ROLES, SPECIAL, Settings
from mtkit.spec import AddedToken, AddedTokens, TokenType, Vocabulary, replace
from mtkit.spec.decoders import Subwords
from mtkit.spec.models import Unigram
from mtkit.spec.normalizers import Spaces
from mtkit.spec.post_processors import Bert, Roberta, Sequence, Slot, Template
from mtkit.spec.special_tokens import FIRST_TEXT, PLAIN_TEMPLATE, SECOND_TEXT, with_special_ids
from mtkit.spec.vocabulary import is_sparse
from mtkit.tokenizer.tokenizer import Tokenizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.spec import SpecialIds, TokenizerSpec

DOCUMENT, GENERATION = "tokenizer.json", "generation_config.json"
FILES = (DOCUMENT, CONFIG, SPECIAL, ADDED_TOKENS)
"""Files that can add tokens."""
_ADDED_SCORE, _UNUSED_SCORE = -1000.0, -10000.0
FAIRSEQ_FILE = "sentencepiece.bpe.model"
_FAIRSEQ_CLASS = "XLMRobertaTokenizer"
_BLANK_CLASSES = ("LlamaTokenizer", "CodeLlamaTokenizer")
"""Classes of which transformers 4 and 5, and llama.cpp's converter, read ``add_prefix_space``."""
_OTHER_ORDERS = frozenset({
    "BarthezTokenizer", "CamembertTokenizer", "M2M100Tokenizer", "MBart50Tokenizer",
    "MBartTokenizer", "NllbTokenizer", "PLBartTokenizer", "XGLMTokenizer",
})  # fmt: skip
"""Classes that number the pieces of such a file in ways of their own."""
_OWN_ORDER = (
    "ids are those of the SentencePiece model: no file names XLMRobertaTokenizer, which numbers "
    "them otherwise"
)
_FAIRSEQ_START = (b"<unk>", b"<s>", b"</s>")
FAIRSEQ = (b"<s>", b"<pad>", b"</s>", b"<unk>")
_FAIRSEQ_ROLES = {"bos": 0, "pad": 1, "eos": 2, "unk": 3, "cls": 0, "sep": 2}


def with_neighbors(tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokenizer of a SentencePiece model with what the files beside it add.

    One that was changed since it was read, or is complete already, is returned as it is.

    Raises:
        FormatError: One of the files is damaged.
        UnsupportedError: The class of the tokenizer numbers the pieces in an unknown way.
    """
    if tokenizer.format_name != spm.NAME or not os.path.isfile(tokenizer.source):
        return tokenizer
    source = Source.open(tokenizer.source)
    try:
        if spm.read(source, {}).spec != tokenizer.spec:
            return tokenizer
        spec, assumptions = Neighbors(source).complete(tokenizer.spec)
    except MtkitError as error:
        raise error.located(tokenizer.source) from None
    return Tokenizer(
        spec,
        source=tokenizer.source,
        format_name=tokenizer.format_name,
        assumptions=(*tokenizer.assumptions, *assumptions),
    )


def token_files(folder: str, text: str) -> tuple[str, ...]:
    """Return the files of a folder that add a token of this text."""
    import json

    names = []
    for name in FILES:
        data = read_beside(os.path.join(folder, name))
        try:
            document = json.loads(data) if data is not None else None
        except (ValueError, RecursionError):  # reading the tokenizer reports it
            continue
        if name == DOCUMENT:
            document = document.get("added_tokens") if isinstance(document, dict) else None
        if _holds(document, text):
            names.append(name)
    return tuple(names)


def _holds(value: Any, text: str) -> bool:
    """Tell whether a text is a key or a value in a document."""
    if isinstance(value, dict):
        return text in value or any(_holds(part, text) for part in value.values())
    if isinstance(value, list):
        return any(_holds(part, text) for part in value)
    return bool(value == text)


class Neighbors:
    """The files beside a SentencePiece model."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._side = SideFiles(source)
        self._settings = Settings(source)
        for role in ROLES:  # some publishers leave out the mark, which ``SpecialVocab`` ignores
            token = self._settings.config.values.get(f"{role}_token")
            if isinstance(token, dict) and isinstance(token.get("content"), str):
                token.setdefault("__type", "AddedToken")
        self._document = self._read_document()
        self._listed = listed_tokens(Fields(self._document, ""))
        self._model = self._read_object(MODEL_CONFIG)

    def _read_document(self) -> dict[str, Any]:
        data = self._source.beside(DOCUMENT)
        if data is None:
            return {}
        try:
            document: dict[str, Any] = parse_document(data)[0]
        except FormatError as error:
            raise FormatError(error.what, field=DOCUMENT, offset=error.offset) from None
        return document

    def _read_object(self, name: str) -> dict[str, Any]:
        data = self._source.beside(name)
        try:
            value = {} if data is None else parse_json(data, name)
        except FormatError:  # reading the model reports it
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def class_name(self) -> str:
        """The class that transformers makes of the folder; empty where no file names one."""
        config = self._settings.config.values
        names = (config.get("tokenizer_class"), self._model.get("tokenizer_class"))
        if not any(isinstance(name, str) for name in (*names, self._model.get("model_type"))):
            return ""
        return auto_class(config, self._model, is_byte_level=False, has_tekken=False)

    def complete(self, spec: TokenizerSpec) -> tuple[TokenizerSpec, tuple[str, ...]]:
        """Return the specification of the whole folder, and what was assumed for it."""
        assumed: tuple[str, ...] = ()
        if os.path.basename(self._source.name) == FAIRSEQ_FILE:
            name = self.class_name
            if name in _OTHER_ORDERS:
                what = f"is read by {name}, which numbers its pieces in a way that is not known"
                raise UnsupportedError(what, hint=f"convert {DOCUMENT} instead, if there is one")
            if name == _FAIRSEQ_CLASS:
                spec = _in_fairseq_order(spec)
            else:
                assumed = (_OWN_ORDER,)
        spec = self._with_added_tokens(self._with_first_blank(spec))
        special_ids = self._roles(spec)
        spec = replace(spec, special_ids=special_ids, chat_templates=self._side.chat_templates)
        return self._with_ends(spec), assumed

    def _with_first_blank(self, spec: TokenizerSpec) -> TokenizerSpec:
        """Return the specification with the blank in front of a text that Llama's class puts there.

        The setting of that class is stronger than the one in the model, in both directions.
        """
        adds, spaces = self._settings.config.values.get("add_prefix_space"), spec.normalizer
        if not isinstance(adds, bool) or not isinstance(spaces, Spaces):
            return spec
        if self.class_name.removesuffix("Fast") not in _BLANK_CLASSES:
            return spec
        decoder = spec.decoder
        if isinstance(decoder, Subwords) and not spaces.remove_extra_whitespaces:
            decoder = replace(decoder, drop_marks="first" if adds else "none")
        return replace(spec, normalizer=replace(spaces, add_dummy_prefix=adds), decoder=decoder)

    @property
    def _rows(self) -> int:
        for part in (self._model, self._model.get("text_config")):
            size = part.get("vocab_size") if isinstance(part, dict) else None
            if type(size) is int and size > 0:
                return size
        return 0

    def _with_added_tokens(self, spec: TokenizerSpec) -> TokenizerSpec:
        tokens = self._added_tokens(spec.vocabulary)
        if not tokens:
            return spec
        kept, listed = spec.vocabulary, set(self._numbers)
        end = max(len(kept), max(tokens) + 1)
        if is_sparse(end, len(kept) + len(tokens)):
            raise FormatError(f"adds a token with the id {end - 1}", field=CONFIG)
        more = end - len(kept)
        pieces = [*kept.pieces, *[b""] * more]
        types = [*kept.all_types(), *[TokenType.ABSENT] * more]
        scores = [*(kept.scores or [0.0] * len(kept)), *[_UNUSED_SCORE] * more]
        for number, token in tokens.items():
            is_old = pieces[number] == token.content
            pieces[number] = token.content
            if is_old and token.content not in listed and types[number] != TokenType.NORMAL:
                continue  # its type is that of the model
            types[number] = TokenType.CONTROL if token.special else TokenType.USER_DEFINED
            if not is_old or token.content in listed:
                scores[number] = _ADDED_SCORE
        vocabulary = Vocabulary(
            Pieces.of(pieces), Numbers("B", bytes(types)), Numbers.of("f", scores), kept.hidden
        )
        tokens = {token.id: token for token in spec.added_tokens.tokens} | tokens
        parse_special = not self._settings.flag("split_special_tokens", False)
        added = AddedTokens(tuple(tokens.values()), parse_special=parse_special)
        return replace(spec, vocabulary=vocabulary, added_tokens=added)

    def _added_tokens(self, vocabulary: Vocabulary) -> dict[int, AddedToken]:
        """Return id -> token: the id of the model, else that of the files, else the next free one.

        transformers 5 uses no id of a file; the rows of a model that was trained with transformers
        4 are those of the files, and llama.cpp's converter takes them, too.
        """
        settings, listed = self._settings, self._listed
        tokens = [*listed, *settings.tokens(settings.role_tokens({}), present=listed)]
        own = {
            vocabulary.pieces[at]: at
            for at in vocabulary.pieces.places({t.content for t in tokens})
        }
        numbers = {token.content: token.id for token in listed} | self._numbers
        listed_ids = {numbers[t.content] for t in tokens if t.content in numbers}
        following = max([len(vocabulary) - 1, *listed_ids]) + 1
        by_id: dict[int, AddedToken] = {}
        special = {token.content for token in tokens if token.special}
        for token in tokens:
            content = token.content
            if not content:
                continue
            if content in own:
                number = own[content]
            elif content in numbers:
                number = numbers[content]
            else:
                number = numbers[content] = following
                following += 1
            is_special = content in special or looks_special(content.decode("utf-8", "replace"))
            if not is_special:  # as llama.cpp looks for it in a text
                content = content.replace("\u2581".encode(), b" ")
            by_id[number] = replace(token, id=number, content=content, special=is_special)
        return dict(sorted(by_id.items()))

    @property
    def _numbers(self) -> dict[bytes, int]:
        """Text -> id in tokenizer_config.json and added_tokens.json."""
        numbers: dict[bytes, int] = {}
        data = self._source.beside(ADDED_TOKENS)
        if data is not None:
            fields = Fields(parse_json(data, ADDED_TOKENS), ADDED_TOKENS)
            numbers.update({text.encode(): fields.integer(text) for text in fields.values})
        table = self._settings.config.values.get("added_tokens_decoder")
        if isinstance(table, dict):
            for key, value in table.items():  # whose form ``Settings`` has checked
                numbers[value["content"].encode("utf-8", "surrogatepass")] = int(key)
        return numbers

    def _roles(self, spec: TokenizerSpec) -> SpecialIds:
        documents = self._side.documents
        tokens = {token.content: token.id for token in spec.added_tokens.tokens}
        text_config = self._model.get("text_config")
        numbers = [self._model, text_config if isinstance(text_config, dict) else {}]
        ids: dict[str, int] = {}
        for role in ROLES:
            names = (documents.get(name, {}).get(f"{role}_token") for name in (CONFIG, SPECIAL))
            texts = [text.encode() for name in names if (text := content_of(name))]
            claims = [tokens.get(text, spec.vocabulary.pieces.find(text)) for text in texts]
            claims += [part.get(f"{role}_token_id") for part in numbers]
            size = max(spec.vocab_size, self._rows)
            sound = (number for number in claims if type(number) is int and 0 <= number < size)
            number = next(sound, None)
            if number is not None:
                ids[role] = number
        return replace(spec.special_ids, stop=stop_ids(documents.get(GENERATION, {})), **ids)

    def _with_ends(self, spec: TokenizerSpec) -> TokenizerSpec:
        """Return the specification with what stands around a text."""
        processor = read_stage(Fields(self._document, ""), "post_processor")
        if isinstance(processor, (Template, Bert, Roberta, Sequence)):
            spec = replace(spec, post_processor=processor)
        config = self._settings.config.values
        adds = {
            role: config[f"add_{role}_token"]
            for role in ("bos", "eos")
            if type(config.get(f"add_{role}_token")) is bool
            and getattr(spec.special_ids, role) is not None
        }
        spec, _ = with_special_ids(
            spec, add_bos=adds.get("bos"), add_eos=adds.get("eos"), by_family=False
        )
        if "bos" in adds and spec.post_processor is None:  # else a conversion takes the family's
            spec = replace(spec, post_processor=PLAIN_TEMPLATE)
        return spec


def looks_special(text: str) -> bool:
    """Recognize special tokens that publishers forgot to mark.

    Source: llama.cpp, conversion/base.py (``does_token_look_special``).
    """
    pairs = (("<|", "|>"), ("<\uff5c", "\uff5c>"), ("<unused", ">"))
    return text in ("<pad>", "<mask>", "<2mass>", "[@BOS@]") or any(
        text.startswith(first) and text.endswith(last) for first, last in pairs
    )


def _in_fairseq_order(spec: TokenizerSpec) -> TokenizerSpec:
    """Return a specification with the ids of XLM-RoBERTa.

    Its special tokens come first, the pieces behind the three of the model follow.
    """
    old = spec.vocabulary
    if tuple(old.pieces)[:3] != _FAIRSEQ_START or not isinstance(spec.model, Unigram):
        what = "does not begin with <unk>, <s> and </s>, as models of XLM-RoBERTa do"
        raise UnsupportedError(what, field="pieces")
    start = len(_FAIRSEQ_START)
    kinds = [TokenType.CONTROL] * 3 + [TokenType.UNKNOWN]
    vocabulary = Vocabulary(
        Pieces.of([*FAIRSEQ, *[*old.pieces][start:]]),
        Numbers("B", bytes([*kinds, *old.all_types()[start:]])),
        Numbers.of("f", [*[0.0] * 4, *[*(old.scores or ())][start:]]),
    )
    return replace(
        spec,
        vocabulary=vocabulary,
        model=replace(spec.model, unk=_FAIRSEQ_ROLES["unk"]),
        special_ids=replace(spec.special_ids, **_FAIRSEQ_ROLES),
        added_tokens=AddedTokens(
            tuple(AddedToken(at, text, special=True) for at, text in enumerate(FAIRSEQ))
        ),
        post_processor=_fairseq_ends(),
    )


def _fairseq_ends() -> Template:
    bos, eos = (Slot(ids=(number,), name=name) for number, name in ((0, "<s>"), (2, "</s>")))
    second = replace(SECOND_TEXT, type_id=0)
    return Template((bos, FIRST_TEXT, eos), (bos, FIRST_TEXT, eos, eos, second, eos))
