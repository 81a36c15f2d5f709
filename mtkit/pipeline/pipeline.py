"""Class ``Pipeline``: the walk from text to ids and back, stage by stage."""

from __future__ import annotations

from mtkit.pipeline.added_tokens import Cutter
from mtkit.pipeline.aligned_text import AlignedText
from mtkit.pipeline.decoding import Decoding
from mtkit.pipeline.encoding import Tokens, packed_rows, pad
from mtkit.pipeline.models import build
from mtkit.pipeline.models.words import beyond
from mtkit.pipeline.normalizers import compile_normalizer
from mtkit.pipeline.post_processors import assemble
from mtkit.pipeline.pre_tokenizers import compile_pre_tokenizer
from mtkit.spec import user_defined_pieces
from mtkit.spec.models import Characters, ScoreBPE, Unigram, Words
from mtkit.unicode.utf8 import to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Literal

    from typing_extensions import Unpack

    from mtkit.pipeline.decoding import DecodeStream
    from mtkit.pipeline.encoding import EncodeOptions, Encoding, TextOptions
    from mtkit.pipeline.models import ModelEncoder
    from mtkit.spec import TokenizerSpec

    Text = str | bytes
    FromFile = Literal["file"] | None


_OF_SCORES = (Unigram, ScoreBPE, Characters, Words)


