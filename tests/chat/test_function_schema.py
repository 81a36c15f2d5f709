"""A function as a tool has the schema that transformers gives it."""

from __future__ import annotations

import random
from enum import Enum
from typing import Any, Dict, List, Literal, Optional, Tuple, Union  # noqa: UP035

import pytest
from support import FIXTURES, latest_transformers

import mtkit
from mtkit.chat.function_schema import function_schema
from mtkit.errors import UsageError
from mtkit.spec import ChatTemplate, replace


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Mixed(Enum):
    ONE = 1
    NOTHING = None


def weather(city: str, unit: Literal["C", "F"] = "C", days: int | None = None) -> dict[str, float]:
    """
    Get the weather.

    In two paragraphs.

    Args:
        city (str): The city,
            in one word
        unit: The unit (choices: ["C", " F "])
        days: How many days: at most 7

    Returns:
        Temperatures.

    Raises:
        ValueError: Never.
    """
    return {city: float(days or 0)}


def everything(
    a: List[int],  # noqa: UP006
    b: Tuple[int, str],  # noqa: UP006
    c: Dict[str, List[float]],  # noqa: UP006
    d: Optional[Union[int, str]],  # noqa: UP045
    e: Color,
    f: Mixed,
    g: Union[List[int], str, None] = None,  # noqa: UP006
    h: list = (),  # type: ignore[type-arg, assignment]
    i: Any = None,
    j: bool | float = False,
    k: list | tuple | None = None,  # type: ignore[type-arg]
    l: Literal[1, "a", None] = None,  # noqa: E741
    m: dict[int, dict[str, bool]] = {},  # noqa: B006
) -> object:
    """Everything.

    Args:
        a: 1
        b: 2

        c: 3
        d: 4
        e: 5
        f: 6
        g: 7
        h: 8
        i: 9
        j: 10
        k: 11
        l: 12
        m: 13
    """


def nothing() -> None:
    """Do nothing."""


class Tool:
    def method(self, x: int) -> str:
        """Be a method.

        Args:
            x: A number
        Returns:
            A text
        """
        return str(x)


SOUND = (weather, everything, nothing, Tool().method, Tool.method)


def no_text(x: int) -> None: ...


def no_hint(x) -> None:
    """Have no hint.

    Args:
        x: It
    """


def no_description(x: int, y: int) -> None:
    """Say nothing of y.

    Args:
        x: It
    """


def own_class(x: Tool) -> None:
    """Take a class.

    Args:
        x: It
    """


def one_tuple(x: tuple[int]) -> None:
    """Take one.

    Args:
        x: It
    """


def dots(x: tuple[int, ...]) -> None:
    """Take many.

    Args:
        x: It
    """


def odd_choices(x: str) -> None:
    """Choose.

    Args:
        x: It (choices: a, b)
    """


REFUSED = (no_text, no_hint, no_description, own_class, one_tuple, dots, odd_choices)


@pytest.mark.parametrize("function", SOUND)
def test_schema(function) -> None:
    theirs = latest_transformers("transformers.utils.chat_template_utils").get_json_schema
    assert function_schema(function) == theirs(function)
    assert str(function_schema(function)) == str(theirs(function))  # in the same order


@pytest.mark.parametrize("function", REFUSED)
def test_refused(function) -> None:
    theirs = latest_transformers("transformers.utils.chat_template_utils").get_json_schema
    with pytest.raises(Exception):  # noqa: B017
        theirs(function)
    with pytest.raises(UsageError, match=function.__name__):
        function_schema(function)


def test_drawn_hints() -> None:
    theirs = latest_transformers("transformers.utils.chat_template_utils").get_json_schema
    rng = random.Random(5)

    def drawn(depth: int) -> Any:
        plain = [int, str, float, bool, list, dict, tuple, Any, Color, Literal["a", 2]]
        if depth == 0 or rng.random() < 0.4:
            return rng.choice(plain)
        kind = rng.randrange(5)
        if kind == 0:
            return List[drawn(depth - 1)]  # noqa: UP006
        if kind == 1:
            return Dict[str, drawn(depth - 1)]  # noqa: UP006
        if kind == 2:
            return Tuple[drawn(depth - 1), drawn(depth - 1)]  # noqa: UP006
        if kind == 3:
            return Optional[drawn(depth - 1)]  # noqa: UP045
        return Union[drawn(depth - 1), drawn(depth - 1)]

    for _ in range(300):

        def function(x, y=1):
            """Do it.

            Args:
                x: First
                y: Second
            """

        function.__annotations__ = {"x": drawn(3), "y": drawn(2), "return": drawn(1)}
        assert str(function_schema(function)) == str(theirs(function)), function.__annotations__


TEMPLATE = (
    "{{ bos_token }}{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if enable_thinking is defined and not enable_thinking %}<no think>{% endif %}{{ extra }}"
)


def test_as_transformers_is_called() -> None:
    transformers = latest_transformers("transformers")
    file = FIXTURES / "bbpe-8k" / "tokenizer.json"
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(file))
    ours = mtkit.load(file)
    chat = [{"role": "user", "content": "Hello <|endoftext|>"}]
    for options in (
        {"chat_template": TEMPLATE, "enable_thinking": False},
        {"chat_template": TEMPLATE, "enable_thinking": True, "extra": [1, "a"], "bos_token": "B"},
        {"chat_template": TEMPLATE, "tools": [weather, function_schema(nothing)]},
    ):
        text = theirs.apply_chat_template(chat, tokenize=False, **options)
        assert ours.apply_chat_template(chat, **options) == text
        assert ours.apply_chat_template(chat, tokenize=False, **options) == text
        ids = theirs.apply_chat_template(chat, return_dict=False, **options)
        assert ours.apply_chat_template(chat, tokenize=True, **options) == ids
    named = replace(ours.spec, chat_templates=(ChatTemplate("a", "A"), ChatTemplate("b", "B")))
    from mtkit.tokenizer.tokenizer import Tokenizer

    assert Tokenizer(named).apply_chat_template(chat, chat_template="b") == "B"


def test_decode_batch() -> None:
    ours = mtkit.load(FIXTURES / "bbpe-8k")
    batch = [ours.encode_ids(text) for text in ("Hello", "", "a<|endoftext|>")]
    for skip in (True, False):
        wanted = [ours.decode(ids, skip_special_tokens=skip) for ids in batch]
        assert ours.decode_batch(batch, skip_special_tokens=skip) == wanted
    with pytest.raises(UsageError, match="no id 9999999"):
        ours.decode_batch([[1], [9999999]])
