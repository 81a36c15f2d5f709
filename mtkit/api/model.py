"""``mtkit.Model``: a model that stays open, for texts, conversations, vectors and figures."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from weakref import ref

from mtkit.api.generation import Answer, open_files, prompt_ids
from mtkit.api.reply import Reply, Stream, in_thread
from mtkit.base.idioms import explained
from mtkit.base.process import Closeable
from mtkit.base.record import Idioms, replace
from mtkit.base.turns import Turns
from mtkit.errors import MtkitError, UsageError
from mtkit.llm.media import flat_messages
from mtkit.llm.runner import context_tokens, open_model, plan_settings
from mtkit.llm.sampling import Sampler
from mtkit.settings import SamplerSettings, TextAnswerSettings, WindowSettings
from mtkit.settings.declaration import settings_of, signature_with, table, with_changes
from mtkit.speculative import setup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Collection,
        Generator,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from typing import Any

    import numpy as np
    import numpy.typing as npt
    from typing_extensions import Unpack

    from mtkit.api.generation import Generation
    from mtkit.api.reply import Part_, Result
    from mtkit.chat.answer import Form, Part
    from mtkit.llama.media import Kind
    from mtkit.llm.keywords import AnswerKeywords, ModelKeywords
    from mtkit.llm.media import Media
    from mtkit.llm.perplexity import Perplexity
    from mtkit.llm.runner import Runner
    from mtkit.llm.vectors import Pooler
    from mtkit.memory_plan.plan import Plan
    from mtkit.speculative.rounds import Speculation
    from mtkit.tokenizer.tokenizer import Tokenizer

OF_AN_ANSWER = frozenset(
    {*table(SamplerSettings), "n_predict", "stops", "parse_special", "add_special", "special",
     "logprobs", "images", "audio"}
)  # fmt: skip
"""Settings that may differ from answer to answer."""
_CONTEXT = 4096
"""Tokens of context where no setting says how many, as ``mtkit chat`` has it."""
_MOST_EMBEDDED = 8192
"""Tokens of a text for a vector, unless the context is larger."""


class Model(Idioms, Closeable):
    """A GGUF model that stays open; close it, or use it in ``with``.

    It computes one answer at a time: calls from several threads wait for each other, in order. The
    beginning that a prompt shares with the one before is not computed again. Without settings it is
    greedy, as ``mtkit generate`` is.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        template: str | None = None,
        **settings: Unpack[ModelKeywords],
    ) -> None:
        """Load a model.

        Args:
            path: GGUF file, folder, or name of a repository in the local HuggingFace cache; None:
                the user's default, or the small model that ships with mtkit.
            template: A chat template in place of the model's own.
            settings: Any setting of docs/settings.md, such as ``n_ctx=8192``;
                those of an answer, such as ``temperature``, are the defaults of its methods.

        Raises:
            MissingExtra: llama-cpp-python is not installed.
            UsageError: The file does not exist, or a setting is invalid.
            FormatError: The file cannot be loaded.
            ResourceError: The model does not fit in memory.
        """
        if "model" in settings:
            raise UsageError("is not a setting", field="model", hint="here: the first argument")
        own = settings_of(TextAnswerSettings, {**settings, "model": path})
        self._settings = setup.prepare_settings(own)
        self._has_limit = _sets("n_predict", settings)
        self._runner = open_model(self._settings, n_ctx=_CONTEXT)
        self._own_template, self._process = template, os.getpid()
        self._turns = Turns()
        self._speculation: Speculation | None = None
        self._by_rejection = False
        self._pooler: Pooler | None = None
        self._running: Callable[[], Stream[Any, Any] | None] = lambda: None

    def __repr__(self) -> str:
        state = "" if self._runner.model.is_open else ", closed"
        return f"<Model {self.path}{state}>"

    def __fspath__(self) -> str:
        return self.path

    @property
    def path(self) -> str:
        """Path of the file."""
        return self._runner.header.path

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, by mtkit's own engine."""
        from mtkit.tokenizer.load import load

        return load(self.path)

    @property
    def template(self) -> str | None:
        """The chat template, or None."""
        own = self._runner.header.file.metadata.get("tokenizer.chat_template")
        return self._own_template or (own if isinstance(own, str) else None)

    @property
    def plan(self) -> Plan:
        """The memory that running the model takes."""
        return self._runner.header.plan(plan_settings(self._settings, self._runner.n_ctx))

    def generate(
        self, prompt: str | bytes | Sequence[int], **settings: Unpack[AnswerKeywords]
    ) -> Generation:
        """Continue a prompt.

        Args:
            prompt: A text, or ids.
            settings: Those of docs/settings.md under Text and Sampling.

        Raises:
            UsageError: A setting is invalid, or belongs to the whole model.
            ResourceError: The prompt does not fit in the context.
        """
        stream = self.stream(prompt, **settings)
        for _ in stream:
            pass
        return stream.result

    def stream(
        self, prompt: str | bytes | Sequence[int], **settings: Unpack[AnswerKeywords]
    ) -> Stream[str, Generation]:
        """Continue a prompt, as ``generate`` does; yields texts as soon as they are final."""
        changed = self._with(settings)
        files = open_files(self._runner.header, changed)
        results: list[Generation] = []
        own: list[Callable[[], Stream[str, Generation] | None]] = []

        def run() -> Generator[str, None, None]:
            with self._turn() as runner:
                self._running = own[0]
                media = runner.open_media() if files else None
                ids = prompt_ids(runner, prompt, changed, media, files)
                with self._answer(ids, changed, media) as (answer, sampler):
                    try:
                        if sampler.has_grammar:
                            self._watch_text(sampler)
                        yield from (token.text for token in answer if token.text)
                    finally:
                        results.append(answer.generation())

        return self._stream(run(), results, own)

    def chat(
        self,
        messages: str | Iterable[Mapping[str, Any]],
        *,
        tools: Sequence[Any] | None = None,
        tool_choice: str | Mapping[str, Any] = "auto",
        schema: Any = None,
        reasoning: bool | None = None,
        **settings: Unpack[AnswerKeywords],
    ) -> Reply:
        """Answer a conversation, by the model's chat template.

        Args:
            messages: Messages with ``role`` and ``content``; a text is one message of the user.
            tools: Tools that the model may call: JSON schemas, or functions with type hints and a
                docstring.
            tool_choice: ``none``, ``auto``, ``required`` (the answer has to call one of them), or
                the name of the tool that it has to call.
            schema: A JSON schema that the answer has to follow, or a pydantic class.
            reasoning: Whether the model thinks before it answers; None: as its template has it.
            settings: Those of docs/settings.md under Text and Sampling; without ``n_predict``, an
                answer may fill the context.

        Raises:
            UnsupportedError: The model has no chat template.
            UsageError: The messages are not a conversation, or a setting is invalid.
            ResourceError: The conversation does not fit in the context.
        """
        stream = self.stream_chat(
            messages, tools=tools, tool_choice=tool_choice, schema=schema, reasoning=reasoning,
            **settings,
        )  # fmt: skip
        for _ in stream:
            pass
        return stream.result

    def stream_chat(
        self,
        messages: str | Iterable[Mapping[str, Any]],
        *,
        tools: Sequence[Any] | None = None,
        tool_choice: str | Mapping[str, Any] = "auto",
        schema: Any = None,
        reasoning: bool | None = None,
        **settings: Unpack[AnswerKeywords],
    ) -> Stream[Part, Reply]:
        """Answer a conversation, as ``chat`` does; yields its parts as they are settled.

        A ``str`` is text, ``Thought`` reasoning; ``CallStart`` and ``CallText`` are calls of tools.
        """
        from mtkit.chat.answer import response_of, schemas_by_tool
        from mtkit.chat.answer_reader import open_reader
        from mtkit.chat.template import check_tools
        from mtkit.llm.dialogue import check_messages
        from mtkit.llm.reasoning import find_reasoning, prompt_tail
        from mtkit.llm.tool_choice import force_call, required_tools, schema_texts

        if not _sets("parse_special", settings):
            settings["parse_special"] = False
        if not self._has_limit and not _sets("n_predict", settings):
            settings["n_predict"] = -1
        changed = self._with(settings)
        if schema is not None:
            text = _schema_text(schema)
            changed = replace(changed, sampler=replace(changed.sampler, json_schema=text))
        chat: list[dict[str, Any]] = (
            [{"role": "user", "content": messages}]
            if isinstance(messages, str)
            else check_messages(_copied(messages))
        )
        header = self._runner.header.projector
        kinds = header.kinds if header is not None else frozenset()
        files, parts_of_files = open_files(self._runner.header, changed), list[bytes]()

        def attach(data: bytes, _: Kind) -> str:
            parts_of_files.append(data)
            return ""

        plain = flat_messages(chat, attach, kinds)
        definitions = check_tools(list(tools)) if tools and tool_choice != "none" else None
        schemas = schemas_by_tool(definitions or ())
        names = required_tools(tool_choice, schemas)
        results: list[Reply] = []
        own: list[Callable[[], Stream[Part, Reply] | None]] = []

        def run() -> Generator[Part, None, None]:
            with self._turn() as runner:
                self._running = own[0]
                media, marked = None, plain
                if files or parts_of_files:
                    media = runner.open_media()
                    marked = flat_messages(chat, media.take, kinds)
                    marked = media.place_last(marked, files)
                prompt, form = self._chat_prompt(parse_special=changed.parse_special)
                values = (
                    form.thinking_values(thinks=reasoning) if form and reasoning is not None else {}
                )
                ids = prompt.ids(marked, definitions, media=media, values=values)
                shown = replace(changed, special=form is not None and self._shows_signs(form))
                if names:
                    texts = dict(schema_texts(names, schemas))
                    shown = replace(shown, sampler=force_call(changed.sampler, form, texts))
                tail = prompt_tail(runner.model, ids)
                reader = form and open_reader(form, definitions, tail, calls=bool(definitions))
                parts: list[Part] = []
                with self._answer(ids, shown, media) as (answer, sampler):
                    try:
                        if sampler.has_grammar:
                            thinks = reasoning is not False
                            sampler.watch(find_reasoning(form, tail, thinks=thinks, text=not names))
                        for token in answer:
                            new: list[Part] = reader.push(token.text) if reader else [token.text]
                            parts += new
                            yield from filter(None, new)
                        if reader:
                            new = reader.finish(is_cut=runner.end == "length")
                            parts += new
                            yield from filter(None, new)
                            reader = None
                    finally:
                        if reader:
                            parts += reader.finish(is_cut=True)
                        response = response_of(parts)
                        results.append(Reply(
                            response["content"], response["reasoning_content"] or "",
                            response["tool_calls"] or [], answer.generation(),
                        ))  # fmt: skip

        return self._stream(run(), results, own)

    def astream(
        self, prompt: str | bytes | Sequence[int], **settings: Unpack[AnswerKeywords]
    ) -> AsyncIterator[str]:
        """Continue a prompt, as ``stream`` does, without holding up an event loop."""
        return in_thread(self.stream(prompt, **settings))

    def astream_chat(
        self, messages: str | Iterable[Mapping[str, Any]], **arguments: Any
    ) -> AsyncIterator[Part]:
        """Answer a conversation, as ``stream_chat`` does, without holding up an event loop."""
        return in_thread(self.stream_chat(messages, **arguments))

    @explained
    def embed(
        self, texts: str | Iterable[str], *, normalized: bool = True
    ) -> npt.NDArray[np.float32]:
        """Return the vectors of texts, pooled as the model says, by the mean where it does not.

        Args:
            normalized: Divide each by its Euclidean norm.

        Returns:
            float32 of shape (texts, width); of one ``str``, (width,).

        Raises:
            ResourceError: A text is too long.
            UnsupportedError: The model ranks texts.
        """
        import numpy as np

        from mtkit.llm.vectors import normalize

        with self._turn() as runner:
            pooler = self._open_pooler()
            width = pooler.open().width
            ids = [runner.model.tokenize(t) for t in ([texts] if isinstance(texts, str) else texts)]
            rows = [pooler.vector(row) for row in ids]
        if normalized:
            rows = [normalize(row) for row in rows]
        vectors = np.array(rows, np.float32).reshape(len(rows), width)
        return vectors[0] if isinstance(texts, str) else vectors

    def rank(self, query: str, texts: Iterable[str]) -> npt.NDArray[np.float32]:
        """Return how well each text answers a question, by a model with a ranking head.

        Returns:
            float32 of shape (texts,): the higher, the better.

        Raises:
            UnsupportedError: The model does not rank texts.
        """
        import numpy as np

        from mtkit.llm.vectors import pair_ids

        with self._turn() as runner:
            pooler = self._open_pooler()
            pooler.open(0, "rank")
            scores = [
                float(pooler.vector(pair_ids(runner.model, query, text), "rank")[0])
                for text in texts
            ]
        return np.array(scores, np.float32)

    def logits(
        self, text: str | bytes | Sequence[int], *, add_special: bool = True
    ) -> npt.NDArray[np.float32]:
        """Return what the model expects after each token of a text.

        Returns:
            float32 of shape (tokens, vocabulary).

        Raises:
            ResourceError: The text does not fit in the context.
        """
        import numpy as np

        with self._turn() as runner:
            ids = prompt_ids(runner, text, replace(self._settings, add_special=add_special))
            if not ids:
                raise UsageError("the text has no tokens")
            self._open_context()
            context = runner.context
            assert context is not None
            context_tokens(len(ids), 1, context.n_ctx, 0)
            rows = np.empty((len(ids), runner.model.n_vocab), np.float32)
            context.clear()
            runner.ids = []
            for at in range(0, len(ids), context.n_batch):
                part = ids[at : at + context.n_batch]
                context.decode(part, outputs="all")
                for row in range(len(part)):
                    rows[at + row] = context.logits(row)
            context.clear()
        return rows

    def perplexity(
        self, text: str | bytes, *, window: int = 512, stride: int | None = None
    ) -> Perplexity:
        """Return how well the model predicts a text, as ``mtkit perplexity`` does.

        Args:
            window: Tokens of a window, at most the trained context.
            stride: Tokens between overlapping windows; None: whole windows, whose second halves
                count.

        Raises:
            UsageError: The text has fewer tokens than a window.
        """
        from mtkit.base.notebook import Progress
        from mtkit.llm.perplexity import perplexity, sliding_perplexity
        from mtkit.llm.windows import open_windows, token_ids

        progress = Progress("perplexity")
        raw = text.encode() if isinstance(text, str) else text
        with self._turn() as runner:
            window = min(window, runner.header.n_ctx_train or window)
            self._close_context()
            own = self._settings.context
            own = replace(own, n_batch=max(own.n_batch, WindowSettings.n_batch))
            runner.settings = replace(self._settings, context=own)
            try:
                if stride is None:
                    ids = token_ids(runner.model, raw, window)
                    slots = open_windows(runner, size=window)
                    return perplexity(slots, ids, progress=progress)
                ids = runner.model.tokenize(raw, add_special=False, parse_special=False)
                context = runner.open_context(window)
                return sliding_perplexity(context, ids, stride, progress=progress)
            finally:
                runner.settings = self._settings
                runner.close_context()

    def save_session(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the model's memory of its last answer to a file.

        ``load_session`` restores it, also in another process: a prompt that begins with the same
        tokens is then not computed again. ``mtkit generate --load-session`` goes on from it.
        """
        from mtkit.llm.session import check_can_save, model_hash, save_session

        with self._turn() as runner:
            check_can_save(os.fspath(path), force=force)
            save_session(os.fspath(path), runner, model_hash(runner.header), force=force)

    def load_session(self, path: str | os.PathLike[str]) -> None:
        """Restore a memory that ``save_session`` or ``mtkit generate --save-session`` wrote.

        Raises:
            UnsupportedError: It belongs to another model.
            UsageError: Its keys and values have another type.
        """
        from mtkit.llm.session import check_model, model_hash, read_session

        with self._turn() as runner:
            session = read_session(os.fspath(path))
            check_model(session, model_hash(runner.header), os.fspath(path))
            own = self._settings.context
            if (session.kv_type, session.flash_attention) != (own.kv_type, own.flash_attention):
                raise UsageError(
                    f"has keys and values in {session.kv_type.upper()}, "
                    f"flash attention {session.flash_attention}",
                    source=os.fspath(path),
                    hint="open the model with the same kv_type and flash_attention",
                )
            self._open_context()
            runner.resume(session.ids, session.state)

    def close(self) -> None:
        """Free the model; an answer that is being computed ends first."""
        self._runner.stop_requested = True
        running = self._running()
        if running is not None:
            with suppress(ValueError):  # another thread is computing it
                running.close()
        with self._turns:
            self._close_context()
            if self._pooler is not None:
                self._pooler.close()
            self._runner.close()

    def _stream(
        self,
        parts: Generator[Part_, None, None],
        results: list[Result],
        own: list[Callable[[], Stream[Part_, Result] | None]],
    ) -> Stream[Part_, Result]:
        stream = Stream(parts, lambda: results[0] if results else None)
        own.append(ref(stream))  # no cycle: a stream that nobody holds ends at once
        return stream

    def _with(self, changes: Mapping[str, Any]) -> TextAnswerSettings:
        return with_changes(self._settings, changes, OF_AN_ANSWER)

    @contextmanager
    def _turn(self) -> Iterator[Runner]:
        """Wait for the calls before; then the model is this thread's."""
        if os.getpid() != self._process:
            raise UsageError(
                "was opened in another process, whose threads a fork does not copy",
                source=self.path,
                hint="open it in this process",
            )
        with self._turns:
            if not self._runner.model.is_open:
                raise UsageError("is closed", source=self.path)
            self._runner.stop_requested = False
            yield self._runner

    def _open_context(self, settings: TextAnswerSettings | None = None) -> None:
        """Open the context, and the draft for how these settings accept what it proposes."""
        runner, settings = self._runner, settings or self._settings
        by_rejection = setup.uses_rejection(settings)
        if runner.context is not None and by_rejection != self._by_rejection:
            self._close_context()
        if runner.context is None:
            self._by_rejection = by_rejection
            runner.open_context()
            seed = settings.sampler.seed
            seed = int.from_bytes(os.urandom(4), "little") if seed is None else seed
            self._speculation = setup.open_speculation(runner, settings, seed)

    def _close_context(self) -> None:
        speculation, self._speculation = self._speculation, None
        if speculation is not None:
            speculation.close()
        self._runner.close_context()

    @contextmanager
    def _answer(
        self, ids: list[int], settings: TextAnswerSettings, media: Media | None = None
    ) -> Iterator[tuple[Answer, Sampler]]:
        """Feed a prompt, and free the sampler afterwards."""
        self._open_context(settings)
        runner, context, speculation = self._runner, self._runner.context, self._speculation
        assert context is not None
        context_tokens(len(ids), settings.n_predict, context.n_ctx, 0)
        if speculation is not None:
            speculation.reset()
        with ExitStack() as stack:
            by_rejection = speculation is not None and setup.uses_rejection(settings)
            sampler = stack.enter_context(
                Sampler(context, settings.sampler, distributions=by_rejection)
            )
            runner.feed(ids, hold_last=settings.n_predict == 0, media=media)
            sampler.accept(runner.ids)
            yield Answer(runner, sampler, ids, settings, speculation), sampler

    def _watch_text(self, sampler: Sampler) -> None:
        from mtkit.llm.reasoning import reasoning_of_text

        sampler.watch(reasoning_of_text(self._runner.model, self.template, self._runner.ids))

    def _chat_prompt(self, *, parse_special: bool) -> tuple[Any, Form | None]:
        from mtkit.llm.chat_prompt import ChatPrompt

        return (
            ChatPrompt(self._runner.model, self.template, parse_special=parse_special),
            self._form,
        )

    @cached_property
    def _form(self) -> Form | None:
        """How the model writes answers; None where its template does not say."""
        from mtkit.chat.answer_analysis import find_form

        model = self._runner.model
        eos = model.piece(model.eos, special=True) if model.eos >= 0 else b""
        try:
            return find_form(self.template or "", eos.decode("utf-8", "replace"))
        except MtkitError:  # rendering the conversation says what is wrong
            return None

    def _shows_signs(self, form: Form) -> bool:
        """Whether answers are written with control tokens, which then belong to their text."""
        model = self._runner.model
        ids = model.tokenize("".join(form.signs), add_special=False)
        return form.channels or any(map(model.is_control, ids))

    def _open_pooler(self) -> Pooler:
        from mtkit.llm.vectors import Pooler, own_pooling

        if self._pooler is None:
            runner, settings = self._runner, self._settings.context
            settings = replace(settings, pooling=own_pooling(runner.header.tensors))
            trained = max(runner.model.n_ctx_train, settings.n_ubatch)
            most = min(trained, max(runner.n_ctx, _MOST_EMBEDDED))
            self._pooler = Pooler(runner.model, lambda: settings, most)
        return self._pooler


# For help() and editors; type checkers read keywords.pyi.
_KEYWORDS: list[tuple[Any, Collection[str]]] = [
    (Model.__init__, table(TextAnswerSettings).keys() - {"model"}),  # the first argument
    *((call, OF_AN_ANSWER) for call in (Model.generate, Model.stream, Model.astream)),
    *((call, OF_AN_ANSWER) for call in (Model.chat, Model.stream_chat)),
]
for _call, _names in _KEYWORDS:
    _call.__signature__ = signature_with(_call, TextAnswerSettings, _names)


def _sets(name: str, settings: Mapping[str, object]) -> bool:
    """Whether keywords set a setting, under any of its names."""
    return not settings.keys().isdisjoint(table(TextAnswerSettings)[name].names)


def _copied(messages: Any) -> Any:
    """Return messages as objects of one's own; what is none stays, and is refused."""
    if isinstance(messages, dict):
        return messages
    return [dict(entry) if hasattr(entry, "keys") else entry for entry in messages]


def _schema_text(schema: Any) -> str:
    """Return a JSON schema as text: of a pydantic class, a mapping, or a text as it is."""
    if hasattr(schema, "model_json_schema"):
        schema = schema.model_json_schema()
    return schema if isinstance(schema, str) else json.dumps(schema)
