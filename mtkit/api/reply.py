"""What a model answers: whole, in parts, and in an event loop."""

from __future__ import annotations

from typing import Generic, TypeVar

from mtkit.base.process import Closeable
from mtkit.base.record import Idioms, Record
from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator
    from typing import Any

    from mtkit.api.generation import Generation

Part_ = TypeVar("Part_")
Result = TypeVar("Result")


class Reply(Idioms, Record):
    """The answer of a model in a conversation.

    Attributes:
        content: The text, without the reasoning.
        reasoning: The reasoning; empty where there is none.
        tool_calls: Calls of tools as OpenAI's API has them: ``id``, ``type`` and ``function``,
            whose ``arguments`` are JSON.
        generation: Its tokens, why it ended, and times.
    """

    content: str
    reasoning: str
    tool_calls: list[dict[str, Any]]
    generation: Generation

    @property
    def message(self) -> dict[str, Any]:
        """The message to append to a conversation before its next turn."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = self.tool_calls
        return message

    def _repr_html_(self) -> str:
        from mtkit.base.notebook import figure, note, table

        calls = [(c["function"]["name"], c["function"]["arguments"]) for c in self.tool_calls]
        parts: list[object] = [note(self.reasoning)] if self.reasoning else []
        parts += [self.content] if self.content else []
        parts += [table(("call", "arguments"), calls)] if calls else []
        return figure(*parts)

    def __repr__(self) -> str:
        calls = f", {len(self.tool_calls)} calls" if self.tool_calls else ""
        return f"<Reply, end {self.generation.end!r}{calls}: {self.content!r}>"


class Stream(Idioms, Closeable, Generic[Part_, Result]):
    """The parts of an answer as they come; iterate over it. Closing it ends the answer."""

    def __init__(
        self, parts: Generator[Part_, None, None], result: Callable[[], Result | None]
    ) -> None:
        self._parts, self._result = parts, result

    def __repr__(self) -> str:
        state = "ended" if self._result() is not None else "iterate over it, then read result"
        return f"<Stream: {state}>"

    def __iter__(self) -> Iterator[Part_]:
        return self

    def __next__(self) -> Part_:
        return next(self._parts)

    @property
    def result(self) -> Result:
        """The whole answer, or what there is of one that was closed.

        Raises:
            UsageError: It has not ended.
        """
        result = self._result()
        if result is None:
            raise UsageError("the answer has not ended", hint="read it to its end, or close it")
        return result

    def close(self) -> None:
        """End the answer; the model is free for the next."""
        self._parts.close()


async def in_thread(stream: Stream[Part_, Any]) -> AsyncIterator[Part_]:
    """Yield the parts of a stream, which a thread of its own computes."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    end: Any = object()
    loop = asyncio.get_running_loop()
    pool = ThreadPoolExecutor(1, "mtkit-model")
    try:
        while (part := await loop.run_in_executor(pool, next, stream, end)) is not end:
            yield part
    finally:
        pool.submit(stream.close)  # behind what it computes, and not awaited: it may be cancelled
        pool.shutdown(wait=False)
