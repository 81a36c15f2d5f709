"""What people type who come from llama.cpp, Ollama and LM Studio: it works, or the answer runs.

The options are those of llama.cpp's common/arg.cpp for llama-cli, llama-completion and
llama-server.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from shlex import split
from typing import Any

import pytest
from support import Run, llama_cpp_for, one_line

from mtkit.cli import COMMANDS, main
from mtkit.commands import load_command
from mtkit.commands.command import Command
from mtkit.commands.habits import _HABITS, _WITHOUT_EFFECT
from mtkit.commands.help import _ELSEWHERE, _NEEDS, _RUNS, _SHOWS, _WORDS

RUNS = ("generate", "chat", "serve")
SHORT = """
-a -b -bf -bs -c -C -Cb -cb -cl -cmoe -cms -cnv -co -cram -Cr -Crb -ctk -ctv -ctxcp -dev -dr -dt -e
-f -fa -fit -fitc -fitt -gan -gaw -hf -hff -hfr -hft -i -if -j -jf -kvo -kvu -l -lcd -lcs -lm -lv
-m -md -mg -mli -mm -mmu -mu -n -ncffn -ncmoe -ngl -nkvo -no-cnv -no-kvu -nocb -nr -np -o -ot -p
-ptc -r -rea -s -sm -sp -sps -st -sys -sysf -t -tb -tbd -td -to -ts -ub -v -ctkd -ctvd -devd -hfd
-ngld -otd -cmoed -ncmoed
"""


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return what reads a line: the values of its options, or the error."""
    seen: dict[str, Any] = {}

    def call(self: Command, values: dict[str, Any], on_line: Any) -> int:
        seen.clear()
        seen.update({name: values[name] for name in on_line})
        return 0

    monkeypatch.setattr(Command, "call", call)

    def read_words(*words: str) -> dict[str, Any] | str:
        seen.clear()
        code = main([*words])
        printed, error = capsys.readouterr()
        assert not printed, words  # the help, for instance
        assert (code == 0) != bool(error), words
        return dict(seen) if code == 0 else error

    return read_words


def spellings(command: str) -> set[str]:
    parts = load_command(COMMANDS[command][0]).parameters()
    return {name for part in parts for name, _ in part.spellings()}


@pytest.mark.parametrize("command", RUNS)
@pytest.mark.parametrize("value", [[], ["1"], ["q8_0"], ["-p"]])
def test_a_short_option_is_read_as_such(command: str, value: list[str], read: Any) -> None:
    """It is an option here, or its name is in the error; never one letter with a value."""
    parts = load_command(COMMANDS[command][0]).parameters()
    own = {name: part.name for part in parts for name, _ in part.spellings()}
    for option in SHORT.split():
        result = read(command, option, *value)
        if option in own:
            assert isinstance(result, str) or own[option] in result, option
        elif option not in _WITHOUT_EFFECT[command]:
            known = option in ("-ctk", "-ctv") and "kv_type" in result
            assert known or re.search(rf"(?<![\w-]){option}(?![\w-])", str(result)), result


