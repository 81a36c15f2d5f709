"""What a chat template makes of a conversation: a text, or a refusal."""

from __future__ import annotations

import re

from mtkit.base.record import Record
from mtkit.errors import FormatError, ResourceError, UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from mtkit.chat.process import Limits


class Rendering(Record):
    """A rendered conversation.

    Attributes:
        text: What the model reads.
        generation: (start, end) in characters of each part in ``{% generation %}`` tags.
    """

    text: str
    generation: tuple[tuple[int, int], ...] = ()


_LACKS = re.compile(r"'dict object' has no attribute ('\w+')")
"""What Jinja says of a key that is missing."""


class TemplateRefusal(UsageError):
    """The template does not take these messages; ``message`` is what it says itself."""

    def __init__(self, message: str, *, own: bool) -> None:
        said = f"the chat template refuses: {message}" if own else message
        lacks = None if own else _LACKS.fullmatch(message)
        if lacks:
            said = f"a message or a value in it has no {lacks[1]}, which the chat template needs"
        super().__init__(said, hint="check the order and the roles of the messages")
        self.message = message


def rendered(
    template: str,
    variables: dict[str, Any],
    now: datetime | None,
    limits: Limits,
    deadline: float,
) -> Rendering:
    """Render a template in a process of its own, until a deadline of ``time.monotonic``.

    Raises:
        TemplateRefusal: The template raises an exception.
        FormatError: It is not a template.
        UnsupportedError: It asks for what the sandbox does not give.
        ResourceError: It needs more time, memory or length than it may.
        UsageError: The variables nest too deeply.
    """
    from datetime import datetime

    from mtkit.chat import child
    from mtkit.chat.pool import answer

    try:
        made = answer(template, variables, now or datetime.now(), limits, deadline)
    except ValueError as error:
        raise UsageError(f"cannot be given to a template: {error}", field="messages") from None
    if made.kind == child.DONE:
        return Rendering(made.text, made.spans)
    if made.kind == child.SYNTAX:
        raise FormatError(made.text, field="chat template")
    if made.kind == child.UNSAFE:
        raise UnsupportedError(f"the chat template is not safe: {made.text}")
    if made.kind == child.EXHAUSTED:
        raise ResourceError(f"the chat template {made.text}")
    raise TemplateRefusal(made.text, own=made.kind == child.REFUSED)
