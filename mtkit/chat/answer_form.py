"""How a model writes its answers: what ``answer_analysis`` finds and ``answer_reader`` reads by."""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.chat.signs import EOS, Sign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from mtkit.chat.notation import Notation
    from mtkit.chat.thinking import Switch

    Body = Literal["object", "arguments", "pairs"]
    Leads = Literal["no", "unsaid", "always"]


class Pair(Record):
    """What stands around the value of an argument.

    Attributes:
        opening: Between key and value.
        kinds: Of values that are written so: "string", "number", "boolean" …
        following: Between value and next key.
        closing: Between value and the end of the call.
    """

    opening: Sign
    kinds: frozenset[str]
    following: Sign
    closing: Sign


class Pairs(Record):
    """Arguments that are written one by one.

    Attributes:
        first: Between the call's name and the first key.
        empty: Between the name and the end of the call.
        pairs: How values are written, the more particular before others.
        quotes: What texts may stand in besides: opening and closing.
        notation: How lists and objects are written; None: as JSON, or as Python does.
    """

    first: Sign
    empty: Sign
    pairs: tuple[Pair, ...]
    quotes: tuple[tuple[str, str], ...]
    notation: Notation | None


class Calls(Record):
    """How calls of tools are written.

    Attributes:
        opening: What leads to a call; nothing where calls are bare objects.
        openings: That, behind what may stand before it, and without what may be left out.
        body: "object": a JSON object that says name and arguments; "arguments": the head and a
            JSON object; "pairs": the head and the arguments one by one.
        keys: Of name, arguments and id in an object; no name: it is the one key of the object.
        head: Names of holes ("name", "id") and the signs behind them, up to the arguments.
        pairs: How arguments are written one by one.
        closing: Ends a call.
        repeats: There may be several.
        following: Between the end of a call and the head of the next.
        ending: Ends the last one.
        resuming: Between the last call and text behind it.
        sample: What is written around the arguments of one call, with holes; None: they are no
            JSON object.
    """

    opening: Sign
    openings: tuple[Sign, ...]
    body: Body
    keys: tuple[str, str, str]
    head: tuple[str | Sign, ...]
    pairs: Pairs | None
    closing: Sign
    repeats: bool
    following: Sign
    ending: Sign
    resuming: Sign
    sample: tuple[str, str] | None


class Form(Record):
    """How a model writes answers.

    Attributes:
        opening: What a generation prompt ends with, from the user's message on.
        header: What every answer begins with, as far as all templates' answers do.
        starts: What the text of an answer may begin with.
        thinking: What opens a reasoning; None: nothing does.
        thought: What closes one, the longer before others.
        leads: A reasoning begins without any sign: always, or where what closes one follows.
        ending: What ends a text.
        calls: How calls are written; None: not known.
        text_arguments: The template takes arguments of calls as a text only.
        shows_tools: The template tells the model of tools.
        shows_calls: It writes the calls of earlier turns.
        shows_results: It writes what tools gave.
        channels: Answers are messages of channels (``channels``).
        switch: Variables that let the model think or not, with both values (``thinking``).
    """

    opening: str
    header: str
    starts: tuple[Sign, ...]
    thinking: Sign | None
    thought: tuple[Sign, ...]
    leads: Leads
    ending: Sign
    calls: Calls | None
    text_arguments: bool = False
    shows_tools: bool = True
    shows_calls: bool = True
    shows_results: bool = True
    channels: bool = False
    switch: Switch = ()

    def thinking_values(self, *, thinks: bool) -> dict[str, Any]:
        """Return the variables of the template with which the model thinks, or does not."""
        return {name: on if thinks else off for name, on, off in self.switch}

    @property
    def signs(self) -> list[str]:
        """All texts that answers are written with, without what the model fills in."""
        found = [*self.starts, *self.thought, *([self.thinking] if self.thinking else [])]
        if calls := self.calls:
            found += [*calls.openings, calls.closing, calls.following, calls.ending]
            found += [one for one in calls.head if isinstance(one, Sign)]
            if pairs := calls.pairs:
                found += [pairs.first, pairs.empty]
                for pair in pairs.pairs:
                    found += [pair.opening, pair.following, pair.closing]
        return [one.text.partition(EOS)[0] for one in found]