@pytest.mark.parametrize("seed", range(6))
def test_values_may_be_glued(seed: int, read: Any) -> None:
    draw = random.Random(seed)
    options = {"-c": "n_ctx", "-n": "n_predict", "-ngl": "gpu_layers", "-t": "threads",
               "-b": "n_batch", "-ub": "n_ubatch", "-s": "seed"}  # fmt: skip
    for command in RUNS:
        for option, name in options.items():
            number = draw.randrange(1, 500)
            expected = {name: number}
            for words in ([option, f"{number}"], [f"{option}{number}"], [f"{option}={number}"]):
                assert read(command, *words) == expected, words


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-ngl all", {"gpu_layers": -1}),
        ("-ngl auto", {"gpu_layers": -1}),
        ("-ngl -1", {"gpu_layers": -1}),
        ("-fa", {"flash_attention": "on"}),
        ("-fa -n 5", {"flash_attention": "on", "n_predict": 5}),
        ("-fa 0", {"flash_attention": "off"}),
        ("--flash-attn=1", {"flash_attention": "on"}),
        ("-fa auto", {"flash_attention": "auto"}),
        ("-ctk q8_0 -ctv q8_0", {"kv_type": "q8_0"}),
        ("--cache-type-v bf16 --cache-type-k=bf16", {"kv_type": "bf16"}),
        ("--mlock --no-mmap --no-warmup", {"mlock": True, "mmap": False}),
        ("--jinja -n 3", {"n_predict": 3}),
        ("--spec-draft-n-max 3 -md d.gguf", {"draft_max": 3, "draft": "d.gguf"}),
        ("-dt 0.1 -n 3", {"n_predict": 3}),
        ("--no-mmproj -n 3", {"mmproj": "none", "n_predict": 3}),
    ],
)
def test_llama_cpp_s_values(line: str, expected: dict[str, Any], read: Any) -> None:
    for command in RUNS:
        assert read(command, *line.split()) == expected


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("chat -ctk q8_0", "--kv-type q8_0 sets keys and values"),
        ("serve -ctk q8_0 -ctv q4_0", "-ctk and -ctv differ"),
        ("chat -ctx 5", "no such option: -ctx"),
        ("generate -hfx a", "no such option: -hfx"),
        ("generate -cnv", "mtkit chat -m MODEL.gguf"),
        ("chat -no-cnv", "mtkit generate continues a text"),
        ("chat -mg 0", "--device NAME"),
        ("serve --mmproj-url x", "--mmproj FILE.gguf"),
        ("chat --video x", "no videos"),
        ("serve --slots --port 0", "--slots N is how many answers"),
        ("serve --models-dir x", "-m NAME=FILE"),
        ("generate -n -p x", "-n requires a value"),
        ("chat --format json", "--json-schema"),
        ("chat --think", "--reasoning on|off"),
        ("chat --keepalive 5m", "mtkit serve"),
        ("serve --gpu max", "-ngl all"),
        ("serve --ttl 60", "--sleep-idle-seconds"),
        ("bench -m x.gguf -r 3", "--rounds N"),
        ("bench -m x.gguf -pg 16,4", "-p and -n"),
        ("generate --jinj", "no such option: --jinj"),
    ],
)
def test_the_answer_says_what_does_it(line: str, what: str, read: Any) -> None:
    assert what in read(*line.split())


def test_texts_are_left_alone(read: Any) -> None:
    assert read("generate", "-p", "-n") == {"prompt": "-n"}
    assert read("generate", "--", "-ctk") == {"text": "-ctk"}
    assert read("generate", "-mfile.gguf", "x") == {"model": "file.gguf", "text": "x"}
    assert read("generate", "-qv", "x") == {"quiet": True, "verbose": True, "text": "x"}
    assert read("generate", "-5") != {}


@pytest.mark.parametrize("command", RUNS)
def test_what_the_table_names_exists(command: str) -> None:
    """Of the tables: no option is here, and what an answer names is one of this or that command."""
    own = spellings(command)
    assert not own & {*_HABITS[command]} - {"--slots"}
    assert not own & {*_WITHOUT_EFFECT[command]}
    assert not {*_HABITS[command]} & {*_WITHOUT_EFFECT[command]}
    for advice in _HABITS[command].values():
        named = re.findall(r"mtkit ([a-z]+)", advice)
        known = own.union(*(spellings(word) for word in named if word in COMMANDS))
        options = re.findall(r"(?<![\w-])--?[a-z][\w-]*", advice)
        assert not {*options} - known - {"--interleave", "--color"}, advice


