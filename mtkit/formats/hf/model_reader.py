"""The ``model`` of a tokenizer.json: vocabulary and merges.

A vocabulary is an object token -> id (a list of [token, score] for Unigram); the ids may leave
holes. Merges are pairs or, in older files, "left right"; of two equal pairs the last counts, and
the parts and results of all merges must be tokens. Without ``type`` the library takes the first of
BPE, WordPiece, WordLevel, Unigram whose fields are there.

Source: huggingface/tokenizers 0.23, models/mod.rs, models/*/serialization.rs, models/bpe/model.rs
(``build``, ``convert_merges_to_hashmap``), models/unigram/model.rs (``from``).
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces, narrowed
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.hf.numbers import read_float
from mtkit.formats.json_fields import Fields, encode_text, format_value, parse_json
from mtkit.spec import TokenType, Vocabulary
from mtkit.spec.models import BPE, Merges, Unigram, WordLevel, WordPiece
from mtkit.spec.vocabulary import Spelling, is_sparse, present_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.base.binary import Buffer
    from mtkit.spec.models import Model


class NativeVocabulary:
    """Token -> id, as the core keeps it.

    Attributes:
        scores: Scores of a Unigram vocabulary, which has no index; else None.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self.scores = None if model.scores is None else Numbers("d", model.scores)

    def __len__(self) -> int:
        count: int = self._model.count
        return count

    def get(self, token: str) -> int | None:
        """Return the id of a token, or None."""
        try:
            number: int | None = self._model.find(token.encode())
        except UnicodeEncodeError:
            return None
        return number

    def vocabulary(self) -> Vocabulary:
        """Return the tokens by id; a hole becomes an ABSENT piece."""
        pieces = Pieces(self._model.blob, Numbers("I", self._model.ends))
        if self.scores is not None:
            return Vocabulary(pieces, scores=narrowed(self.scores))
        if len(pieces) == len(self):
            return Vocabulary(pieces)
        return Vocabulary(pieces, Numbers("B", present_types(self._model.present)))

    def merges(self) -> Merges:
        """Return the merges, which the core has checked."""
        return Merges(Numbers("I", self._model.merges or b""), Pieces.of([]))


def parse_document(data: Buffer) -> tuple[Any, NativeVocabulary | None]:
    """Parse a file; where the core reads vocabulary and merges, the document has them empty."""
    try:
        from mtkit.base.native import native
    except ImportError:
        model = None
    else:
        model = native.read_json_model(data)
    # Vocabulary and merges are nearly all of a file, and take ten times as long as Python objects.
    # The core gives up on anything unusual; then ``read_model`` gives the result or the error.
    if model is not None:
        try:
            document = parse_json(model.rest, parse_float=read_float)
        except FormatError:  # its offsets are those of the rest
            model = None
        # The core does not know the prefix, which changes the results of merges.
        if model and not (model.merges and document["model"].get("continuing_subword_prefix")):
            return document, NativeVocabulary(model)
    return parse_json(data, parse_float=read_float), None


_VOCAB = "model.vocab"


def read_model(
    root: Fields, dictionary: NativeVocabulary | None = None
) -> tuple[Vocabulary, Model]:
    """Read vocabulary and model; the dictionary is the vocabulary where the core read it."""
    at = root.object("model")
    kind = _kind(at)
    is_scored = dictionary is not None and dictionary.scores is not None
    if kind == "Unigram":
        return _unigram(at, dictionary if is_scored else None)
    ids = (None if is_scored else dictionary) or _ids(at)
    vocabulary = _vocabulary(ids) if isinstance(ids, dict) else _native_vocabulary(ids)
    if kind == "BPE":
        model = _bpe(at, ids)
        if vocabulary.also:
            _check_spellings(at, vocabulary, model)
        return vocabulary, model
    unk = ids.get(at.string("unk_token"))
    if kind == "WordLevel":
        return vocabulary, WordLevel(unk)
    prefix = at.string("continuing_subword_prefix")
    most = at.integer("max_input_chars_per_word", most=(1 << 64) - 1)
    return vocabulary, WordPiece(unk, prefix, most)


