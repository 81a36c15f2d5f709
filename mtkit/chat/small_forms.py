"""Calls as small models write them, beside the form of their template, where tools are known.

They are read only where they name one of the tools: a code block may hold anything else.
"""

from __future__ import annotations

from mtkit.base.record import replace
from mtkit.chat.answer import Calls, Pair, Pairs
from mtkit.chat.signs import Sign

_NOTHING = Sign("")
_TYPES = frozenset(("array", "boolean", "null", "number", "object"))


def _object_calls(opening: str, ending: str) -> Calls:
    """Return calls that are JSON objects, or a list of them, behind one of several signs."""
    return Calls(
        opening=Sign(opening),
        openings=(Sign(f"{opening}["), Sign(opening)),
        body="object",
        keys=("name", "arguments", "id"),
        head=(),
        pairs=None,
        closing=_NOTHING,
        repeats=True,
        following=Sign(", "),
        ending=Sign(f"]{ending}"),
        resuming=_NOTHING,
        sample=None,
    )


OBJECT = _object_calls("", "")
"""Objects where the form of a template has something else between its signs."""


def _python_pair(quote: str) -> Pair:
    kinds = frozenset(("string",)) if quote else _TYPES
    return Pair(Sign(f"={quote}"), kinds, Sign(f"{quote}, "), Sign(f"{quote})"))


_PYTHON = Pairs(
    first=Sign("("),
    empty=Sign("()"),
    pairs=(_python_pair('"'), _python_pair("'"), _python_pair("")),
    quotes=(),
    notation=None,
)
"""Arguments as Python writes them."""
LISTED = replace(
    _object_calls("[", ""), body="pairs", keys=("", "", ""), head=("name",), pairs=_PYTHON,
    openings=(Sign("["),), ending=Sign("]"),
)  # fmt: skip
"""``[get_weather(city="Oslo")]``: the form of Llama 3.2, for a whole answer."""
IN_TEXT = (
    replace(
        LISTED, opening=Sign("```tool_code\n"), ending=Sign("])\n```"),
        openings=(Sign("```tool_code\nprint("), Sign("```tool_code\n[")),
    ),
    replace(
        LISTED, opening=Sign("```tool_code\n"), ending=Sign("\n```"), following=Sign("\n"),
        openings=(Sign("```tool_code\n"),),
    ),
    *(
        _object_calls(opening, ending)
        for opening, ending in (
            ("```json\n", "\n```"),
            ("```\n", "\n```"),
            ("```tool_call\n", "\n```"),
            ("<tools>\n", "\n</tools>"),
            ("<tool_call>\n", "\n</tool_call>"),
            ("<tool_calls>\n", "\n</tool_calls>"),
            ("<function_call>\n", "\n</function_call>"),
        )
    ),
    replace(
        OBJECT, opening=Sign("<function="), openings=(Sign("<function="),), body="arguments",
        keys=("", "", ""), head=("name", Sign(">")), closing=Sign("</function>"),
        following=Sign("<function="), ending=_NOTHING,
    ),
)  # fmt: skip
"""Forms that may stand anywhere in a text. Gemma writes ``tool_code``; a block of JSON, and what
Qwen2.5 shows tools in, stand for the signs of a call; the others are those of other templates, the
last one Meta's for Llama 3.1."""
FENCES = tuple(f"```{kind}\n" for kind in ("xml", "json", "tool_call", ""))
"""Code blocks that models put around the signs of their own form."""