MORE = """\
load qwen.gguf
load org/name
server start
lms server start --port 1234 --cors
lms load qwen --gpu max --context-length=8192 --identifier me --ttl 60 -y
lms load x.gguf --gpu off --exact
llama-bench -m x.gguf -p 512 -n 128 -r 3 -t 4
llama-bench
llama cli -m x.gguf -p hi
llama serve -m x.gguf
llama-fit-params x.gguf
benchmark x.gguf
show --template x.gguf
ollama show x.gguf --parameters
ollama show x.gguf --system
run qwen3 hello
run qwen3 hello --format json --verbose --keepalive 5m
ollama run llama3.2:1b 'why is the sky blue' --think=false
ollama run hf.co/org/name:Q4_K_M
llama-cli -hf org/name:Q4 -cnv -p hi
llama-cli -m x.gguf -p hi -no-cnv -ngl 99 -fa
llama-server -hf org/name --jinja -c 0 -ngl all
llama-run x.gguf hi
-hf org/name:Q8_0"""
FIRST_WORDS = re.findall(
    r"^(\S.*?) +: mtkit", Path(__file__).with_name("test_first_words.py").read_text(), re.MULTILINE
)


@pytest.mark.parametrize("typed", [*FIRST_WORDS, *MORE.split("\n")])
def test_every_suggestion_parses(typed: str, read: Any) -> None:
    """Also those with placeholders: a line that is suggested has the form of its command."""
    try:
        error = read(*split(typed))
    except AssertionError:  # it ran
        return
    if isinstance(error, str):
        for line in re.findall(r"run: mtkit (.*?)(?=; |\n|$)", error):
            if "--help" not in line and not line.startswith("-"):
                assert isinstance(read(*split(line)), dict), line


def test_every_word_leads_to_a_line_that_parses(read: Any) -> None:
    """Whatever stands for a command, alone, with a file and with a model's name."""
    lines = [
        line
        for right, words in _WORDS.items()
        for word in (*words.split(), right)
        for line in (word, f"{word} x.gguf")
        if not right.startswith("--") and word.split()[0] not in COMMANDS
    ]
    for line in lines:
        error = read(*split(line))
        assert isinstance(error, str)
        for suggestion in re.findall(r"run: mtkit (.*?)(?=; |\n|$)", error):
            result = read(*split(suggestion))
            assert isinstance(result, dict), (line, suggestion, result)


def test_what_other_advice_names_parses(read: Any) -> None:
    for advice in _ELSEWHERE.values():
        word = r"(?: (?:--?[a-z][\w-]*|[A-Z][\w./:=]*|gguf|mtok|cl100k_base))"
        for line in re.findall(rf"mtkit ([a-z][a-z-]*{word}+)", advice):
            assert isinstance(read(*split(line)), dict), (advice, line)
    assert all(right.split()[0] in COMMANDS for right in _SHOWS.values())
    assert {word.split()[0] for word in _NEEDS} <= {*COMMANDS}
    commands = {"run": "chat", "load": "serve", "server": "serve", "llama-bench": "bench"}
    assert commands.keys() == _RUNS.keys()
    for word, command in commands.items():
        own = spellings(command)
        instead = {name for _, names in _RUNS[word].values() for name in names if name[0] == "-"}
        assert instead <= own, word


def test_they_run(mtkit: Run) -> None:
    llama_cpp_for("chat")
    plain = mtkit("chat", "hi", "-n", "3", "--temp", "0").stdout
    words = "--jinja -cnv -st -ngl all -fa --no-warmup -ctk f16 -ctv f16 --mlock -r zzz"
    assert mtkit("chat", "hi", "-n3", "--temp=0", *words.split()).stdout == plain
    done = mtkit("generate", "-n", "3", "-fa", "-p", "hi", "--no-display-prompt")
    assert done.returncode == 0, done.stderr
    named = mtkit("chat", "hi", "-n", "3", "--temp", "0", "--chat-template", "chatml")
    assert named.returncode == 0, named.stderr
    assert "neither one of llama.cpp's templates" in one_line(
        mtkit("chat", "hi", "--chat-template", "no-such-name"), 2
    )
    assert b"longer than" in mtkit("chat", "hi", "-n", "1", "-c", "9999").stderr
