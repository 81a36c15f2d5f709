"""The engine: the meaning of the pipeline, compiled.

``load_engine(spec)`` gives the native engine where the core has every component of a
specification, else the pipeline as a whole; ``Engine`` from ready tables needs no specification
until somebody asks for a trace. Both have the pipeline's methods; ``name`` says which it is.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Literal, Union

    from typing_extensions import Unpack

    from mtkit.base.binary import Buffer
    from mtkit.pipeline.decoding import DecodeStream
    from mtkit.pipeline.encoding import EncodeOptions, Encoding, TokenBuilder
    from mtkit.pipeline.pipeline import Pipeline
    from mtkit.spec import TokenizerSpec

    AnyEngine = Union[Pipeline, "Engine"]
    Text = str | bytes
    FromFile = Literal["file"] | None


class Engine:
    """A tokenizer run by the native core; any thread may use it.

    Attributes:
        gives_places: Whether ``encode`` is native, too; else it is the pipeline's.
        deferred: How many texts and sequences of ids went to the pipeline, one by one.
    """

    name = "native"

    def __init__(
        self,
        sections: Mapping[str, Buffer],
        spec: Callable[[], TokenizerSpec],
        cache_bytes: int | None = None,
        *,
        know_words: bool = False,
    ) -> None:
        """Check the tables and use them in place.

        Args:
            sections: Tag -> table, as ``tables`` makes them.
            cache_bytes: What a call may take to remember what it has seen; None: about 8 MB; 0:
                none.
            know_words: Remember the vocabulary's short words before the first text comes: 2 to 6 ms
                and 4 MB. What the tables say merging makes is then not looked up.
        """
        from mtkit.base.native import native

        size = {} if cache_bytes is None else {"cache_bytes": cache_bytes}
        self._native = native.Engine(dict(sections), know_words=know_words, **size)
        self._decoder = native.Decoder(dict(sections)) if "DECO" in sections else None
        self._spec = spec
        self._pipeline: Pipeline | None = None
        self._builder: TokenBuilder | None = None
        self.gives_places = self._native.aligns
        self.deferred = 0
        self._deferred = (native.Deferred, UnicodeEncodeError)  # a str with a lone surrogate

    @property
    def pipeline(self) -> Pipeline:
        """The readable reference for the same specification, made when it is first used."""
        if self._pipeline is None:
            from mtkit.pipeline import Pipeline

            self._pipeline = Pipeline(self._spec())
        return self._pipeline

    def direct(self, name: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method as a function of the core alone, which saves two calls of Python.

        Args:
            name: "encode_ids" or "encode_array", called as (text, *, add_special_tokens=True,
                parse_special=None), or "decode", called as (ids, *, skip_special_tokens=True).
        """
        if name != "decode":
            return self._native.direct(otherwise, as_list=name == "encode_ids")
        return self._decoder.direct(otherwise) if self._decoder else otherwise

    def encode_ids(
        self, text: Text, add_special_tokens: bool = True, parse_special: bool | None = None
    ) -> list[int]:
        """Encode to ids; see ``Pipeline.encode``."""
        try:
            return self._native.encode_ids(text, add_special_tokens, parse_special)
        except self._deferred:
            self.deferred += 1
            return self.pipeline.encode_ids(text, add_special_tokens, parse_special)

    def encode_array(
        self, text: Text, add_special_tokens: bool = True, parse_special: bool | None = None
    ) -> memoryview:
        """Encode to ids as a buffer of int32."""
        try:
            return self._native.encode_array(text, add_special_tokens, parse_special)
        except self._deferred:
            self.deferred += 1
            return self.pipeline.encode_array(text, add_special_tokens, parse_special)

    def encode_offsets(
        self, text: Text, add_special_tokens: bool = True, parse_special: bool | None = None
    ) -> tuple[memoryview, memoryview]:
        """Encode to ids, and where each starts and ends, as buffers of int32."""
        if self.gives_places and self._places().keeps_offsets:
            try:
                return self._native.encode_offsets(text, add_special_tokens, parse_special)
            except self._deferred:
                pass
        return self.encode(
            text, add_special_tokens=add_special_tokens, parse_special=parse_special
        ).packed()

    def encode_batch_ids(
        self,
        texts: list[Any],
        add_special_tokens: bool = True,
        parse_special: bool | None = None,
        threads: int = 1,
    ) -> list[list[int]]:
        """Encode several texts to ids in one call of the core."""
        rows, left = self._native.encode_batch_ids(
            texts, add_special_tokens, parse_special, threads
        )
        for at in left:
            self.deferred += 1
            rows[at] = self.pipeline.encode_ids(texts[at], add_special_tokens, parse_special)
        return rows

    def encode_batch_arrays(
        self,
        texts: list[Any],
        add_special_tokens: bool = True,
        parse_special: bool | None = None,
        threads: int = 1,
    ) -> tuple[memoryview, memoryview]:
        """Encode several texts to one buffer of int32, and the starts of their rows in int64."""
        ids, rows, left = self._native.encode_batch_arrays(
            texts, add_special_tokens, parse_special, threads
        )
        if not left:
            return ids, rows
        self.deferred += len(left)
        from mtkit.pipeline.encoding import packed_rows

        encode = self.pipeline.encode_ids
        others = {at: encode(texts[at], add_special_tokens, parse_special) for at in left}
        return packed_rows(
            others[at] if at in others else ids[rows[at] : rows[at + 1]] for at in range(len(texts))
        )

    def encode(
        self, text: Text, pair: Text | None = None, **options: Unpack[EncodeOptions]
    ) -> Encoding:
        """Encode with offsets; see ``Pipeline.encode``."""
        return self.encode_batch([text if pair is None else (text, pair)], **options)[0]

    def encode_batch(
        self,
        texts: Sequence[Text | tuple[Text, Text]],
        *,
        add_special_tokens: bool = True,
        parse_special: bool | None = None,
        padding: FromFile = None,
        truncation: FromFile = None,
    ) -> list[Encoding]:
        """Encode several texts or pairs; see ``Pipeline.encode_batch``."""
        if not self.gives_places:
            return self.pipeline.encode_batch(
                texts,
                add_special_tokens=add_special_tokens,
                parse_special=parse_special,
                padding=padding,
                truncation=truncation,
            )
        from itertools import islice

        from mtkit.pipeline.encoding import pad
        from mtkit.pipeline.post_processors import assemble

        builder = self._places()
        entries = [entry if isinstance(entry, tuple) else (entry,) for entry in texts]
        listed: list[object] = [text for entry in entries for text in entry]
        answers = iter(self._native.encode_tokens(listed, parse_special))
        results = []
        for entry in entries:
            columns = [part for part in islice(answers, len(entry)) if part]
            if len(columns) < len(entry):
                # Rare input, or an error: the pipeline raises the message.
                self.deferred += 1
                tokens = self.pipeline.tokens(
                    entry[0],
                    entry[1] if len(entry) > 1 else None,
                    add_special_tokens=add_special_tokens,
                    parse_special=parse_special,
                    truncation=truncation,
                )
            else:
                tokens = assemble(
                    builder.spec,
                    [builder.tokens(part, at) for at, part in enumerate(columns)],
                    add_special_tokens=add_special_tokens,
                    truncation=truncation,
                )
            results.append(tokens)
        if padding and builder.spec.padding:
            pad(results, builder.spec.padding)
        return [tokens.encoded() for tokens in results]

    def _places(self) -> TokenBuilder:
        if self._builder is None:
            from mtkit.pipeline.encoding import TokenBuilder

            self._builder = TokenBuilder(self._spec())
        return self._builder

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return self._decoder.vocab_size if self._decoder else self._spec().vocab_size

    def first_outside(self, ids: Sequence[int]) -> int | None:
        """Return the first number that is not an id, None where all are."""
        listed = ids if isinstance(ids, list) else list(ids)
        if self._decoder is None:
            size = self.vocab_size
            return next((number for number in listed if not 0 <= number < size), None)
        place = self._decoder.first_outside(listed)
        return None if place is None else listed[place]

    def decode_bytes(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> bytes:
        """Decode to bytes; see ``Pipeline.decode_bytes``."""
        ids = ids if isinstance(ids, list) else list(ids)
        if self._decoder:
            try:
                return self._decoder.decode_bytes(ids, skip_special_tokens)
            except self._deferred:
                self.deferred += 1
        return self.pipeline.decode_bytes(ids, skip_special_tokens=skip_special_tokens)

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """Decode to text; see ``Pipeline.decode``."""
        ids = ids if isinstance(ids, list) else list(ids)
        if self._decoder:
            try:
                return self._decoder.decode(ids, skip_special_tokens)
            except self._deferred:
                self.deferred += 1
        return self.pipeline.decode(ids, skip_special_tokens=skip_special_tokens)

    def decode_stream(self, *, skip_special_tokens: bool = True) -> DecodeStream:
        """Return a stream that takes ids one by one; see ``Pipeline.decode_stream``."""
        return self.pipeline.decode_stream(skip_special_tokens=skip_special_tokens)


def tables(spec: TokenizerSpec) -> dict[str, bytes]:
    """Return the engine's tables of a specification."""
    from mtkit.engine.sections import tables as build

    return build(spec)


def stored_tables(spec: TokenizerSpec) -> dict[str, bytes]:
    """Return the tables for a file, with those that take too long to be made at every load."""
    from mtkit.base.native import native

    sections = tables(spec)
    if "OWNW" not in sections:
        own = native.Engine(dict[str, object](sections)).own_words()
        sections |= {"OWNW": own} if own else {}
    return sections


def load_engine(spec: TokenizerSpec, cache_bytes: int | None = None) -> AnyEngine:
    """Return the native engine of a specification, or its pipeline.

    The pipeline serves where the native core is not installed or lacks a component.
    """
    from mtkit.errors import UnsupportedError

    try:
        return Engine(tables(spec), lambda: spec, cache_bytes, know_words=True)
    except (ImportError, UnsupportedError):
        from mtkit.pipeline import Pipeline

        return Pipeline(spec)
