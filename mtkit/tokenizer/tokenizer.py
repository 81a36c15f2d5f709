"""The tokenizer: encode and decode, ask for tokens and ids; ``mtkit.load`` makes one.

A ``Tokenizer`` is an engine and a specification. The engine answers; the specification is
decoded only when somebody asks for it.

What a tokenizer is called for most are functions of its engine (``Calls``). Where the native core
encodes, each stands behind a function of the core that takes the same arguments and needs no frame
of Python: for a short text that would take as long as encoding it. What the core cannot answer
alone (text that is the pipeline's, an error) comes here.
"""

from __future__ import annotations

from _weakref import ref  # what weakref has besides would be a twentieth of the time to start
from functools import partial
from operator import index

from mtkit.base.record import Idioms
from mtkit.errors import ErrorSource, MtkitError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    import numpy as np
    import numpy.typing as npt
    from typing_extensions import Unpack

    import mtkit
    from mtkit.engine import AnyEngine
    from mtkit.pipeline.decoding import DecodeStream
    from mtkit.pipeline.encoding import EncodeOptions, Encoding, TextOptions
    from mtkit.pipeline.trace import DecodeTrace, Trace
    from mtkit.spec import TokenizerSpec
    from mtkit.tokenizer.spelling import Spelling

    _Text = TypeVar("_Text")


class Calls:
    """The functions of one engine."""

    def __init__(self, tokenizer: object, engine: AnyEngine, naming: ErrorSource) -> None:
        ids = _Encode(tokenizer, "encode_ids", engine.encode_ids, naming)
        array = _Encode(tokenizer, "encode_array", engine.encode_array, naming)
        self.encode_ids: Callable[..., list[int]] = engine.direct("encode_ids", ids)
        self.encode_array: Callable[..., memoryview] = engine.direct("encode_array", array)
        self.decode: Callable[..., str] = engine.direct(
            "decode", _Decode(tokenizer, "decode", engine)
        )


def check_ids(engine: AnyEngine, ids: Sequence[int]) -> None:
    """Raise for a number that is not an id."""
    outside = engine.first_outside(ids)
    if outside is not None:
        hint = f"the vocabulary has ids 0 to {engine.vocab_size - 1}"
        raise UsageError(f"there is no id {outside}", hint=hint)


def explain_error(naming: ErrorSource, error: Exception, *texts: object) -> None:
    """Say of an error of encoding what can be said where the file is known."""
    if isinstance(error, TypeError):
        from mtkit.unicode.utf8 import check_type

        for text in texts:
            check_type(text)
        if "incompatible function arguments" in str(error):  # of the core, which names its own
            raise TypeError(
                "threads is a number from 0 on, add_special_tokens True or False, "
                "parse_special True, False or None"
            ) from None
        if "unexpected keyword argument" in str(error):
            name = str(error).rpartition("argument ")[2]
            known = "add_special_tokens, parse_special, padding, truncation"
            raise TypeError(f"there is no option {name}; known: {known}") from None
    naming.name(error)


def explain_batch_error(
    naming: ErrorSource,
    error: Exception,
    entries: Iterable[tuple[Any, ...]],
    encode: Callable[[Any], object],
) -> None:
    """Say of an error of a batch what ``explain`` says, and which text it is about."""
    if isinstance(error, TypeError):
        from mtkit.unicode.utf8 import is_text

        for number, entry in enumerate(entries):
            for text in entry:
                if not is_text(text):
                    what = f"texts[{number}] is {type(text).__name__}, not str or bytes"
                    raise TypeError(what) from None
    elif isinstance(error, MtkitError) and error.is_about_text:
        refused = first_refused(entries, encode)
        if refused is not None:
            error.which = f"texts[{refused}]"
    explain_error(naming, error)


def first_refused(
    entries: Iterable[tuple[Any, ...]], encode: Callable[[Any], object]
) -> int | None:
    """Return the index of the first entry with a text that cannot be encoded, None: all can."""
    for number, entry in enumerate(entries):
        try:
            for text in entry:
                encode(text)
        except MtkitError as error:
            if error.is_about_text:
                return number
    return None


class _Method:
    """Stands for a method of a tokenizer, and is pickled as that; it does not keep it alive."""

    def __init__(self, tokenizer: object, name: str) -> None:
        method = getattr(type(tokenizer), name)
        self.__name__, self.__qualname__ = name, method.__qualname__
        self.__doc__ = method.__doc__
        self._tokenizer = ref(tokenizer)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._tokenizer(), self.__name__)