def _kind(at: Fields) -> str:
    """Return the model's kind by its type or, in old files, by its fields."""
    if "type" in at:
        kind = at.string("type")
        if kind not in ("BPE", "WordPiece", "WordLevel", "Unigram"):
            what = f"unknown tokenizer model {format_value(kind)}"
            raise UnsupportedError(what, field=at.path("type"))
        return kind
    if type(at.get("vocab")) is list:
        return "Unigram"
    if "merges" in at:
        return "BPE"
    if "continuing_subword_prefix" in at and "max_input_chars_per_word" in at:
        return "WordPiece"
    return "WordLevel"


def _ids(at: Fields) -> dict[str, int]:
    """Return token -> id, checked: whole numbers."""
    ids = at.object("vocab").values
    where = at.path("vocab")
    numbers = ids.values()
    if set(map(type, numbers)) - {int}:
        bad = next(token for token, number in ids.items() if type(number) is not int)
        what = f"the id of {format_value(bad)} is {format_value(ids[bad])}, not a whole number"
        raise FormatError(what, field=where)
    if ids and not 0 <= min(numbers) <= max(numbers) < (1 << 32):
        bad = next(token for token, number in ids.items() if not 0 <= number < (1 << 32))
        what = f"the id of {format_value(bad)} is {format_value(ids[bad])}, outside 32 bits"
        raise FormatError(what, field=where)
    return ids


def _check_holes(size: int, count: int) -> None:
    if is_sparse(size, count):
        what = f"the highest id is {size - 1}, but there are only {count} tokens"
        raise UnsupportedError(what, field=_VOCAB)


def _native_vocabulary(dictionary: NativeVocabulary) -> Vocabulary:
    vocabulary = dictionary.vocabulary()
    _check_holes(len(vocabulary), len(dictionary))
    return vocabulary


def _vocabulary(ids: dict[str, int]) -> Vocabulary:
    """Arrange tokens by id; a hole becomes an ABSENT piece.

    Of several spellings of an id the first is decoded; the library takes any of them, another one
    each time it reads the file.
    """
    numbers = list(ids.values())
    size = max(numbers, default=-1) + 1
    _check_holes(size, len(ids))
    try:
        encoded = list(map(str.encode, ids))
    except UnicodeEncodeError:
        raise FormatError("holds a lone surrogate", field=_VOCAB) from None
    if size == len(ids) and numbers == list(range(size)):
        return Vocabulary(Pieces.of(encoded))
    pieces = [b""] * size
    types = bytearray([TokenType.ABSENT]) * size
    also = []
    for number, piece in zip(numbers, encoded, strict=True):
        if types[number] == TokenType.ABSENT:
            pieces[number], types[number] = piece, TokenType.NORMAL
        else:
            also.append(Spelling(piece, number))
    kinds = Numbers("B", types) if TokenType.ABSENT in types else None
    return Vocabulary(Pieces.of(pieces), kinds, also=tuple(also))


def _bpe(at: Fields, ids: dict[str, int] | NativeVocabulary) -> BPE:
    dropout = at.get("dropout", None)
    if dropout is not None and (type(dropout) not in (int, float) or not 0 <= dropout <= 1):
        raise at.wrong("dropout", "a number from 0 to 1")
    unk = at.optional_string("unk_token")
    prefix = at.optional_string("continuing_subword_prefix") or ""
    return BPE(
        merges=_merges(at, ids, prefix) if isinstance(ids, dict) else _native_merges(at, ids),
        unk=None if unk is None else ids.get(unk),
        fuse_unk=at.optional_boolean("fuse_unk") is True,
        byte_fallback=at.optional_boolean("byte_fallback") is True,
        ignore_merges=at.optional_boolean("ignore_merges") is True,
        continuing_subword_prefix=prefix,
        end_of_word_suffix=at.optional_string("end_of_word_suffix") or "",
        dropout=float(dropout) if dropout else None,
        without_unk="left_out" if unk is None or ids.get(unk) is not None else "error",
    )


