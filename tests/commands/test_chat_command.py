"""``mtkit chat`` and the streaming of ``mtkit generate`` on a real terminal, where words are not
cut at its edge, and in pipes.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from changed_models import changed
from llm_models import chatting, parrot, reciting, tiny
from rich.cells import cell_len
from support import Run, reference

from mtkit.commands.chat.screen import LineWrapper

SECONDS = 60


def terminal(tmp_path: Path, *args: object, columns: int = 80, **env: str) -> Any:
    """Start ``mtkit`` on a pseudo terminal."""
    pexpect = reference("pexpect")
    reference("llama_cpp")
    return pexpect.spawn(
        sys.executable,
        ["-m", "mtkit", *map(str, args)],
        cwd=str(tmp_path),
        dimensions=(24, columns),
        encoding="utf-8",
        timeout=SECONDS,
        env={
            **os.environ, "XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path),
            "TERM": "xterm", "INPUTRC": os.devnull, **env,
        },
    )  # fmt: skip


def ended(child: Any) -> int:
    import pexpect

    child.expect(pexpect.EOF)
    child.close()
    return int(child.exitstatus)


def test_the_banner_says_which_model_it_is(tmp_path: Path) -> None:
    """The one that ships is for demonstration; another is called by its name."""
    child = terminal(tmp_path, "chat", NO_COLOR="1")
    child.expect("mtkit's demonstration model: it shows how a chat works, but knows nothing.\r\n")
    child.expect("A real one: mtkit chat -m MODEL.gguf\r\n")
    child.expect(r"Ctrl-D leaves\r\n\x1b\[\?2004h> ")
    child.sendeof()
    model = changed(tiny(), tmp_path / "own.gguf", general__name="A \x1b[31mRed Model")
    child = terminal(tmp_path, "chat", "-m", model, "--template", _template(tmp_path), NO_COLOR="1")
    child.expect(r"A \\x1b\[31mRed Model · .* tokens of context · temperature 0.8\r\n")
    child.sendeof()


def _template(folder: Path) -> Path:
    path = folder / "template.jinja"
    path.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    return path


def test_a_conversation(tmp_path: Path) -> None:
    saved = tmp_path / "talk.json"
    child = terminal(tmp_path, "chat", "-m", chatting(), "-n", 5, "--system", "Be brief.")
    child.expect("/help lists")
    child.expect("> ")
    child.sendline("Hello 你好")
    child.expect("> ")
    child.sendline("one\\")
    child.expect("… ")
    child.sendline("two")
    child.expect("> ")
    child.sendline('"""first')
    child.expect("… ")
    child.sendline('last"""')
    child.expect("> ")
    child.send("\x1b[200~pasted\n\nlines\x1b[201~\r")
    child.expect("> ")
    child.sendline("/regen")
    child.expect("> ")
    child.sendline("/set temp 0.25")
    child.expect("temp 0.25, top-k 40")
    child.sendline("/set nothing 1")
    child.expect("there is no setting nothing; such as temp, top-k")
    child.sendline("/set temp hot")
    child.expect("'hot' is not a number")
    child.sendline("/set temp -1")
    child.expect("temp[^>]*-1")
    child.sendline("/timings")
    child.expect("timings are shown")
    child.sendline("/help")
    child.expect("/save FILE")
    child.sendline("/nothing")
    child.expect("there is no command /nothing")
    for line, shown in (
        ("/?", "/save FILE"),
        ("/set parameter temperature 0.5", "temp 0.5"),
        ("/set top_k 30", "top-k 30"),
        ("/show", "system message: Be brief."),
        ("/show info", "temperature 0"),
        ("/show system", "system message: Be brief."),
        ("/set verbose", "timings are hidden"),
    ):
        child.sendline(line)
        child.expect(shown)
    child.sendline(f"/save {saved}")
    child.expect("saved to")
    child.sendline("/reset")
    child.expect("forgotten, except the system message")
    child.sendline("/system")
    child.expect("system message: Be brief.")
    child.sendline("/system Be long.")
    child.expect("system message: Be long.")
    child.sendline(f"/load {saved}")
    child.expect("9 messages")
    child.sendline("/load nowhere")
    child.expect("nowhere: no such file[^>]*> ")
    child.sendline("/clear")
    child.expect("forgotten")
    child.sendline("/regen")
    child.expect("no message to answer again")
    child.sendline("/bye")
    assert ended(child) == 0
    messages = json.loads(saved.read_text())
    assert [m["role"] for m in messages] == ["system", *["user", "assistant"] * 4]
    said = [m["content"] for m in messages if m["role"] == "user"]
    assert said == ["Hello 你好", "one\ntwo", "first\nlast", "pasted\n\nlines"]
    history = (tmp_path / "mtkit" / "chat_history").read_text()
    assert "Hello" in history