class _Encode(_Method):
    def __init__(
        self,
        tokenizer: object,
        name: str,
        encode: Callable[[str | bytes, bool, bool | None], Any],
        naming: ErrorSource,
    ) -> None:
        super().__init__(tokenizer, name)
        self._encode = encode
        self._naming = naming

    def __call__(
        self,
        text: str | bytes,
        *,
        add_special_tokens: bool = True,
        parse_special: bool | None = None,
    ) -> Any:
        try:
            return self._encode(text, add_special_tokens, parse_special)
        except Exception as error:
            explain_error(self._naming, error, text)
            raise


class _Decode(_Method):
    def __init__(self, tokenizer: object, name: str, engine: AnyEngine) -> None:
        super().__init__(tokenizer, name)
        self._engine = engine

    def __call__(self, ids: Any, *, skip_special_tokens: bool = True) -> str:
        if type(ids) is list:
            listed = ids
        else:
            is_single = hasattr(ids, "__index__") and not hasattr(ids, "__iter__")
            listed = [index(ids)] if is_single else list(ids)
        check_ids(self._engine, listed)
        return self._engine.decode(listed, skip_special_tokens=skip_special_tokens)


class Tokenizer(Idioms):
    """Converts text to ids and back exactly as the file's own library does.

    Attributes:
        source: Path of the file.
        format_name: Name of the file's format.
        assumptions: Assumptions about settings that the file does not contain.
        warnings: Problems in the file that do not change any result.
    """

    # What these names are on an object is not the methods below: as soon as there is an engine,
    # ``_use`` puts its functions (``Calls``) into the object's own attributes, which Python looks
    # up first. The methods serve until then, and carry the signatures and documentation.
    _CALLED = ("encode_ids", "encode_array", "decode")

    def __init__(
        self,
        spec: TokenizerSpec | Callable[[], TokenizerSpec],
        *,
        engine: AnyEngine | None = None,
        cache_bytes: int | None = None,
        source: str = "",
        format_name: str = "",
        assumptions: tuple[str, ...] = (),
        warnings: tuple[str, ...] = (),
    ) -> None:
        self._spec = spec
        self._engine: AnyEngine | None = None
        self._cache_bytes = cache_bytes
        self.source = source
        self.format_name = format_name
        self.assumptions = assumptions
        self.warnings = warnings
        self._spelling_cache: Spelling | None = None
        self._calls: Calls | None = None
        self._naming = ErrorSource(source)  # what a file asks for may turn out only when it is used
        if engine is not None:
            self._use(engine)

    def __repr__(self) -> str:
        kind = f", {self.format_name}" if self.format_name else ""
        return f"<Tokenizer {self.source or 'unnamed'}: {self.vocab_size} ids{kind}>"

    def _repr_html_(self) -> str:
        from mtkit.base.notebook import figure, heading, table

        rows = [("format", self.format_name), ("ids", f"{self.vocab_size:,}")]
        rows += [(name, token) for name, token in self.special_tokens.items()]
        rows += [("assumed", assumption) for assumption in self.assumptions]
        return figure(heading(self.source or "unnamed"), table((), rows))

    if not TYPE_CHECKING:  # type checkers tell a tokenizer from a path, for the kinds of convert

        def __fspath__(self) -> str:
            return self.source

    def __len__(self) -> int:
        return self.vocab_size

    def __contains__(self, token: object) -> bool:
        return isinstance(token, (str, bytes)) and self.token_to_id(token) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.vocab)

    def __getstate__(self) -> dict[str, object]:
        """Leave out what another process makes for itself, among it the engine."""
        state = {name: value for name, value in vars(self).items() if name not in self._CALLED}
        return {
            **state,
            "_spec": self.spec,
            "_engine": None,
            "_calls": None,
            "_spelling_cache": None,
        }

    @property
    def spec(self) -> TokenizerSpec:
        """The tokenizer as data."""
        if callable(self._spec):
            self._spec = self._spec()
        return self._spec

    @property
    def engine(self) -> AnyEngine:
        """The engine in use: the native core, or pure Python if the core cannot run the file."""
        if self._engine is None:
            from mtkit.engine import load_engine

            with self._naming:
                return self._use(load_engine(self.spec, self._cache_bytes))
        return self._engine

    def _use(self, engine: AnyEngine) -> AnyEngine:
        """Take an engine, and put its functions in the place of the methods in ``_CALLED``."""
        self._engine = engine
        self._calls = Calls(self, engine, self._naming)
        if type(self) is Tokenizer:  # a class made from this one may have methods of its own
            vars(self).update((name, getattr(self._calls, name)) for name in self._CALLED)
        return engine

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        if callable(self._spec) and self._engine is not None:
            return self._engine.vocab_size
        return self.spec.vocab_size

    @property
    def bos_id(self) -> int | None:
        """Id of the token that begins a text, or None."""
        return self.spec.special_ids.bos

    @property
    def eos_id(self) -> int | None:
        """Id of the token that ends a text, or None."""
        return self.spec.special_ids.eos

    @property
    def unk_id(self) -> int | None:
        """Id of the unknown token, or None."""
        return self.spec.special_ids.unk

    @property
    def pad_id(self) -> int | None:
        """Id of the padding token, or None."""
        return self.spec.special_ids.pad

    @property
    def vocab(self) -> Mapping[str, int]:
        """Token as the vocabulary spells it -> id, in the order of ids; a view, not a copy."""
        from mtkit.tokenizer.spelling import Vocabulary

        return Vocabulary(self._spelling(), self.vocab_size)

    @property
    def special_tokens(self) -> dict[str, str]:
        """``bos_token``, ``eos_token`` and the like -> token, those that there are."""
        from mtkit.chat.template import special_tokens

        return special_tokens(self.spec)

    @property
    def bos_token(self) -> str | None:
        """The token that begins a text, or None."""
        return self.special_tokens.get("bos_token")

    @property
    def eos_token(self) -> str | None:
        """The token that ends a text, or None."""
        return self.special_tokens.get("eos_token")

    @property
    def unk_token(self) -> str | None:
        """The unknown token, or None."""
        return self.special_tokens.get("unk_token")

    @property
    def pad_token(self) -> str | None:
        """The padding token, or None."""
        return self.special_tokens.get("pad_token")

    def save(
        self, path: str | os.PathLike[str], *, to: str = "", **options: Any
    ) -> mtkit.Conversion:
        """Write the tokenizer to a file, as ``mtkit.convert`` does, and return its report.

        Args:
            path: The file or folder to write.
            to: Name of the format; empty: inferred from ``path``.
            options: Those of ``mtkit.convert``, such as ``allow_loss`` and ``force``.
        """
        import mtkit

        return mtkit.convert(self, path, to=to, **options)

    def encode_ids(
        self,
        text: str | bytes,
        *,
        add_special_tokens: bool = True,
        parse_special: bool | None = None,
    ) -> list[int]:
        """Return the ids of a text.

        Args:
            text: The text; invalid UTF-8 is handled as in the file's own library.
            add_special_tokens: Add special tokens around the text.
            parse_special: Parse special tokens in the text; None: the default of the file's own
                library.

        Raises:
            UsageError: A str contains a lone surrogate, or bytes are not UTF-8 and the file's own
                library refuses that.
        """
        return self._direct().encode_ids(
            text, add_special_tokens=add_special_tokens, parse_special=parse_special
        )

    def encode_batch_ids(
        self,
        texts: Iterable[str | bytes],
        *,
        threads: int = 1,
        **options: Unpack[TextOptions],
    ) -> list[list[int]]:
        """Return the ids of many texts.

        The options are those of ``encode_ids``, ``threads`` as in ``encode_batch_arrays``.
        """
        listed = _listed(texts)
        try:
            return self.engine.encode_batch_ids(listed, threads=threads, **options)
        except Exception as error:
            self._explain_batch(error, ((text,) for text in listed), options.get("parse_special"))
            raise

    def encode_batch_arrays(
        self,
        texts: Iterable[str | bytes],
        *,
        threads: int = 1,
        **options: Unpack[TextOptions],
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Return the concatenated ids of many texts, and where each text starts.

        Args:
            texts: The texts.
            threads: Maximum number of threads: one more for each 256 KiB of text, and never more
                than there are processors; 0 is the same as 1.
            options: Those of ``encode_ids``.

        Returns:
            The ids, of shape (n,), and the starts, of shape (texts + 1,): text i has
            ``ids[starts[i]:starts[i + 1]]``.
        """
        import numpy as np

        listed = _listed(texts)
        try:
            ids, starts = self.engine.encode_batch_arrays(listed, threads=threads, **options)
        except Exception as error:
            self._explain_batch(error, ((text,) for text in listed), options.get("parse_special"))
            raise
        return np.asarray(ids, np.int32), np.asarray(starts, np.int64)

    def encode_array(
        self,
        text: str | bytes,
        *,
        add_special_tokens: bool = True,
        parse_special: bool | None = None,
    ) -> memoryview:
        """Return the ids of a text as an int32 buffer, without a Python object per id.

        The options are those of ``encode_ids``.
        """
        return self._direct().encode_array(
            text, add_special_tokens=add_special_tokens, parse_special=parse_special
        )

    def encode_offsets(
        self, text: str | bytes, **options: Unpack[TextOptions]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Return the ids of a text, and the start and end of each token in characters.

        The options are those of ``encode_ids``; the offsets are the same as ``encode``'s.

        Returns:
            The ids, of shape (n,), and the offsets, of shape (n, 2).
        """
        import numpy as np

        try:
            ids, places = self.engine.encode_offsets(text, **options)
        except Exception as error:
            explain_error(self._naming, error, text)
            raise
        return np.asarray(ids, np.int32), np.asarray(places, np.int32).reshape(-1, 2)

    def encode(
        self,
        text: str | bytes,
        pair: str | bytes | None = None,
        **options: Unpack[EncodeOptions],
    ) -> Encoding:
        """Encode a text or a pair, with offsets, type ids and masks.

        Args:
            text: The text.
            pair: The second text.
            options: Those of ``encode_ids``; ``padding`` and ``truncation`` ("file": as the file
                says).
        """
        if isinstance(text, tuple):
            from mtkit.unicode.utf8 import check_type

            check_type(text)
        try:
            encoding = self.engine.encode(text, pair, **options)
        except Exception as error:
            explain_error(self._naming, error, text, "" if pair is None else pair)
            raise
        return encoding.about(text) if pair is None else encoding.about(text, pair)

    def encode_batch(
        self,
        texts: Iterable[str | bytes | tuple[str | bytes, str | bytes]],
        **options: Unpack[EncodeOptions],
    ) -> list[Encoding]:
        """Encode many texts or pairs; padding extends them to a common length.

        If you only need ids, ``encode_batch_ids`` takes a tenth of the time.
        """
        listed = _listed(texts)
        for number, each in enumerate(listed):
            if isinstance(each, tuple) and len(each) != 2:
                raise TypeError(f"texts[{number}] is a tuple of {len(each)}, not a pair of texts")
        try:
            encodings = self.engine.encode_batch(listed, **options)
        except Exception as error:
            entries = (each if isinstance(each, tuple) else (each,) for each in listed)
            self._explain_batch(error, entries, options.get("parse_special"))
            raise
        for encoding, each in zip(encodings, listed, strict=True):
            encoding.about(*(each if isinstance(each, tuple) else (each,)))
        return encodings

    def _explain_batch(
        self, error: Exception, entries: Iterable[tuple[Any, ...]], parse_special: bool | None
    ) -> None:
        encode = partial(self.engine.encode_ids, parse_special=parse_special)
        explain_batch_error(self._naming, error, entries, encode)

    def surround(self, encoding: Encoding, front: list[int], back: list[int]) -> Encoding:
        """Return an encoding with ids added before and after."""
        from mtkit.pipeline.encoding import Encoding

        added = len(front), len(back)
        texts = [[self.id_to_token(i) or "" for i in ids] for ids in (front, back)]
        nowhere = [(0, 0)]
        return Encoding(
            [*front, *encoding.ids, *back],
            [*texts[0], *encoding.tokens, *texts[1]],
            [*nowhere * added[0], *encoding.offsets, *nowhere * added[1]],
            [*[0] * added[0], *encoding.type_ids, *[0] * added[1]],
            [*[1] * added[0], *encoding.special_tokens_mask, *[1] * added[1]],
            [*[None] * added[0], *encoding.sequence, *[None] * added[1]],
            [*[1] * added[0], *encoding.attention_mask, *[1] * added[1]],
        )

    def decode(self, ids: Iterable[int] | int, *, skip_special_tokens: bool = True) -> str:
        """Return the text of ids, of one, or of an ``Encoding``; invalid UTF-8 becomes U+FFFD.

        Raises:
            UsageError: An id is outside the vocabulary.
        """
        return self._direct().decode(ids, skip_special_tokens=skip_special_tokens)

    def decode_batch(
        self, batch: Iterable[Iterable[int]], *, skip_special_tokens: bool = True
    ) -> list[str]:
        """Return the texts of many lists of ids.

        Raises:
            UsageError: An id is outside the vocabulary.
        """
        decode = self._direct().decode
        return [decode(ids, skip_special_tokens=skip_special_tokens) for ids in batch]

    def decode_bytes(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> bytes:
        """Return the bytes of ids, even if they are not valid UTF-8.

        Raises:
            UsageError: An id is outside the vocabulary.
        """
        check_ids(self.engine, ids)
        return self.engine.decode_bytes(ids, skip_special_tokens=skip_special_tokens)

    def decode_stream(self, *, skip_special_tokens: bool = True) -> DecodeStream:
        """Return a decoder that takes ids one by one and only returns whole characters."""
        return self.engine.decode_stream(skip_special_tokens=skip_special_tokens)

    def trace(self, text: str | bytes, **options: Unpack[TextOptions]) -> Trace:
        """Encode a text and record the result of every stage."""
        from mtkit.pipeline.trace import trace

        with self._naming:
            return trace(self.engine.pipeline, text, **options)

    def trace_decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> DecodeTrace:
        """Decode ids and record the result of every stage."""
        from mtkit.pipeline.trace import trace_decode

        return trace_decode(self.engine.pipeline, ids, skip_special_tokens=skip_special_tokens)

    def id_to_token(self, token_id: int) -> str | None:
        """Return a token as the vocabulary spells it, or None if the id does not exist.

        Bytes that are not valid UTF-8 become backslash escapes.
        """
        piece = self.id_to_piece(token_id)
        return None if piece is None else piece.decode("utf-8", "backslashreplace")

    def id_to_piece(self, token_id: int) -> bytes | None:
        """Return a token as the vocabulary's bytes, or None."""
        return self._spelling().piece(index(token_id))

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of text that an id stands for on its own."""
        return self._spelling().text(index(token_id))

    def token_kind(self, token_id: int) -> str:
        """Return the type of a token: "normal", "control", "byte" …, or "added"."""
        return self._spelling().kind(index(token_id))

    def piece_bytes(self, piece: bytes) -> bytes:
        """Return the bytes of text that a token, as the vocabulary spells it, stands for."""
        return self._spelling().text_of(_bytes_of(piece))

    def text_to_ids(self, text: str | bytes) -> list[int]:
        """Return the ids whose text is exactly this: ``" hello"``, not ``"Ġhello"``."""
        return self._spelling().ids_of_text(_bytes_of(text))

    def token_to_id(self, token: str | bytes) -> int | None:
        """Return the id of a token as the vocabulary spells it, or None."""
        piece = token.encode("utf-8", "surrogatepass") if isinstance(token, str) else token
        return self._spelling().id_of(piece)

    def _spelling(self) -> Spelling:
        if self._spelling_cache is None:
            from mtkit.tokenizer.spelling import Spelling

            self._spelling_cache = Spelling(self.spec)
        return self._spelling_cache

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, Any]], *, tokenize: bool = False, **options: Any
    ) -> Any:
        """Render the chat template as transformers does, to text or to ids.

        Args:
            messages: The conversation.
            tokenize: Return the ids of the text.
            options: ``tools`` (JSON schemas, or functions with type hints and a docstring),
                ``documents``, ``add_generation_prompt``, ``continue_final_message``,
                ``chat_template`` (the name of one, or a template); any other is a variable of the
                template, such as ``enable_thinking``.

        Raises:
            TemplateRefusal: The template raises an exception on these messages.
            UnsupportedError: The tokenizer has no chat template.
            UsageError: The messages are not a conversation, or a function has no schema.
            ResourceError: The template takes too long or writes too much.
        """
        from mtkit.chat.template import apply

        text = apply(self.spec, messages, **options).text
        if not tokenize:
            return text
        return self.encode_ids(text, add_special_tokens=False, parse_special=True)

    def parse_response(
        self,
        text: str,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        prompt: str = "",
        chat_template: str | None = None,
    ) -> dict[str, Any]:
        """Parse a model's answer into content, reasoning and tool calls.

        The form is learned from the chat template; see ``mtkit.chat.parse_response``.

        Args:
            text: The model's answer, with or without the token that ends a turn.
            tools: The tools that the model may call.
            prompt: The prompt; its end tells whether the answer starts with reasoning.
            chat_template: The name of a template, or a template.

        Raises:
            UnsupportedError: The tokenizer has no chat template.
        """
        from mtkit.chat.answer_reader import parse_response
        from mtkit.chat.template import choose_template, special_tokens

        template = choose_template(self.spec, chat_template, has_tools=tools is not None)
        eos = special_tokens(self.spec).get("eos_token")
        return parse_response(template, text, tools=tools, prompt=prompt, eos=eos)

    def _direct(self) -> Calls:
        engine = self.engine
        if self._calls is None:
            self._use(engine)
            assert self._calls is not None
        return self._calls


def _bytes_of(text: str | bytes) -> bytes:
    from mtkit.unicode.utf8 import check_type, to_bytes

    check_type(text)
    return to_bytes(text) if isinstance(text, str) else bytes(text)


def _listed(texts: Iterable[_Text]) -> list[_Text]:
    if isinstance(texts, (str, bytes, bytearray, memoryview)):
        raise TypeError("is one text, not a list; use encode_ids or encode")
    return list(texts)