def _check_spellings(at: Fields, vocabulary: Vocabulary, model: BPE) -> None:
    """Check that the first spelling of the result of each merge joins first spellings."""
    cut, ids = len(model.continuing_subword_prefix.encode()), vocabulary.ids
    listed = [merge.split(" ") if type(merge) is str else merge for merge in at.items("merges")]
    pieces = dict[int, bytes](enumerate(vocabulary.pieces))
    for place, (left, right) in enumerate(pair for pair in listed if len(pair) == 2):
        left_piece, right_piece = left.encode(), right.encode()
        first = pieces[ids[left_piece]] + pieces[ids[right_piece]][cut:]
        if ids.get(first) != ids[left_piece + right_piece[cut:]]:
            what = f"{format_value(left + right)} is made of a token's second spelling"
            raise UnsupportedError(what, field=f"{at.path('merges')}[{place}]")


def _native_merges(at: Fields, dictionary: NativeVocabulary) -> Merges:
    at.items("merges")  # raises where they are missing
    return dictionary.merges()


def _merges(at: Fields, ids: dict[str, int], prefix: str) -> Merges:
    """Read the merges as pairs of ids; of two equal pairs the later counts."""
    listed = at.items("merges")
    kinds = set(map(type, listed))
    if kinds == {str}:
        listed = [merge.split(" ") for merge in listed if not merge.startswith("#version")]
    elif kinds - {list}:
        raise FormatError("are neither all pairs nor all strings", field=at.path("merges"))
    # The library cuts the length of the prefix off the right part, whatever it begins with.
    cut = len(prefix.encode())
    try:
        pairs = [(ids[left], ids[right]) for left, right in listed]
        if cut:
            encoded = {token.encode() for token in ids}
            whole = all(
                len(right.encode()) >= cut and left.encode() + right.encode()[cut:] in encoded
                for left, right in listed
            )
        else:
            whole = ids.keys() >= {left + right for left, right in listed}
    except (KeyError, TypeError, ValueError):
        whole = False
    if not whole:
        raise _bad_merge(at, ids, listed, cut)
    if len(set(pairs)) != len(pairs):
        last = {pair: place for place, pair in enumerate(pairs)}
        pairs = sorted(last, key=last.__getitem__)
    flat = [number for pair in pairs for number in pair]
    return Merges(Numbers.of("I", flat), Pieces.of([]))


def _bad_merge(at: Fields, ids: dict[str, int], listed: list[Any], cut: int) -> FormatError:
    tokens = {token.encode() for token in ids}
    for place, merge in enumerate(listed):
        where = f"{at.path('merges')}[{place}]"
        if len(merge) != 2 or not all(type(part) is str for part in merge):
            return FormatError("is not two tokens", field=where)
        left, right = (encode_text(part, where) for part in merge)
        for part in (left, right, left + right[cut:]):
            if part not in tokens or len(right) < cut:
                what = f"{format_value(part.decode('utf-8', 'replace'))} is not a token"
                return FormatError(what, field=where)
    return FormatError("are damaged", field=at.path("merges"))


def _unigram(at: Fields, scored: NativeVocabulary | None) -> tuple[Vocabulary, Unigram]:
    vocabulary = scored.vocabulary() if scored else _scored(at)
    unk = at.optional_integer("unk_id")
    if unk is not None and unk >= len(vocabulary):
        what = f"is {unk}, but there are {len(vocabulary)} tokens"
        raise FormatError(what, field=at.path("unk_id"))
    return vocabulary, Unigram(unk, byte_fallback=at.boolean("byte_fallback", default=False))


def _scored(at: Fields) -> Vocabulary:
    listed = at.items("vocab")
    where = at.path("vocab")
    pieces: list[bytes] = []
    scores: list[float] = []
    for place, entry in enumerate(listed):
        if type(entry) is not list or len(entry) != 2:
            raise FormatError("is not a token and its score", field=f"{where}[{place}]")
        token, score = entry
        if type(token) is not str or type(score) not in (int, float) or score - score != 0:
            raise FormatError("is not a token and its score", field=f"{where}[{place}]")
        pieces.append(encode_text(token, where))
        try:
            scores.append(float(score))
        except OverflowError:
            raise FormatError("has a score out of range", field=f"{where}[{place}]") from None
    return Vocabulary(Pieces.of(pieces), scores=narrowed(Numbers.of("d", scores)))