@pytest.mark.parametrize("how", [("--no-history", {}), ("-q", {"MTKIT_NO_HISTORY": "1"})])
def test_lines_are_not_kept_where_that_is_not_wanted(
    tmp_path: Path, how: tuple[str, dict[str, str]]
) -> None:
    kept = tmp_path / "mtkit" / "chat_history"
    kept.parent.mkdir()
    kept.write_text("before\n")
    child = terminal(tmp_path, "chat", how[0], "-n", 3, NO_COLOR="1", **how[1])
    child.expect("> ")
    child.sendline("Hello")
    child.expect("> ")
    child.sendeof()
    assert ended(child) == 0
    assert kept.read_text() == "before\n"


def test_ctrl_c_stops_the_answer_alone(tmp_path: Path) -> None:
    # The default model repeats itself for as long as it may.
    child = terminal(tmp_path, "chat", "--ctx", 30000, "--temp", 0, NO_COLOR="1")
    child.expect("> ")
    child.sendline("How do I copy a file?")
    child.expect("device-device-device")
    child.sendintr()
    child.expect("stopped")
    child.expect("> ")
    child.sendintr()  # at the prompt: what was typed is dropped
    child.expect("> ")
    child.sendline("/quit")
    assert ended(child) == 0


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.02, 0.05, 0.1, 0.2])
def test_ctrl_c_right_after_the_first_message(tmp_path: Path, delay: float) -> None:
    """The template's first run takes a process and its imports; a stop during it counts."""
    # The answer must not end by itself before the stop: a fast machine writes it in 0.2 s.
    child = terminal(tmp_path, "chat", "--ctx", 30000, "--ignore-eos", NO_COLOR="1")
    child.expect("> ")
    child.sendline("How do I copy a file?")
    child.expect("file\\?\r\n")
    time.sleep(delay)
    child.sendintr()
    child.expect("interrupted|stopped", timeout=20)
    child.expect("> ")
    child.sendline("/quit")
    assert ended(child) == 0


def test_saving_asks_before_it_replaces_a_file(tmp_path: Path) -> None:
    saved = tmp_path / "talk.json"
    saved.write_text("mine")
    child = terminal(tmp_path, "chat", "-m", chatting(), "-n", 2, "--system", "x", NO_COLOR="1")
    child.expect("> ")
    for answer in ("", "n"):
        child.sendline(f"/save {saved}")
        child.expect(r"replace .*talk\.json\? \[y/N\] ")
        child.sendline(answer)
        child.expect("not saved")
        assert saved.read_text() == "mine"
    child.sendline(f"/save {saved}")
    child.expect(r"\[y/N\] ")
    child.sendline("y")
    child.expect("saved to")
    child.sendline(f"/save {saved}")  # its own by now
    child.expect("saved to[^>]*> ")  # the terminal drops an end that comes between two questions
    child.sendeof()
    assert ended(child) == 0
    assert json.loads(saved.read_text())[0]["content"] == "x"


@pytest.mark.parametrize("columns", [12, 80])
def test_characters_stream_whole(tmp_path: Path, columns: int) -> None:
    text = "Hi🙂語 ok"
    child = terminal(tmp_path, "generate", "", "-m", reciting(text), "-q", columns=columns)
    seen = ""
    import pexpect

    while True:
        try:
            seen += child.read_nonblocking(size=1, timeout=SECONDS)
        except pexpect.EOF:
            break
    child.close()
    assert child.exitstatus == 0
    assert seen.strip() == text
    assert "\ufffd" not in seen


def test_every_write_holds_whole_characters() -> None:
    """Each piece that comes through the pipe is UTF-8 by itself."""
    reference("llama_cpp")
    argv = [sys.executable, "-m", "mtkit", "generate", "", "-m", str(reciting("Hi🙂語 ok")), "-q"]
    read, write = os.pipe()
    child = subprocess.Popen(argv, stdout=write)
    os.close(write)
    pieces = []
    while piece := os.read(read, 1 << 16):
        pieces.append(piece.decode("utf-8"))
    os.close(read)
    assert child.wait(SECONDS) == 0
    assert "".join(pieces).strip() == "Hi🙂語 ok"


