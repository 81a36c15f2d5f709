"""Chat templates that want too much time or memory, or out of their sandbox: drawn from families.

``drawn`` gives some of each family, ``attempt`` renders one. Drawn are the step that costs
(data/hostile_expressions.txt), how much of it there is, and the loop, macro or block around it.
"""

from __future__ import annotations

import random
import re
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TESTS = Path(__file__).parents[1]
MESSAGES = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "hello there"},
    {"role": "assistant", "content": "yes, and"},
]
CANARY = "canary-6f1d0c"
"""Stands in the environment of whoever renders."""
ESCAPED = re.compile(
    rf"{CANARY}|root:.*:0:|uid=\d|<class '(type|object|os|subprocess)|<module |<frame |<code "
    r"|'__builtins__'|<built-in function (open|eval|exec|__import__)"
)
MARKED = re.compile("[BCDFGHJK]{3}|[LMNPQRST]{3}")
"""Letters of ``chat_continuation``; what the templates write themselves is in lower case."""


class Hostile(NamedTuple):
    """A template and where it comes from."""

    family: str
    text: str


def drawn(seed: int, count: int) -> Iterator[Hostile]:
    """Draw templates, the families by turns."""
    chance = random.Random(seed)
    names = list(FAMILIES)
    for number in range(count):
        name = names[number % len(names)]
        yield Hostile(name, FAMILIES[name](chance))


def _expressions() -> dict[str, list[str]]:
    """Return the expressions of each family."""
    found: dict[str, list[str]] = {}
    for line in (TESTS / "data" / "hostile_expressions.txt").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            family, expression = line.split("\t")
            found.setdefault(family, []).append(expression)
    return found


EXPRESSIONS = _expressions()
DRAWN = re.compile("LIST|TEXT|NUMBER")


def _costly(family: str, chance: random.Random) -> str:
    """Put an expression of a family somewhere, its numbers, lists and texts drawn."""
    expression = chance.choice(EXPRESSIONS[family])
    while DRAWN.search(expression):
        expression = DRAWN.sub(lambda what: chance.choice(EXPRESSIONS[what[0]]), expression)
    return _around(chance, expression)


def _around(chance: random.Random, expression: str) -> str:
    """Put an expression where a template may have one."""
    shown = f"{{{{ {expression} }}}}"
    counted = f"{{% set x = {expression} %}}"
    loop = "{% for a in range(99999) %}"
    end = "{% endfor %}"
    return chance.choice(
        (
            shown, f"{{{{ ({expression}) | string | length }}}}", f"{loop}{counted}{end}",
            f"{loop}{loop}{counted}{end}{end}", f"{loop}{shown}{end}",
            f"{{% macro f(n) %}}{shown}{{{{ f(n + 1) }}}}{{% endmacro %}}{{{{ f(0) }}}}",
            f"{{% generation %}}{shown}{{% endgeneration %}}",
            f"{{% if {expression} %}}a{{% endif %}}",
            f"{{% filter upper %}}{shown}{{% endfilter %}}",
            f"{{% call(x) dict.fromkeys([1]) %}}{shown}{{% endcall %}}",
            f"{{% set x %}}{shown}{shown}{{% endset %}}{{{{ x ~ x }}}}",
        )
    )  # fmt: skip


def _growth(chance: random.Random) -> str:
    """Double, or more, in each turn of a loop."""
    start, step = chance.choice(EXPRESSIONS["GROWTH"]).split(" => ")
    end = chance.choice(
        ("", "{{ n.x }}", "{{ n.x | string }}", "{{ n.x | tojson }}", "{{ n.x == n.y }}",
         "{{ n.x | pprint }}", "{{ n.x | length }}", "{{ n.x in [n.y] }}", "{{ n.x < n.y }}")
    )  # fmt: skip
    many = chance.choice((24, 30, 60, 99, 9999))
    return (
        f"{{% set n = namespace(x={start}, y={start}) %}}{{% for i in range({many}) %}}"
        f"{{% set n.x = {step} %}}{{% set n.y = {step.replace('n.x', 'n.y')} %}}{{% endfor %}}{end}"
    )


