"""``mtkit template`` prints what the library renders, and says plainly what it cannot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

TOKENIZER = FIXTURES / "bbpe-8k" / "tokenizer.json"
PROMPT = "<|im_start|>user\nhé<|im_end|>\n<|im_start|>assistant\n"


def test_a_pipe_gets_the_text_as_it_is(mtkit: Run, tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "hé"}]
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(chat), encoding="utf-8")
    for args in (["--messages", file], ["--user", "hé"], ["--messages", "-"]):
        made = mtkit("template", TOKENIZER, *args, stdin=json.dumps({"messages": chat}).encode())
        assert (made.returncode, made.stderr) == (0, b"")
        assert made.stdout.decode() == PROMPT
    made = mtkit("template", TOKENIZER.parent, "--user", "hé", "--no-generation-prompt")
    assert made.stdout.decode() == PROMPT.removesuffix("<|im_start|>assistant\n")


def test_json_has_text_and_ids(mtkit: Run) -> None:
    made = mtkit("template", TOKENIZER, "--user", "hé", "--ids", "--json")
    document = json.loads(made.stdout)
    assert document["schema"] == "mtkit.template/1"
    assert document["text"] == PROMPT
    plain = mtkit("template", TOKENIZER, "--user", "hé", "--ids").stdout.split()
    assert list(map(int, plain)) == document["ids"]
    assert document["ids"][0] == 8190


def test_a_template_by_itself(mtkit: Run, tmp_path: Path) -> None:
    file = tmp_path / "own.jinja"
    file.write_text(
        "{% generation %}{{ messages[-1].content }}{% endgeneration %}"
        "{{ tools | tojson }}{{ documents }}{{ mood }}{{ n + 1 }}{{ think is false }}"
        "{{ strftime_now('%Y %H') }}",
        encoding="utf-8",
    )
    tools = tmp_path / "tools.json"
    tools.write_text('[{"name": "f"}]', encoding="utf-8")
    more = (
        "--set",
        "mood=calm",
        "--set",
        "n=4",
        "--set",
        "think=False",
        "--now",
        "2024-07-26T13:45",
        "--tools",
        tools,
    )
    made = mtkit("template", file, "--user", "x", *more, "--json")
    document = json.loads(made.stdout)
    assert document["text"] == 'x[{"name": "f"}]Nonecalm5True2024 13'
    assert document["generation"] == [[0, 1]]


def test_failures_are_one_line(mtkit: Run, tmp_path: Path) -> None:
    refusing = tmp_path / "no.jinja"
    refusing.write_text("{{ raise_exception('Only one user!') }}", encoding="utf-8")
    broken = tmp_path / "broken.jinja"
    broken.write_text("{% if %}", encoding="utf-8")
    endless = tmp_path / "endless.jinja"
    endless.write_text("{{ 'x' * 10**12 }}", encoding="utf-8")
    bad = tmp_path / "bad.json"
    bad.write_text("[", encoding="utf-8")
    cases = [
        (("template", refusing, "--user", "x"), 2, b"Only one user!"),
        (("template", broken, "--user", "x"), 3, b"line 1"),
        (("template", endless, "--user", "x"), 5, b"memory"),
        (("template", TOKENIZER), 2, b"no messages"),
        (("template", TOKENIZER, "--messages", bad), 3, b"bad.json"),
        (("template", TOKENIZER, "--user", "x", "--name", "rag"), 2, b"default"),
        (("template", refusing, "--user", "x", "--set", "9"), 2, b"NAME=VALUE"),
        (("template", FIXTURES / "wordpiece" / "tokenizer.json", "--user", "x"), 4, b"no chat"),
    ]
    for args, code, word in cases:
        made = mtkit(*args)
        assert made.returncode == code, made.stderr
        assert made.stdout == b""
        assert word in made.stderr
        assert made.stderr.count(b"\n") == 1


def test_without_a_file_it_is_the_default_models(mtkit: Run) -> None:
    assert "hi there" in mtkit("template", "--user", "hi there").stdout.decode()


def test_what_a_model_wrote_is_taken_apart(mtkit: Run, tmp_path: Path) -> None:
    file, tools = tmp_path / "own.jinja", tmp_path / "tools.json"
    file.write_text(
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}"
        "<do {{ c.function.name }}>{{ c.function.arguments | tojson }}</do>{% endfor %}[end]"
        "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}",
        encoding="utf-8",
    )
    function = {"name": "look", "parameters": {"type": "object"}}
    tools.write_text(json.dumps([{"type": "function", "function": function}]), encoding="utf-8")
    said = b'I look.<do look>{"at": [1, "<do x>"]}</do>[end]'
    made = mtkit("template", file, "--parse", "-", "--tools", tools, "--user", "hi", stdin=said)
    assert (made.returncode, made.stderr) == (0, b"")
    document = json.loads(made.stdout)
    (call,) = document.pop("tool_calls")
    assert document == {
        "schema": "mtkit.answer/1", "content": "I look.", "reasoning_content": None,
    }  # fmt: skip
    assert call["function"]["name"] == "look"
    assert json.loads(call["function"]["arguments"]) == {"at": [1, "<do x>"]}
    plain = mtkit("template", TOKENIZER, "--parse", "-", stdin=b"Hello<|im_end|>\n")
    assert json.loads(plain.stdout)["content"] == "Hello"
    for odd in ('{"a": 1}', "[1]", "[null]", "[[]]", '"a"', "1"):
        tools.write_text(odd, encoding="utf-8")
        for what in (file, TOKENIZER):
            made = mtkit("template", what, "--parse", "-", "--tools", tools, stdin=said)
            assert made.returncode == 2, made.stderr
            assert b"tools: is not a list of objects" in made.stderr


def test_what_means_nothing_where_an_answer_is_taken_apart(mtkit: Run, tmp_path: Path) -> None:
    documents = tmp_path / "documents.json"
    documents.write_text("[]")
    given = ("template", TOKENIZER, "--parse", "-")
    said = b"Hello<|im_end|>"
    for options, hint in (
        (("--ids",), b"--ids cannot be combined with --parse"),
        (("--documents", documents), b"--documents needs the messages that the model saw"),
        (("--set", "a=1"), b"--set needs the messages that the model saw"),
    ):
        done = mtkit(*given, *options, stdin=said)
        assert done.returncode == 2
        assert hint in done.stderr
    assert mtkit(*given, "--set", "a=1", "--user", "hi", stdin=said).returncode == 0