@pytest.mark.parametrize(("env", "bold"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_no_color(tmp_path: Path, env: dict[str, str], bold: bool) -> None:
    child = terminal(tmp_path, "chat", "-m", chatting(), "-n", 2, "-q", **env)
    child.expect("> ")
    child.sendline("/quit")
    start = child.before
    ended(child)
    assert ("\x1b[1m" in start) is bold


@pytest.mark.parametrize(("env", "dim"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_an_echoed_prompt_stands_out(tmp_path: Path, env: dict[str, str], dim: bool) -> None:
    child = terminal(
        tmp_path, "generate", "Hi", "-m", reciting(), "-n", 1, "--echo", "-q", "--no-special", **env
    )
    child.expect("Hi")
    child.expect("\n")
    text = child.before
    assert ended(child) == 0
    assert ("\x1b[0m" in text) is dim


def test_text_cannot_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    from mtkit.commands.generation import TextOutput

    family = "\U0001f468\u200d\U0001f469 \t语\n"  # a joiner is no danger
    monkeypatch.setenv("FORCE_COLOR", "always")
    out = TextOutput()
    out.write(f"{family}a\x1b[2J\u202e\r")
    out.flush()
    shown = capsysbinary.readouterr().out.decode()
    assert shown == f"{family}a\\x1b[2J\\u202e\\r"


def test_notes_break_between_words(tmp_path: Path) -> None:
    import pexpect

    narrow: dict[str, Any] = {"columns": 24, "COLUMNS": "24", "NO_COLOR": "1"}
    child = terminal(tmp_path, "chat", "-m", chatting(), **narrow)
    child.expect("> ")
    child.sendline("/help")
    child.expect("> ")
    help_lines = child.before.splitlines()
    child.sendeof()
    assert ended(child) == 0
    child = terminal(tmp_path, "generate", "Hi", "-m", tiny(), "-n", 1, **narrow)
    child.expect(pexpect.EOF)
    lines = [*help_lines, *child.before.splitlines()]
    assert [line for line in lines if len(line) > 24] == []
    assert "      system message;" in lines
    assert any(line.endswith("tokens/s") for line in lines)


def test_ctrl_c_ends_generate(tmp_path: Path) -> None:
    child = terminal(tmp_path, "generate", "Hello", "-m", tiny(), "-n", 100000, "--ignore-eos")
    time.sleep(2)
    child.sendintr()
    assert ended(child) == 130
    assert "Traceback" not in child.before


def test_ctrl_c_stops_inside_a_long_prompt(tmp_path: Path) -> None:
    """The prompt is one batch that takes long; only the abort callback can end it."""
    reference("llama_cpp")
    model = tiny(n_embd=512, n_layer=8, n_ff=2048)
    (tmp_path / "prompt").write_text("The quick brown fox. " * 12000)
    argv = [sys.executable, "-m", "mtkit", "generate", "-f", "prompt", "-m", str(model), "-n", "1",
            "--batch", "100000", "--ubatch", "4096", "-q"]  # fmt: skip
    child = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(4)
    assert child.poll() is None
    start = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=SECONDS)
    assert child.returncode == 130, err
    assert out == b""
    assert time.monotonic() - start < 3


def test_closed_pipe_is_quiet() -> None:
    reference("llama_cpp")
    argv = [sys.executable, "-m", "mtkit", "generate", "Hello", "-m", str(tiny()), "-n", "5000",
            "--ignore-eos", "-q"]  # fmt: skip
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout
    child.stdout.close()
    assert child.stderr
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait(SECONDS) == 0


THINKING = """
{%- for m in messages %}[{{ m.role }}]
{%- if m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}
{{- m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]
{%- if thinking is not false %}<think>{% endif %}{% endif %}"""


def test_reasoning_is_dim_and_not_part_of_the_answer(mtkit: Run, tmp_path: Path) -> None:
    template = tmp_path / "thinking.jinja"
    template.write_text(THINKING, encoding="utf-8")
    model, _ = parrot({"said": "Hm.</think>\n\nYes."})
    args = ["-m", model, "--template", template, "-n", "40"]
    made = mtkit("chat", "Really?", *args, "--json")
    message = json.loads(made.stdout)["message"]
    assert message["reasoning_content"] == "Hm."
    assert message["content"].strip() == "Yes."
    assert mtkit("chat", "Really?", *args).stdout.strip() == b"Yes."
    child = terminal(tmp_path, "chat", "Really?", *args)
    child.expect("\x1b\\[2mHm.\r\n\r\n\x1b\\[0mYes.\r\n")
    assert ended(child) == 0
    child = terminal(tmp_path, "chat", "Really?", *args, NO_COLOR="1")
    child.expect("Hm.\r\n\r\nYes.\r\n")
    assert ended(child) == 0
    plain = mtkit("chat", "Really?", *args, "--reasoning", "off", "--json")
    assert json.loads(plain.stdout)["message"]["content"].startswith("Hm.</think>")
    odd = mtkit("chat", "Really?", *args, "--reasoning", "maybe")
    assert odd.returncode == 2
    assert b"is not auto, on or off" in odd.stderr


def test_messages_through_a_pipe(mtkit: Run, tmp_path: Path) -> None:
    reference("llama_cpp")
    messages = [{"role": "user", "content": "Hello"}]
    path = chatting()
    options = ("chat", "-m", path, "-n", 6, "--threads", 1)
    done = mtkit(*options, stdin=json.dumps(messages).encode())
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    by_object = mtkit(*options, stdin=json.dumps({"messages": messages}).encode())
    by_text = mtkit(*options, stdin=b"Hello\n")
    by_argument = mtkit(*options, "Hello")
    assert done.stdout == by_object.stdout == by_text.stdout == by_argument.stdout
    made = json.loads(mtkit(*options, "--json", stdin=json.dumps(messages).encode()).stdout)
    assert made["message"] == {"role": "assistant", "content": done.stdout.decode()[:-1]}
    for bad in (b"[1]", b"{}", b"[", b"", b'[{"content": "x"}]'):
        done = mtkit(*options, stdin=bad)
        assert done.returncode == 2, (bad, done.stderr)
        assert done.stderr.count(b"\n") == 1
    none = mtkit("chat", "-m", tiny(), "Hello")
    assert none.returncode == 4
    assert b"has no chat template" in none.stderr
    (tmp_path / "own.jinja").write_text("{{ bos_token }}{{ messages[0].content }}")
    done = mtkit("chat", "-m", tiny(), "Hello", "--template", "own.jinja", "-n", 6, "--json")
    ids = json.loads(done.stdout)["ids"]
    plain = mtkit("generate", "Hello", "-m", tiny(), "-n", 6, "--json", "--ctx", 4096)
    assert ids == json.loads(plain.stdout)["ids"]


def test_a_talk_is_as_warm_as_the_model_says(mtkit: Run, tmp_path: Path) -> None:
    """0.8 where it says nothing; --temp counts more, and an answer in a pipe is greedy."""
    own = tmp_path / "own.gguf"
    assert mtkit("edit", chatting(), "--set", "general.sampling.temp=f32:0.5", "-o", own).stdout
    for model, more, expected in (
        (chatting(), (), "temperature 0.8"),
        (own, (), "temperature 0.5"),
        (own, ("--temp", 0), "temperature 0\r"),
    ):
        child = terminal(tmp_path, "chat", "-m", model, *more, NO_COLOR="1")
        child.expect(expected)
        child.sendeof()


def screen(written: str) -> list[str]:
    """Return the lines of a terminal: text, line breaks, and going back to erase."""
    lines = [""]
    for back, letter in re.findall(r"\x1b\[(\d+)D\x1b\[K|(.)", written, re.S):
        if back:
            lines[-1] = lines[-1][: -int(back)]
        elif letter == "\n":
            lines.append("")
        else:
            lines[-1] += letter
    return lines


@pytest.mark.parametrize("width", [8, 20, 33])
def test_lines_fit_and_words_are_whole(width: int) -> None:
    random.seed(width)
    words = ["".join(random.choices("abcxyz", k=random.randint(1, 6))) for _ in range(200)]
    text = " ".join(words)
    wrapping, written, at = LineWrapper(width), "", 0
    while at < len(text):
        step = random.randint(1, 9)
        written += wrapping.push(text[at : at + step])
        at += step
    lines = screen(written)
    assert max(map(cell_len, lines)) < width
    assert " ".join(lines).split() == words


def test_wide_characters_break_anywhere() -> None:
    lines = screen(LineWrapper(9).push("世界你好" * 4))
    assert "".join(lines) == "世界你好" * 4
    assert {cell_len(line) for line in lines} == {8}


def test_code_and_long_words_stay_as_they_are() -> None:
    code = "```\nint main(int argc, char **argv) { return 0; }\n```\n"
    assert LineWrapper(20).push(code) == code
    assert screen(LineWrapper(10).push("a" * 25)) == ["a" * 9, "a" * 9, "a" * 7]
    assert screen(LineWrapper(10).push("ab 12345678901234")) == ["ab ", "123456789", "01234"]
