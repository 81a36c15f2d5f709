"""Hostile answers under every published chat template: what they are read into, however they come.

An answer is drawn from signs of the template's form and of others', whole, cut or doubled, and from
values that are hard to read. It is read whole, letter by letter and in drawn pieces: the same parts
each time, without an error, and in time that grows with the answer. What is not is printed on one
line; exit status 1.

    python -m tools.fuzz_answers --count 20000 --seed 1 [--only NUMBER]
"""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from mtkit.chat.answer import calls_in, reasoning_in, text_in
from mtkit.chat.answer_analysis import find_form
from mtkit.chat.answer_reader import open_reader
from mtkit.chat.channels import SIGNS
from mtkit.chat.signs import EOS, ID, NUMBER

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

SECONDS = 10
LONG, LONGER, TIMES, LEAST = 2_000, 16_000, 24, 0.15
"""Letters of two answers of one kind; how much longer the second may take, from so many seconds."""
NAMES = ("get_weather", "f", "write", "a.b-c:d", "get_weathers", "no_tool", "\u00e9", "name")
KINDS = ("string", "integer", "number", "boolean", "array", "object", "null")
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "parameters": {
        "type": "object", "properties": {
            "city": {"type": "string"}, "n": {"type": ["integer", "null"]}, "o": {"type": "object"},
            "l": {"type": "array", "items": {"type": kind}}, "any": {}}}}}
    for name, kind in zip(NAMES[:4], KINDS, strict=False)
]  # fmt: skip
VALUES = (
    '"Oslo"', "3", "-0", "1e999", "NaN", "-Infinity", "9" * 5000, "true", "None", "null", "[]",
    '{"a": {"b": [1, {"c": null}]}}', '"\\ud800"', '"\\u00zz"', '"\\', "'it\\'s'", '"a\nb"',
    "[" * 400, '{"a":' * 400, "(1, 2)", "0x1F", "1_000", "{'a': 1, 'a': 2}", '"}{"', "b'x'", "...",
    "-" * 300, "\u0661", '"</tool_call>"', '"<|end|>"', '"\\"}"',
)  # fmt: skip
TEXTS = (
    " ", "\n", "\n\n", "x", "Hi there. ", "\u4f60\u597d", "\U0001f600", "e\u0301", "\ufffd", "\0",
    "\r\n", "\x1b[2J", "\u2028", "<", ">", "{", "}", "[", "]", '"', "'", "`", "```", "```json\n",
    "|", "\\", ":", ",", "&lt;", "<b>", "</b>", "<think>", "</think>", "<tool_call>",
    "[TOOL_CALLS]",
    "\xa0", "\u200b", "\ue000", "\ue001", "\ue003", "\ue004", " " * 300, "\t" * 90, "#", "<|",
    "|>", "<\uff5c", "functions.", " to=functions.f", "name", "arguments", "parameters",
)  # fmt: skip


def answer(rng: Random, form: Any, foreign: list[str]) -> str:
    """Draw an answer."""
    own = [sign for sign in form.signs if sign] or list(SIGNS)
    own += [form.header, form.ending.text, *(SIGNS if form.channels else ())]
    pieces = [_piece(rng, own, foreign, form) for _ in range(rng.choice((1, 2, 4, 8, 16, 40)))]
    if rng.random() < 0.2:  # the same again and again
        at, end = sorted(rng.randrange(len(pieces) + 1) for _ in range(2))
        pieces[at:end] = pieces[at:end] * rng.choice((2, 3, 50))
    text = "".join(pieces)[:20_000]
    if text and rng.random() < 0.2:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(("", text[at + 1 :], text[at:][::-1], text[at:] * 2))
    return text[:20_000]


def _piece(rng: Random, own: list[str], foreign: list[str], form: Any) -> str:
    drawn = rng.random()
    if drawn < 0.35:
        return _filled(rng, rng.choice(own))
    if drawn < 0.45:
        sign = _filled(rng, rng.choice((own, foreign)[drawn < 0.4]))
        cut = rng.randrange(len(sign) + 1)
        return rng.choice(
            (sign[:cut], sign[cut:], sign.upper(), sign.replace(" ", "\n"), f" {sign}")
        )
    if drawn < 0.6:
        return _call(rng, form)
    if drawn < 0.65:
        return _filled(rng, rng.choice(foreign))
    return rng.choice(VALUES if drawn < 0.72 else TEXTS)


def _filled(rng: Random, sign: str) -> str:
    for hole, values in ((ID, ("call_1", "", "x" * 300)), (NUMBER, ("0", "7", "9" * 300))):
        sign = sign.replace(hole, rng.choice(values))
    return sign.replace("\ue002", rng.choice(NAMES)).replace("\ue003", "city").replace(EOS, "</s>")


