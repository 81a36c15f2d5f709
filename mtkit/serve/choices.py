"""The shapes of OpenAI's answers: completions, and chat completions."""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from functools import partial

from mtkit.chat.answer_parts import (
    Call,
    CallStart,
    CallText,
    Thought,
    calls_in,
    reasoning_in,
    text_in,
)
from mtkit.serve.job import Done, Progress
from mtkit.serve.plain import ended
from mtkit.serve.shapes import Shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, ClassVar

    from mtkit.chat.answer_parts import Part
    from mtkit.serve.bodies.openai import Answer, Chat, Completion
    from mtkit.serve.job import Chances, Piece, Terms
    from mtkit.serve.served import Served
    from mtkit.serve.tools import Reading, Tools


class Choices(Shape):
    """What both shapes share: answers are choices."""

    prefix = part = complete = ""
    called = "tool_calls"
    ending: ClassVar[dict[str, Any]] = {}

    def __init__(self, served: Served, asked: Answer, terms: Terms, prompts: Any) -> None:
        """Prepare the answers, as ``Shape``."""
        super().__init__(served, asked, terms, prompts)
        count = self.answers.count
        self._head = {
            "id": self.prefix + secrets.token_hex(12),
            "object": self.part if asked.stream else self.complete,
            "created": int(time.time()),
            "model": served.name,
            "system_fingerprint": served.fingerprint,
        }
        self._parts: list[list[Part]] = [[] for _ in range(count)]
        self._pieces: list[list[Piece]] = [[] for _ in range(count)]
        self._calls = [0] * count

    def parts(self, index: int, told: Piece | Done) -> list[Part]:
        """Return the parts of an answer that a token settles."""
        raise NotImplementedError

    def delta(self, part: Part, calls: int) -> dict[str, Any]:
        """Return what a part is in a stream, behind so many calls."""
        raise NotImplementedError

    def message(self, index: int, parts: list[Part]) -> dict[str, Any]:
        """Return what all parts are together."""
        raise NotImplementedError

    def logprobs(self, index: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return how probable tokens were."""
        raise NotImplementedError

    def told(self, index: int, told: Progress | Piece | Done) -> list[Any]:
        """Return the events of what was told."""
        if isinstance(told, Progress):
            return [{**self.chunk(index, self.ending), **self.progress(index, told)}]
        parts = [part for part in self.parts(index, told) if part]
        found, made = {}, []
        if not isinstance(told, Done) and told.chances is not None:
            found = {"logprobs": self.logprobs(index, [told])}
            parts = parts or [""]
        for part in parts:
            made.append(self.chunk(index, {**self.delta(part, self._calls[index]), **found}))
            self._calls[index] += isinstance(part, CallStart)
            found = {}
        if made and self.asked.timings_per_token:
            made[-1] |= self.timed(index)
        if self._is_verbose:
            self._parts[index] += parts
        if isinstance(told, Done):
            made.append(
                self.chunk(
                    index, self.ending, _reason(told, self.called if self._calls[index] else "stop")
                )
            )
            if not self._has_figures:
                made[-1]["timings"] = self.answers.timings[index].told()
            made[-1] |= self._verbose(index)
        return made

    def closing(self) -> list[Any]:
        """Return the event of the figures."""
        return [{**self._head, "choices": [], **self._figures()}] if self._has_figures else []

    def keep(self, index: int, told: Progress | Piece | Done) -> None:
        """Remember what was told."""
        if isinstance(told, Progress):
            return
        self._parts[index] += self.parts(index, told)
        if not isinstance(told, Done) and told.chances is not None:
            self._pieces[index].append(told)

    def whole(self) -> Any:
        """Return all answers."""
        choices = []
        for index, parts in enumerate(self._parts):
            pieces = self._pieces[index]
            choices.append({
                "index": index,
                **self.message(index, parts),
                "logprobs": self.logprobs(index, pieces) if pieces else None,
                "finish_reason": _reason(
                    self.answers.done[index], self.called if calls_in(parts) else "stop"
                ),
            })  # fmt: skip
        return {**self._head, "choices": choices, **self._figures(), **self._verbose(0)}

    def chunk(self, index: int, inner: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        """Return an event of one choice."""
        choice = {"index": index, "logprobs": None, **inner, "finish_reason": reason}
        return {**self._head, "choices": [choice]}

    @property
    def _has_figures(self) -> bool:
        return self.asked.stream_options.include_usage or self.asked.explain_cache

    def _figures(self) -> dict[str, Any]:
        answers = self.answers
        prompt, generated = answers.prompt_tokens, answers.generated
        found: dict[str, Any] = {
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": generated,
                "total_tokens": prompt + generated,
                "prompt_tokens_details": {"cached_tokens": answers.cached},
            },
            "timings": answers.timings[0].told(),
        }
        if self.asked.explain_cache:
            found["cache"] = answers.explanation()
        return found

    @property
    def _is_verbose(self) -> bool:
        return self.asked.verbose or self.served.settings.verbose

    def _verbose(self, index: int) -> dict[str, Any]:
        """Return what llama-server's own API would tell, if that is asked for."""
        if not self._is_verbose:
            return {}
        text = text_in(self._parts[index])
        return {"__verbose": ended(self, index, text, text, [])}


class Texts(Choices):
    """The shape of completions."""

    prefix, part, complete = "cmpl-", "text_completion", "text_completion"
    ending: ClassVar[dict[str, Any]] = {"text": ""}

    def __init__(
        self,
        served: Served,
        asked: Completion,
        terms: Terms,
        prompts: Any,
        echoed: Sequence[str] = (),
    ) -> None:
        """Prepare the answers, as ``Shape``.

        Args:
            served: What answers.
            asked: The body of the request.
            terms: How.
            prompts: The prompts.
            echoed: Their texts, if each is to begin its answers.
        """
        super().__init__(served, asked, terms, prompts)
        self._piece = served.model.piece
        self._echoed = [text for text in echoed for _ in range(asked.count)]
        self._offsets = dict(enumerate(map(len, self._echoed)))

    def opening(self) -> list[Any]:
        """Return the prompts that are echoed."""
        return [self.chunk(index, {"text": text}) for index, text in enumerate(self._echoed)]

    def parts(self, _: int, told: Piece | Done) -> list[Part]:
        """Return the text."""
        return [told.text]

    def delta(self, part: Part, _: int) -> dict[str, Any]:
        """Return the text."""
        return {"text": part}

    def message(self, index: int, parts: list[Part]) -> dict[str, Any]:
        """Return the text."""
        return {"text": "".join([*self._echoed[index : index + 1], *map(str, parts)])}

    def logprobs(self, index: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return OpenAI's columns of probabilities."""
        texts = [piece.raw.decode("utf-8", "replace") for piece in pieces]
        found = [_chances(piece) for piece in pieces]
        offsets = []
        for text in texts:
            offsets.append(self._offsets.get(index, 0))
            self._offsets[index] = offsets[-1] + len(text)
        return {
            "tokens": texts,
            "token_logprobs": [one.logprob for one in found],
            "top_logprobs": [
                {
                    self._piece(token_id, special=True).decode("utf-8", "replace"): chance
                    for token_id, chance in reversed(one.top)
                }
                for one in found
            ],
            "text_offset": offsets,
        }


class Messages(Choices):
    """The shape of chat completions."""

    prefix, part, complete = "chatcmpl-", "chat.completion.chunk", "chat.completion"
    ending: ClassVar[dict[str, Any]] = {"delta": {}}

    def __init__(
        self, served: Served, asked: Chat, terms: Terms, prompts: Any, tools: Tools
    ) -> None:
        """Prepare the answers, as ``Shape``.

        Args:
            served: What answers.
            asked: The body of the request.
            terms: How.
            prompts: The prompts.
            tools: What reads them.
        """
        super().__init__(served, asked, terms, prompts)
        self._piece = served.model.piece
        told_apart = asked.reasoning_format != "none"
        read = partial(
            tools.reading, served.tail(prompts[0]), streams=asked.stream, reasoning=told_apart
        )
        self._readings: defaultdict[int, Reading] = defaultdict(read)
        self._is_old = bool(asked.functions)  # calls as OpenAI's API had them before tools
        self.called = "function_call" if self._is_old else "tool_calls"

    def opening(self) -> list[Any]:
        """Return whose messages follow."""
        begun = {"delta": {"role": "assistant", "content": None}}
        return [self.chunk(index, begun) for index in range(self.answers.count)]

    def parts(self, index: int, told: Piece | Done) -> list[Part]:
        """Return what the token settles."""
        return self._readings[index].read(told)

    def delta(self, part: Part, calls: int) -> dict[str, Any]:
        """Return what a part adds to the message."""
        if isinstance(part, str):
            return {"delta": {"content": part}}
        if isinstance(part, Thought):
            return {"delta": {"reasoning_content": part.text}}
        if self._is_old:
            name = {} if isinstance(part, CallText) else {"name": part.name}
            text = part.text if isinstance(part, CallText) else ""
            return {"delta": {"function_call": {**name, "arguments": text}}}
        if isinstance(part, CallText):
            told = {"index": calls - 1, "function": {"arguments": part.text}}
        else:
            told = {"index": calls, **_call(Call(part.id, part.name, ""))}
        return {"delta": {"tool_calls": [told]}}

    def message(self, _: int, parts: list[Part]) -> dict[str, Any]:
        """Return the message."""
        calls = [_call(call) for call in calls_in(parts)]
        text = text_in(parts)
        found: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if thoughts := reasoning_in(parts):
            found["reasoning_content"] = thoughts
        if calls:
            told = (
                {"function_call": calls[0]["function"]} if self._is_old else {"tool_calls": calls}
            )
            found |= {"content": text or None, **told}
        return {"message": found}

    def logprobs(self, _: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return OpenAI's list of probabilities."""

        def named(raw: bytes, chance: float) -> dict[str, Any]:
            text = raw.decode("utf-8", "replace")
            return {"token": text, "logprob": chance, "bytes": list(raw)}

        content = []
        for piece in pieces:
            found = _chances(piece)
            top = [
                named(self._piece(token_id, special=True), chance) for token_id, chance in found.top
            ]
            content.append({**named(piece.raw, found.logprob), "top_logprobs": top})
        return {"content": content, "refusal": None}


def _chances(piece: Piece) -> Chances:
    assert piece.chances is not None
    return piece.chances


def _reason(done: Done, otherwise: str) -> str:
    return "length" if done.end == "length" else otherwise


def _call(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}
