"""The forms in which models write calls of tools.

A form is known by what a chat template spells, never by a model's name.

Source: the chat templates of the models, whose way to write calls of earlier turns is the way that
the model was trained to write new ones; Llama's model cards for several calls in one answer.
"""

from __future__ import annotations

from mtkit.base.record import Record


class Form(Record):
    """How a model writes calls.

    Attributes:
        signs: What its template holds, all of it.
        openings: What a block of calls begins with, one of them.
        closing: What it ends with; empty: the end of the answer.
        example: A call; ARGUMENTS is where its JSON stands, where that has a place.
        call: A pattern with ``name`` and ``body`` of each call in a block; empty: a block holds
            JSON objects that say both.
        pair: A pattern with ``key`` and ``value`` of each argument; empty: the body is an object.
        leads: The block is the whole answer.
        ends: What ends a message, where an answer is messages of channels (``channels``).
    """

    signs: tuple[str, ...]
    openings: tuple[str, ...]
    closing: str
    example: str
    call: str = ""
    pair: str = ""
    leads: bool = False
    ends: tuple[str, ...] = ()


_TAGS = (("<tool_call>",), "</tool_call>")
_SEEK = (("<｜tool▁calls▁begin｜>",), "<｜tool▁calls▁end｜>")
_SEEK_CALL = (
    r"<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?(?P<name>[^<\n]{1,200})"
    r"(?:<｜tool▁sep｜>|\n```json\n)(?P<body>.*?)(?:\n```)?<｜tool▁call▁end｜>"
)
FORMS = (
    Form(  # GLM
        ("<arg_key>", "<tool_call>"), *_TAGS,
        "<tool_call>NAME\n<arg_key>KEY</arg_key>\n<arg_value>VALUE</arg_value>\n</tool_call>",
        r"<tool_call>\s*(?P<name>[^<\s]{1,200})(?P<body>.*)",
        r"<arg_key>(?P<key>[^<]*)</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>",
    ),
    Form(  # Qwen3-Coder
        ("<function=", "<parameter=", "<tool_call>"), *_TAGS,
        "<tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n</tool_call>",
        r"<function=(?P<name>[^<>]{1,200})>(?P<body>.*?)(?:</function>|\Z)",
        r"<parameter=(?P<key>[^>]+)>\n?(?P<value>.*?)\n?</parameter>",
    ),
    Form(  # DeepSeek from V3.2 on
        ("DSML", "function_calls>"), ("<｜DSML｜function_calls>",), "</｜DSML｜function_calls>",
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="NAME">\n<｜DSML｜parameter name="KEY" '
        'string="true">VALUE</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
        r'<｜DSML｜invoke name="(?P<name>[^"<]{1,200})">(?P<body>.*?)</｜DSML｜invoke>',
        r'<｜DSML｜parameter name="(?P<key>[^"]+)" string="(?P<plain>\w+)">(?P<value>.*?)'
        r"</｜DSML｜parameter>",
    ),
    Form(
        ("<｜tool▁calls▁begin｜>", "```json"), *_SEEK,
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\nARGUMENTS\n```"
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        _SEEK_CALL,
    ),
    Form(
        ("<｜tool▁calls▁begin｜>",), *_SEEK,
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME<｜tool▁sep｜>ARGUMENTS<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜>",
        _SEEK_CALL,
    ),
    Form(  # Kimi
        ("<|tool_calls_section_begin|>",), ("<|tool_calls_section_begin|>",),
        "<|tool_calls_section_end|>",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0"
        "<|tool_call_argument_begin|>ARGUMENTS<|tool_call_end|><|tool_calls_section_end|>",
        r"<\|tool_call_begin\|>\s*(?P<id>(?:functions\.)?(?P<name>[^<\s]{1,200}):\d+)\s*"
        r"<\|tool_call_argument_begin\|>(?P<body>.*?)<\|tool_call_end\|>",
    ),
    Form(  # MiniCPM
        ('<function name="', '<param name="'), ('<function name="',), "</function>",
        '<function name="NAME"><param name="KEY">VALUE</param></function>',
        r'<function name="(?P<name>[^"<]{1,200})">(?P<body>.*)',
        r'<param name="(?P<key>[^"]+)">(?:<!\[CDATA\[)?(?P<value>.*?)(?:\]\]>)?</param>',
    ),
    Form(  # Gemma
        ("<|tool_call>call:",), ("<|tool_call>",), "<tool_call|>",
        '<|tool_call>call:NAME{KEY:<|"|>VALUE<|"|>}<tool_call|>',
        r"call:(?P<name>[^{<]{1,200})(?P<notation>\{.*\})",
    ),
    Form(  # Mistral from Small 3.2 on
        ("[TOOL_CALLS]", "[ARGS]"), ("[TOOL_CALLS]",), "", "[TOOL_CALLS]NAME[ARGS]ARGUMENTS",
        r"\[TOOL_CALLS\](?P<name>[^\[{]{1,200})(?:\[CALL_ID\](?P<id>\w+))?\[ARGS\]"
        r"(?P<body>.*?)(?=\[TOOL_CALLS\]|\Z)",
    ),
    Form(
        ("[TOOL_CALLS]",), ("[TOOL_CALLS]",), "",
        '[TOOL_CALLS][{"name": "NAME", "arguments": ARGUMENTS}]',
    ),
    Form(  # Phi-4-mini
        ("<|tool_call|>", "<|/tool_call|>"), ("<|tool_call|>",), "<|/tool_call|>",
        '<|tool_call|>[{"name": "NAME", "arguments": ARGUMENTS}]<|/tool_call|>',
    ),
    Form(  # Granite
        ("<|tool_call|>",), ("<|tool_call|>",), "",
        '<|tool_call|>[{"name": "NAME", "arguments": ARGUMENTS}]',
    ),
    Form(  # Command R
        ("<|START_ACTION|>",), ("<|START_ACTION|>",), "<|END_ACTION|>",
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "NAME", "parameters": ARGUMENTS}]'
        "<|END_ACTION|>",
    ),
    Form(  # InternLM
        ("<|action_start|>", "<|plugin|>"), ("<|action_start|><|plugin|>",), "<|action_end|>",
        '<|action_start|><|plugin|>\n{"name": "NAME", "parameters": ARGUMENTS}<|action_end|>',
    ),
    Form(  # Hermes, Qwen
        ("<tool_call>",), *_TAGS,
        '<tool_call>\n{"name": "NAME", "arguments": ARGUMENTS}\n</tool_call>',
    ),
    Form(  # Functionary
        ("<function=",), ("<function=",), "</function>", "<function=NAME>ARGUMENTS</function>",
        r"<function=(?P<name>[^>{]{1,200})>(?P<body>.*)</function>",
    ),
    Form(  # gpt-oss; the end of a call is the answer's, so it has no place in the example
        ("<|channel|>", "<|call|>"), (" to=functions.", "<|channel|>", "<|start|>"), "",
        "<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>ARGUMENTS",
        ends=("<|end|>", "<|call|>", "<|return|>"),
    ),
    Form(  # Llama 3
        ('{"name": function name, "parameters"',), ("<|python_tag|>", "{"), "",
        '{"name": "NAME", "parameters": ARGUMENTS}',
        leads=True,
    ),
)  # fmt: skip
"""The more particular before those whose signs are among theirs."""


def form_of(template: str) -> Form | None:
    """Return the form that a chat template teaches; None where it is not known."""
    return next((form for form in FORMS if all(sign in template for sign in form.signs)), None)