class Pipeline:
    """A tokenizer that does what its specification says, without caches.

    Attributes:
        name: "pipeline", where the engine says "native".
    """

    name = "pipeline"

    def __init__(self, spec: TokenizerSpec) -> None:
        """Read the tables of every stage but the model, which is built when it is first used."""
        self.spec = spec
        self.user_defined = user_defined_pieces(spec)
        self.normalize = (
            compile_normalizer(spec.normalizer, self.user_defined) if spec.normalizer else None
        )
        self.cutter = Cutter(spec.added_tokens, self.normalize)
        self.pre_tokenize = (
            compile_pre_tokenizer(spec.pre_tokenizer) if spec.pre_tokenizer else None
        )
        self.decoding = Decoding(spec, self.cutter.normalized)
        self._model: ModelEncoder | None = None

    @property
    def model(self) -> ModelEncoder:
        """The encoder of single words."""
        if self._model is None:
            self._model = build(self.spec)
        return self._model

    def encode(
        self, text: Text, pair: Text | None = None, **options: Unpack[EncodeOptions]
    ) -> Encoding:
        """Encode a text, or two that belong together."""
        return self.encode_batch([text if pair is None else (text, pair)], **options)[0]

    def encode_batch(
        self,
        texts: Sequence[Text | tuple[Text, Text]],
        *,
        padding: FromFile = None,
        truncation: FromFile = None,
        **options: Unpack[TextOptions],
    ) -> list[Encoding]:
        """Encode several texts or pairs; padding fills them to a common length."""
        entries = (entry if isinstance(entry, tuple) else (entry, None) for entry in texts)
        results = [
            self.tokens(text, pair, truncation=truncation, **options) for text, pair in entries
        ]
        if padding and self.spec.padding:
            pad(results, self.spec.padding)
        return [tokens.encoded() for tokens in results]

    @property
    def pipeline(self) -> Pipeline:
        """The readable reference, as ``Engine.pipeline``: here the object itself."""
        return self

    def encode_ids(
        self, text: Text, add_special_tokens: bool = True, parse_special: bool | None = None
    ) -> list[int]:
        """Encode to ids alone; see ``encode``."""
        return self.tokens(
            text, None, add_special_tokens=add_special_tokens, parse_special=parse_special
        ).ids

    def encode_array(
        self, text: Text, add_special_tokens: bool = True, parse_special: bool | None = None
    ) -> memoryview:
        """Encode to ids as a buffer of int32."""
        return packed_rows([self.encode_ids(text, add_special_tokens, parse_special)])[0]

    def direct(self, name: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:  # noqa: ARG002
        """Return what answers: there is no core to call instead, as ``Engine`` has one."""
        return otherwise

    def encode_offsets(
        self, text: Text, add_special_tokens: bool = True, parse_special: bool | None = None
    ) -> tuple[memoryview, memoryview]:
        """Encode to ids, and where each starts and ends, as buffers of int32."""
        return self.encode(
            text, add_special_tokens=add_special_tokens, parse_special=parse_special
        ).packed()

    def encode_batch_ids(
        self,
        texts: list[Any],
        add_special_tokens: bool = True,
        parse_special: bool | None = None,
        threads: int = 1,  # noqa: ARG002  the engine's
    ) -> list[list[int]]:
        """Encode several texts to ids."""
        return [self.encode_ids(text, add_special_tokens, parse_special) for text in texts]

    def encode_batch_arrays(
        self,
        texts: list[Any],
        add_special_tokens: bool = True,
        parse_special: bool | None = None,
        threads: int = 1,  # noqa: ARG002
    ) -> tuple[memoryview, memoryview]:
        """Encode several texts to one buffer of int32, and the starts of their rows in int64."""
        return packed_rows(
            self.encode_ids(text, add_special_tokens, parse_special) for text in texts
        )

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return self.spec.vocab_size

    def first_outside(self, ids: Sequence[int]) -> int | None:
        """Return the first number that is not an id, None where all are."""
        size = self.vocab_size
        return next((number for number in ids if not 0 <= number < size), None)

    def decode_bytes(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> bytes:
        """Decode to bytes, which may not be valid UTF-8 where the tokens are bytes."""
        return self.decoding.decode_bytes(ids, skip_special_tokens=skip_special_tokens)

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """Decode to text, U+FFFD for bytes that are not valid UTF-8."""
        return self.decoding.decode(ids, skip_special_tokens=skip_special_tokens)

    def decode_stream(self, *, skip_special_tokens: bool = True) -> DecodeStream:
        """Return a stream that takes ids one by one and gives text in whole characters."""
        from mtkit.pipeline.decoding import DecodeStream

        return DecodeStream(self.decoding, skip_special_tokens=skip_special_tokens)

    def words(
        self, text: str, *, parse_special: bool | None = None
    ) -> list[tuple[AlignedText, int | None]]:
        """Return the words of a text with the id of those that are added tokens."""
        words: list[tuple[AlignedText, int | None]] = []
        for part, part_id in self.cutter.cut(AlignedText.of(text), parse_special=parse_special):
            if part_id is not None:
                words.append((part, part_id))
                continue
            if not part.text:
                continue  # no reference gives tokens for nothing, whatever it would prepend
            if self.normalize:
                self.normalize(part)
            for piece, piece_id in self.cutter.cut_normalized(part, parse_special=parse_special):
                if piece_id is not None:
                    words.append((piece, piece_id))
                    continue
                cut = self.pre_tokenize(piece) if self.pre_tokenize else [piece]
                words += [(word, None) for word in cut if word.text]
        return words

    def word_tokens(self, word: AlignedText, token_id: int | None, whole: str) -> Tokens:
        """Return the tokens of one word of a text."""
        if token_id is not None:
            return Tokens([token_id], [word.text], [word.offsets(0, len(word))])
        symbols = self.model.encode(word.text)
        model = self.spec.model
        # What a model of scores does not know is spelled as it stands in the word.
        unknown = model.unk if isinstance(model, _OF_SCORES) else None
        return Tokens(
            [i for i, _, _ in symbols],
            [word.text[a:b] if i == unknown else self._spelling(i) for i, a, b in symbols],
            [word.offsets(a, b) if b >= 0 else beyond(whole, ~a, ~b) for _, a, b in symbols],
        )

    def _spelling(self, token_id: int) -> str:
        pieces = self.spec.vocabulary.pieces
        if not 0 <= token_id < len(pieces):
            return ""
        return str(pieces[token_id], "utf-8", "surrogateescape")

    def tokens(
        self,
        text: Text,
        pair: Text | None,
        *,
        add_special_tokens: bool = True,
        parse_special: bool | None = None,
        truncation: FromFile = None,
    ) -> Tokens:
        """Return the tokens of a text or a pair with all that is known of them."""
        texts = []
        for number, entry in enumerate((text, pair)):
            if entry is None:
                continue
            content = to_text(entry, self.spec.invalid_utf8, "pair" if number else "text")
            texts.append(self._text_tokens(content, number, parse_special))
        return assemble(
            self.spec, texts, add_special_tokens=add_special_tokens, truncation=truncation
        )

    def _text_tokens(self, text: str, number: int, parse_special: bool | None) -> Tokens:
        prefix = list(self.spec.prefix_ids) if number == 0 else []
        tokens = Tokens(prefix, [self._spelling(i) for i in prefix], [(0, 0)] * len(prefix))
        for word, token_id in self.words(text, parse_special=parse_special):
            tokens.extend(self.word_tokens(word, token_id, text))
        tokens.set_type(number)
        tokens.sequence = [number] * len(tokens)
        return tokens