def _deep(chance: random.Random) -> str:
    """Nest expressions or blocks, or write them one behind the other."""
    count = chance.choice((99, 500, 5000, 50_000))
    before, middle, behind = chance.choice(
        (
            ("(", "1", ")"), ("[", "1", "]"), ("{1:", "1", "}"), ("not ", "1", ""), ("-", "1", ""),
            ("1 + ", "1", ""), ("1 ** ", "1", ""), ("1 ~ ", "1", ""), ("'a' in ", "'a'", ""),
            ("1 if 1 else ", "1", ""), ("", "messages", "[0]"), ("", "messages", ".a"),
            ("", "'a'", " | upper"), ("", "1", " is defined"), ("dict(a=", "1", ")"),
            ("1 < ", "1", ""),
        )
    )  # fmt: skip
    block = chance.choice(
        ("", "{% if 1 %}x{% endif %}", "{% for a in [1] %}x{% endfor %}",
         "{% set a %}x{% endset %}", "{% macro f() %}x{% endmacro %}",
         "{% filter upper %}x{% endfilter %}")
    )  # fmt: skip
    if block:
        start, end = block.split("x")
        return start * count + "x" + end * count
    return "{{ " + before * count + middle + behind * count + " }}"


def _literal(chance: random.Random) -> str:
    """Write very much down."""
    count = chance.choice((10_000, 100_000, 1_000_000))
    return chance.choice(
        (
            "x" * (count * 20), f"{{{{ '{'x' * count * 10}' }}}}", f"{{{{ {'9' * count} }}}}",
            f"{{{{ 1e{'9' * min(count, 9999)} }}}}", "{{ [" + "1," * (count // 10) + "] }}",
            "{{ {" + ",".join(f"'a{i}': 1" for i in range(count // 100)) + "} }}",
            "{{ 1 }}" * (count // 20), "{# " + "x" * count + " #}", "{{ " + "a" * count + " }}",
            "{% set a = 1 %}" * (count // 40), "{{" * (count // 10),
            "{% raw %}" + "{{" * count + "{% endraw %}",
        )
    )  # fmt: skip


def _escape(chance: random.Random) -> str:
    """Walk along attributes to what holds the interpreter."""
    made = chance.choice(EXPRESSIONS["ROOT"])
    for name in chance.choices(EXPRESSIONS["NAME"], k=chance.randrange(1, 6)):
        spelled = f"'{name}'"
        if chance.random() < 0.3:
            spelled = "'" + "' ~ '".join(name) + "'"
        made = chance.choice(
            (
                f"({made}).{name}", f"({made})[{spelled}]", f"(({made}) | attr({spelled}))",
                f"(([{made}] | map(attribute={spelled})) | first)",
                f"'{{0.{name}}}'.format({made})", f"'{{a.{name}}}'.format_map({{'a': {made}}})",
                f"('{{0.{name}}}' | format({made}))", f"(([{made}] | groupby({spelled})) | first)",
                f"(([{made}] | sort(attribute={spelled})) | first)", f"({made})()",
            )
        )  # fmt: skip
    tail = chance.choice(
        (
            "", "", ".__globals__", "['os'].environ", "('id').read()",
            "['open']('/etc/passwd').read()",
        )
    )  # fmt: skip
    start = chance.choice(
        ("", "{% for loop_ in [1] %}{% endfor %}", "{% macro f() %}{{ varargs }}{% endmacro %}",
         "{% set n = namespace() %}{% set n.__class__ = 1 %}",
         "{% set n = namespace(_x=1) %}", "{% do messages.append(1) %}",
         "{% set x = messages.append({}) %}", "{% set x = messages[0].update(a=1) %}")
    )  # fmt: skip
    return f"{start}{{{{ {made}{tail} }}}}"


def _mark(chance: random.Random) -> str:
    """Take a message apart that is continued, or write what looks like an answer."""
    part = chance.choice(
        ("m.content", "m.content[:N]", "m.content[-N:]", "m.content | list", "m | tojson",
         "m.content | upper", "m.content | reverse", "m.content | trim", "m.content ~ m.content",
         "m.content.split() | last", "m.content | truncate(20, true, '')", "m.content[::2]",
         "m.content | batch(3) | list", "m.content.split('B')", "m.content | replace('L', '')",
         "m.content | length", "'%.20s' % m.content", "m.content | urlencode", "m.content | sort")
    )  # fmt: skip
    part = part.replace("N", str(chance.randrange(1, 40)))
    forged = chance.choice(("", "{{ 'd\\x05\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0hello' }}"))
    rest = chance.choice(("", "{{ m.content }}", "{{ m.content | trim }}", "<e>{{ m.content }}<e>"))
    return f"{forged}{{% for m in messages %}}<{{{{ {part} }}}}>{rest}{{% endfor %}}"


def _macro(chance: random.Random) -> str:
    """Let a macro call itself."""
    call = chance.choice(
        ("f(n)", "f(n) ~ f(n)", "f(f(n))", "[f(n), f(n)]", "f(n * n)", "f(n ~ n)", "f([n, n])",
         "caller() ~ f(n)", "f(varargs)", "f(n=f)", "f(n) if n else f(1)")
    )  # fmt: skip
    use = chance.choice(
        ("{{ f(3) }}", "{% call f(3) %}{{ f(3) }}{% endcall %}", "{{ f('a' * 999) }}")
    )
    return f"{{% macro f(n) %}}{{{{ {call} }}}}{{% endmacro %}}{use}"


def _include(chance: random.Random) -> str:
    """Ask for other templates, modules or files."""
    what = chance.choice(
        ("'/etc/passwd'", "'os'", "self", "messages", "['a', '../../etc/passwd']", "lipsum()",
         "raise_exception", "messages[0].content", "none", "'http://127.0.0.1/'")
    )  # fmt: skip
    how = chance.choice(
        ("{% include W %}", "{% include W ignore missing %}", "{% extends W %}",
         "{% import W as a %}{{ a.environ }}", "{% from W import system %}{{ system('id') }}",
         "{% include W with context %}", "{% block a %}{{ self.a() }}{{ super() }}{% endblock %}")
    )  # fmt: skip
    return how.replace("W", what)


def _generations(chance: random.Random) -> str:
    """Mark very many parts as generated."""
    inner = chance.choice(("", "x", "{{ a }}", "{% generation %}y{% endgeneration %}"))
    part = f"{{% generation %}}{inner}{{% endgeneration %}}"
    loop = "{% for a in range(99999) %}"
    return f"{loop}{loop}{part}{{% endfor %}}{{% endfor %}}"


FAMILIES: dict[str, Callable[[random.Random], str]] = {
    **{name: partial(_costly, name) for name in EXPRESSIONS if not name.isupper()},
    "growth": _growth, "macros": _macro, "deep": _deep, "literal": _literal, "include": _include,
    "escape": _escape, "generations": _generations, "mark": _mark,
}  # fmt: skip


def attempt(hostile: Hostile, seconds: float, memory: int) -> tuple[str, float]:
    """Render; return what speaks against the outcome, or nothing, and the time that it took."""
    from mtkit.chat.template import render
    from mtkit.errors import MtkitError

    began, text = time.monotonic(), ""
    continued = hostile.family == "mark"
    try:
        text = render(
            hostile.text, MESSAGES, continue_final_message=continued, seconds=seconds, memory=memory
        ).text
    except MtkitError as error:
        said = str(error)
        found = re.search(f"broke out|its process .exit|{CANARY}|root:.*:0:|uid=", said)
        return said if found else "", time.monotonic() - began
    except Exception as error:  # noqa: BLE001  what the test is about
        return f"{type(error).__name__}: {error}", time.monotonic() - began
    found = ESCAPED.search(text) or (MARKED.search(text) if continued else None)
    return f"wrote {found[0]}" if found else "", time.monotonic() - began


def peak() -> int:
    """Bytes that this process and the largest of its ended children have held at most.

    Linux counts what a process held before it became another program: for one that was started by
    a large process ``ru_maxrss`` begins with what that one held. /proc tells them apart.
    """
    import resource

    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    status = Path("/proc/self/status")
    if status.exists():
        return (children + int(status.read_text().split("VmHWM:")[1].split()[0])) * 1024
    return (children + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024
