"""The reasoning of an answer while its tokens are chosen: where it ends, and how long it may take.

A model reasons freely. What constrains the answer, a grammar, waits until the reasoning is closed;
and a budget closes it, by writing the sign for the model. The sign may come in several tokens, or
in one token with what follows it: ``ReasoningWatch.step`` says what a token leaves to the grammar.

Source: llama.cpp, common/reasoning-budget.cpp, for what a budget does.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.chat.answer import is_reasoning_closed, opens_reasoning
from mtkit.errors import MtkitError
from mtkit.llama.media import text_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    from mtkit.chat.answer import Form
    from mtkit.llama import Model

    State: TypeAlias = tuple[int, bytes]


class Reasoning(Record):
    """How the reasoning of one answer begins and ends.

    Attributes:
        is_open: The prompt has opened it.
        opening: What would open it; empty where nothing may.
        closing: What closes it, without the white space around it.
        sign: What closes it with all that the template writes up to the answer.
        budget: Tokens that it may take; None: any number.
    """

    is_open: bool
    opening: str
    closing: str
    sign: str
    budget: int | None = None


def find_reasoning(
    form: Form | None,
    prompt: str,
    *,
    thinks: bool = True,
    text: bool = False,
    budget: int | None = None,
) -> Reasoning | None:
    """Return how an answer reasons; None where it does not, or nothing would tell its end.

    Args:
        prompt: The end of the prompt.
        thinks: Whether the model may open a reasoning that the prompt has not opened.
        text: The answer can only be a text, no call.
    """
    if form is None or not form.thought:
        return None
    closing = min(form.thought, key=lambda sign: len(sign.text))
    longest = max(form.thought, key=lambda sign: len(sign.text))
    sign = longest if text and longest.text.startswith(closing.text) else closing
    is_open = form.leads == "always" or opens_reasoning(prompt, form)
    opening = ""
    if thinks and form.thinking is not None and not is_reasoning_closed(prompt, form):
        opening = form.thinking.core.strip()
    if not is_open and not opening:
        return None
    return Reasoning(is_open, opening, closing.core.strip(), sign.text, budget)


REASONING_WORDS = ("think", "THINK", "reason", "channel")
"""Words of which a template that mentions a reasoning has one, and so its signs."""
TAIL_TOKENS = 256
"""Tokens at the end of a prompt that may say how its answer begins."""


def prompt_tail(model: Model, ids: Sequence[int]) -> str:
    """Return the end of a prompt, control tokens as they are spelled."""
    pieces = [model.piece(token_id, special=True) for token_id in text_ids(ids[-TAIL_TOKENS:])]
    return b"".join(pieces).decode("utf-8", "replace")


def reasoning_of_text(model: Model, template: Any, ids: Sequence[int]) -> Reasoning | None:
    """Return how what continues a text reasons: only where the text has opened it.

    Args:
        template: The model's chat template, which says what opens a reasoning; None where it has
            none.
    """
    from mtkit.chat.answer_analysis import find_form

    tail = prompt_tail(model, ids) if isinstance(template, str) else ""
    if not any(word in tail for word in REASONING_WORDS):
        return None
    try:
        form = find_form(template)
    except MtkitError:  # a text needs no template
        return None
    if not opens_reasoning(tail, form):
        return None
    return find_reasoning(form, tail, thinks=False, text=True)


BEFORE, OPEN, BLANK, OVER = range(4)
"""Nothing but a part of the opening sign is there; inside; behind what closes it, where white space
of the sign may come; the answer has begun."""
_MOST_TEXT = 400
"""Bytes in which a sign is looked for; none has as many."""


class ReasoningWatch:
    """Follows the tokens of an answer as far as its reasoning goes.

    Attributes:
        due: Tokens that are written for the model, before any other.
        rest: What the template writes between what closes the reasoning and the answer, if it is
            more than white space.
    """

    def __init__(self, reasoning: Reasoning, model: Model) -> None:
        self._model = model
        self._opening, self._closing = reasoning.opening.encode(), reasoning.closing.encode()
        sign, self._budget = reasoning.sign.encode(), reasoning.budget
        self._sign = sign.lstrip()
        self._lead = sign[: len(sign) - len(self._sign)]
        rest = self._sign[len(self._closing) :]
        self.rest, self._blank = (rest, b"") if rest.strip() else (b"", rest)
        self._state: State = (OPEN if reasoning.is_open else BEFORE, b"")
        self.due: list[int] = []

    @property
    def phase(self) -> int:
        """Where the answer is."""
        return self._state[0]

    def piece(self, token_id: int) -> bytes:
        """Return the bytes of a token as signs are spelled with."""
        return self._model.piece(token_id, special=True)

    def step(self, piece: bytes) -> tuple[State, bytes]:
        """Return the state behind some bytes, and those of them that are the answer's."""
        phase, text = self._state
        if phase == BEFORE:
            text = (text + piece).lstrip()
            if self._opening.startswith(text) and text != self._opening:
                return (BEFORE, text), b""
            if not self._opening or not text.startswith(self._opening):
                return (OVER, b""), piece
            phase, piece, text = OPEN, text[len(self._opening) :], b""
        if phase == OPEN:
            text = (text + piece)[-_MOST_TEXT - len(piece) :]
            at = text.find(self._closing)
            if at < 0:
                return (OPEN, text[-_MOST_TEXT:]), b""
            piece = text[at + len(self._closing) :]
            phase, text = BLANK, self._blank
        if phase == BLANK:
            while piece and piece[:1] == text[:1]:
                piece, text = piece[1:], text[1:]
            if text and not piece:
                return (BLANK, text), b""
        return (OVER, b""), piece

    def enter(self, state: State) -> None:
        """Go on behind a token that ``step`` has looked at."""
        before, self._state = self._state, state
        phase = state[0]
        if before[0] < BLANK <= phase and self.rest:
            self._write(self.rest)
        elif phase == OPEN and self._budget is not None and not self.due:
            self._budget -= 1 if before[0] == OPEN else 0
            if self._budget <= 0:
                self.close()

    @property
    def has_begun(self) -> bool:
        """Whether a part of the opening sign is there: nothing else can follow."""
        return self._state[0] == BEFORE and bool(self._state[1])

    def open(self) -> None:
        """Write the rest of the opening sign."""
        self._write(self._opening[len(self._state[1]) :])

    def close(self) -> None:
        """Write what closes the reasoning, or the part of it that is missing."""
        text, sign, self._budget = self._state[1], self._sign, None
        size = next((n for n in range(len(self._closing) - 1, 0, -1) if text.endswith(sign[:n])), 0)
        lead = b"" if size or text[-1:].isspace() else self._lead
        self._write(lead + sign[size:])

    def end(self) -> None:
        """Leave the reasoning: the answer has begun."""
        self._state = (OVER, b"")

    def _write(self, text: bytes) -> None:
        if not self.due and text:
            self.due = self._model.tokenize(text, add_special=False)

    def take_due(self) -> int:
        """Return the next token that is due."""
        token = self.due.pop(0)
        self.enter(self.step(self.piece(token))[0])
        return token

    def follow(self, token_id: int) -> None:
        """Follow a token of an answer that nothing constrains."""
        if self.phase != OVER:
            self.enter(self.step(self.piece(token_id))[0])