def _call(rng: Random, form: Any) -> str:
    """Draw a call: in the template's own form, or as an object, right or nearly so."""
    keys = rng.choices(
        ("city", "n", "o", "l", "any", "city", "\u00e9", "", "a b"), k=rng.randrange(4)
    )
    arguments = ", ".join(f'"{key}": {rng.choice(VALUES)}' for key in keys)
    arguments = rng.choice((f"{{{arguments}}}", arguments, f'"{{{arguments}}}"', "{}", "null"))
    name = rng.choice(NAMES)
    if form.calls is not None and form.calls.sample is not None and rng.random() < 0.6:
        before, after = (_filled(rng, text) for text in form.calls.sample)
        return before + arguments + rng.choice((after, after, ""))
    key = rng.choice(("arguments", "parameters", "args", "name"))
    text = rng.choice((f'{{"name": "{name}", "{key}": {arguments}}}',
                       f'{{"{key}": {arguments}, "name": "{name}"}}',
                       f'{{"{name}": {arguments}}}', f"{name}({arguments})"))  # fmt: skip
    return rng.choice(
        (text, text, f"[{text}]", text[: rng.randrange(len(text))], f"{text}, {text}")
    )


def parts_of(form: Any, pieces: list[str], cut: bool, **options: Any) -> Any:
    """Return reasoning, text and calls of an answer that comes in pieces."""
    reader = open_reader(form, **options)
    parts: list[Any] = []
    for piece in pieces:
        parts += reader.push(piece)
    parts += reader.finish(is_cut=cut)
    assert all(parts), "a part of nothing"
    calls = calls_in(parts)
    json.dumps([vars(call) if hasattr(call, "__dict__") else str(call) for call in calls])
    return reasoning_in(parts), text_in(parts), [(call.name, call.arguments) for call in calls]


def attempt(form: Any, text: str, rng: Random, **options: Any) -> str:
    """Read an answer in three ways; return what is wrong."""
    cuts = sorted(rng.randrange(len(text) + 1) for _ in range(rng.choice((1, 3, 30))))
    drawn = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole = parts_of(form, [text], **options)
    for how, pieces in (("letters", list(text)), ("pieces", drawn)):
        found = parts_of(form, pieces, **options)
        if found != whole:
            place = next(n for n in range(3) if found[n] != whole[n])
            kind = ("reasoning", "text", "calls")[place]
            return f"{how}: {kind} {_difference(repr(found[place]), repr(whole[place]))}"
    return ""


def _difference(text: str, other: str) -> str:
    """Return two texts from shortly before where they differ."""
    at = next((n for n, pair in enumerate(zip(text, other, strict=False)) if pair[0] != pair[1]), 0)
    at = max(at - 40, 0)
    return f"…{text[at:][:160]} not …{other[at:][:160]}"


def growth(form: Any, text: str, **options: Any) -> str:
    """Read an answer that repeats a text, twice; return what is wrong."""
    took = []
    for size in (LONG, LONGER):
        long = (text * size)[:size]
        began = time.process_time()
        parts_of(form, [long[at : at + 4] for at in range(0, size, 4)], **options)
        took.append(time.process_time() - began)
    slow = took[1] > LEAST and took[1] > TIMES * took[0]
    return f"time: {took[0]:.3f} s for {LONG} letters, {took[1]:.3f} for {LONGER}" if slow else ""


def main() -> int:
    """Draw, read and print; 1 where something was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="number of one answer")
    asked = parser.parse_args()
    templates = importlib.import_module("published_templates").templates()
    forms = {name: find_form(text, EOS) for name, text in sorted(templates.items())}
    foreign = sorted({sign for form in forms.values() for sign in form.signs if sign})
    signal.signal(signal.SIGPROF, _too_long)
    found: Counter[str] = Counter()
    numbers = range(asked.count) if asked.only is None else (asked.only,)
    for number in numbers:
        rng = Random(f"{asked.seed} {number}")
        name = rng.choice(list(forms))
        form = forms[name]
        opening = form.thinking.text if form.thinking is not None else ""
        options: dict[str, Any] = {
            "tools": rng.choice((TOOLS, TOOLS, TOOLS[:1], [], None)),
            "prompt": rng.choice((form.header, form.header + opening, form.opening, "", "x")),
            "several": rng.random() < 0.8, "calls": rng.random() < 0.9,
            "reasoning": rng.random() < 0.8, "cut": rng.random() < 0.3,
        }  # fmt: skip
        text = answer(rng, form, foreign)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            wrong = attempt(form, text, rng, **options)
            if not wrong and text and number % 8 == 0:
                wrong = growth(form, text[: rng.choice((1, 2, 5, 20, 200, 1000))], **options)
        except Exception as error:  # noqa: BLE001  that is what is looked for
            place = traceback.extract_tb(error.__traceback__)[-1]
            wrong = f"{type(error).__name__} {Path(place.filename).name}:{place.lineno}: {error}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if wrong:
            found[wrong.partition(":")[0]] += 1
            shown = {key: value for key, value in options.items() if key != "tools"}
            sys.stdout.write(f"--seed {asked.seed} --only {number}: {name}: {wrong[:700]}\n")
            sys.stdout.write(f"    {text[:400]!r} {shown} {len(options['tools'] or ())} tools\n")
            sys.stdout.flush()
        if number % 100 == 0:
            sys.stderr.write(f"\r{number} answers, {found.total()} findings ")
    sys.stdout.write(f"{len(numbers)} answers on {len(forms)} templates: {dict(found)}\n")
    return int(found.total() > 0)


def _too_long(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


if __name__ == "__main__":
    sys.exit(main())
