"""The command line behaves as promised: exit codes, one-line errors, pipes, JSON; help and errors
name options that are there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from screens import check_screens, screen
from support import FIXTURES, Run, llama_cpp_for, one_line, reference

from mtkit import load
from mtkit.base import binary
from mtkit.cli import main
from mtkit.conversion.tokenizer import convert, find_refusal
from mtkit.errors import LossError, format_texts
from mtkit.formats.contract import WriteOptions
from mtkit.sources.locate import MODEL, shipped

BBPE = FIXTURES / "bbpe-8k" / "tokenizer.json"
SPM = FIXTURES / "spm-bpe" / "tokenizer.model"
TEXT = "Hello, MNN!"


def test_ids_beyond_one_chunk_are_one_line(mtkit: Run) -> None:
    text = "word " * 70_000
    surrounded = ["-t", SPM, "--no-parse-special", "--bos", "--eos"]
    ids = load(str(SPM)).encode_ids(text, add_special_tokens=False, parse_special=False)
    assert len(ids) > 1 << 16
    line = " ".join(map(str, [1, *ids, 2])) + "\n"
    stdin = text.encode()
    assert mtkit("encode", *surrounded, stdin=stdin).stdout.decode() == line
    count = mtkit("encode", *surrounded, "--count", stdin=stdin).stdout
    assert int(count) == len(ids) + 2
    assert mtkit("encode", "-t", SPM, "--no-special", stdin=b"").stdout == b"\n"


def test_a_terminal_says_which_file_was_taken(mtkit: Run, tmp_path: Path) -> None:
    for name in ("one.gguf", "two.gguf"):
        (tmp_path / name).write_bytes((BBPE.parent / "vocab.gguf").read_bytes())
    own = {"XDG_CONFIG_HOME": str(tmp_path)}
    several = screen("encode", TEXT, "-t", tmp_path, columns=200, **own)
    assert re.match(r"using .*one\.gguf, the first of 2 \.gguf files$", several.lines[0])
    folder = screen("encode", TEXT, "-t", BBPE.parent, columns=200, **own)
    assert folder.lines[0] == f"using {BBPE}"
    assert screen("encode", TEXT, "-t", BBPE, **own).lines[0].split() == ["id", "token", "bytes"]
    shipped = check_screens("encode", TEXT, **own)[80]
    assert shipped.lines[0] == "using the tokenizer that ships with mtkit"
    named = screen("encode", TEXT, columns=200, MTKIT_TOKENIZER=str(BBPE), **own)
    assert named.lines[0] == f"using {BBPE} (MTKIT_TOKENIZER)"
    assert mtkit("encode", TEXT, "-t", tmp_path).stderr == b""


def test_config_says_what_is_in_force_and_from_where(mtkit: Run, tmp_path: Path) -> None:
    assert mtkit("config", "model", BBPE).returncode == 0
    own = {"XDG_CONFIG_HOME": str(tmp_path)}
    shown = check_screens("config", MTKIT_TOKENIZER="there", **own)[120].words
    assert "tokenizer there MTKIT_TOKENIZER model " in shown
    words = screen("config", columns=300, **own).words
    assert "tokenizer the one that ships with mtkit" in words
    assert f"model {BBPE} {tmp_path}/mtkit/config.toml" in words
    assert mtkit("config").stdout.decode() == f"tokenizer\t\nmodel\t{BBPE}\n"


@pytest.mark.parametrize(
    "arguments",
    [("dump", "vocab", str(BBPE)), ("completion", "bash"), ("config",), ("config", "model"),
     ("--help",), ("help", "encode"), ("--version",), ("inspect", str(BBPE))],
)  # fmt: skip
def test_a_closed_pipe_is_silent(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "mtkit", *arguments],
        stdout=write_end,
        stderr=subprocess.PIPE,
        check=False,
        cwd=tmp_path,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, b"")


def test_dump_is_whole_and_escaped(mtkit: Run) -> None:
    rows = mtkit("dump", "vocab", BBPE).stdout.decode().splitlines()
    assert len(rows) == 8192
    assert all(len(row.split("\t")) == 3 for row in rows)
    table = json.loads(mtkit("dump", "vocab", BBPE, "--json").stdout)
    assert [entry["id"] for entry in table["vocab"]] == list(range(8192))
    merges = mtkit("dump", "merges", BBPE).stdout.decode().splitlines()
    assert len(merges) == 7933
    scores = mtkit("dump", "scores", SPM).stdout.decode().splitlines()
    assert len(scores) == 8000
    template = mtkit("dump", "template", BBPE).stdout.decode()
    assert "im_start" in template


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("mtkit enc", {"encode"}),
        ("mtkit convert", {"convert", "convert-endian"}),
        ("mtkit h", {"hash", "help"}),
        ("mtkit help t", {"token", "template", "trim", "topics"}),
        ("mtkit help los", {"losses"}),
        ("mtkit encode --no-s", {"--no-special"}),
        ("mtkit sx pr", {"prune"}),
        ("mtkit convert x --to mt", {"mtok"}),
        ("mtkit convert x --type q4_k", {"q4_k_s", "q4_k_m"}),
        ("mtkit quantize x --type Q4_K", {"Q4_K_S", "Q4_K_M"}),
        ("mtkit quantize x y q8", {"q8_0"}),
    ],
)
def test_completion_knows_commands_options_and_values(
    line: str, words: set[str], mtkit: Run
) -> None:
    bash = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = mtkit(env={"_MTKIT_COMPLETE": "complete_bash", **bash})
    assert set(done.stdout.decode().split()) == words
    fish = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = mtkit(env={"_MTKIT_COMPLETE": "complete_fish", **fish})
    assert {row.split("\t")[0] for row in done.stdout.decode().splitlines()} == words


def test_formats_lists_every_module(mtkit: Run) -> None:
    rows = json.loads(mtkit("formats", "--json").stdout)["formats"]
    assert [row["name"] for row in rows if row["holds"] == "model"] == ["hf-model"]
    names = {row["name"] for row in rows}
    assert names >= {"hf", "spm", "gguf", "llama2c", "mtok", "tiktoken", "mnn-text", "hf-model"}
    writable = {row["name"] for row in rows if row["write"]}
    assert names - writable == {"plamo"}
    for target, code in (("nothing", 2), ("safetensors", 2), ("plamo", 4)):
        refusal = one_line(mtkit("convert", BBPE, "--to", target), code)
        assert {*refusal.strip().partition("can be written: ")[2].split(", ")} == writable
        assert ("is it hf-model?" in refusal) == (target == "safetensors")
    assert len(mtkit("formats").stdout.splitlines()) == len(rows)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_bug(closed: str, tmp_path: Path) -> None:
    for args in ("encode x", "encode -", "inspect -", "--version"):
        command = f'"{sys.executable}" -m mtkit {args} {closed}'
        done = subprocess.run(["sh", "-c", command], check=False, capture_output=True, cwd=tmp_path)
        assert done.returncode == (3 if args == "inspect -" else 0), (args, done.stderr)


def test_a_setting_is_utf8(mtkit: Run) -> None:
    unprintable = os.fsdecode(b"\xff")
    assert "not valid UTF-8" in one_line(mtkit("config", "tokenizer", unprintable), 2)


@pytest.mark.parametrize("name", ["bbpe-8k/tokenizer.json", "bbpe-8k/vocab.gguf",
                                  "spm-bpe/tokenizer.model", "spm-bpe/tokenizer.bin",
                                  "wordpiece/tokenizer.json"])  # fmt: skip
def test_decode_leaves_special_tokens_out_in_every_format(mtkit: Run, name: str) -> None:
    tokenizer = load(FIXTURES / name)
    special = [i for i in range(tokenizer.vocab_size) if tokenizer.token_kind(i) == "control"]
    special += [token.id for token in tokenizer.spec.added_tokens.tokens if token.special]
    ids = tokenizer.encode_ids("hello", add_special_tokens=False)
    plain = mtkit("decode", *ids, "-t", FIXTURES / name).stdout
    done = mtkit("decode", *ids, special[-1], "-t", FIXTURES / name)
    assert done.stdout == plain
    if not name.endswith(".model"):  # sentencepiece never shows them
        shown = mtkit("decode", *ids, special[-1], "--special", "-t", FIXTURES / name).stdout
        assert len(shown) > len(plain)


def test_an_interrupt_is_an_exit_code_wherever_it_comes(tmp_path: Path) -> None:
    """Python would end a module with SIGINT if the last string that it ran was interrupted."""
    (tmp_path / "interrupted.py").write_text(
        "import sys; from mtkit import cli\n"
        "cli._run_process = lambda: exec('raise KeyboardInterrupt')\n"
        "sys.exit(cli.run())\n"
    )
    search = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-m", "interrupted"], env=search, check=False)
    assert done.returncode == 130


named_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX's")

PIPE_TEXT = b"Once upon a time there was a little pipe.\n" * 4
MESSAGES = b'[{"role": "user", "content": "hi"}]'
READING = [
    ("count PIPE", PIPE_TEXT),
    ("count -f PIPE", PIPE_TEXT),
    ("encode -f PIPE", PIPE_TEXT),
    ("encode --lines -f PIPE", PIPE_TEXT),
    ("encode --messages PIPE", MESSAGES),
    ("decode -f PIPE", b"1 2 3\n4\n"),
    ("explain -f PIPE", PIPE_TEXT),
    ("compare model.gguf model.gguf -f PIPE", PIPE_TEXT),
    ("template --messages PIPE", MESSAGES),
    ("template --user hi --tools PIPE", b"[]"),
    ("template --parse PIPE", b"an answer"),
    ("edit model.gguf --set-file general.name=PIPE --dry-run", b"name"),
    ("trim model.gguf -o new.gguf --dry-run --corpus PIPE", PIPE_TEXT),
    ("trim model.gguf -o new.gguf --dry-run --keep PIPE", b"1\n2\n"),
    ("sx vocab PIPE -t model.gguf -n 300 -o ids.txt --force", PIPE_TEXT),
    ("perplexity PIPE --ctx 8", PIPE_TEXT),
    ("logits -f PIPE", PIPE_TEXT),
    ("generate -f PIPE -n 1 --temp 0", PIPE_TEXT),
    ("generate hi -n 1 --temp 0 --grammar PIPE", b'root ::= "a"'),
    ("generate hi -n 1 --temp 0 --json-schema PIPE", b'{"const": 1}'),
    ("chat hi -n 1 --temp 0 --template PIPE", b"{{ messages[0].content }}"),
]


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(binary, "_WRITER_SECONDS", 0.05)
    os.symlink(shipped(MODEL), "model.gguf")
    os.mkfifo("in.fifo")
    return tmp_path / "in.fifo"


def run(line: str, name: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main([name.join(word.split("PIPE")) for word in line.split()])
    out, err = capfd.readouterr()
    return code, out.replace(name, "NAME"), err.replace(name, "NAME")


@named_pipes
@pytest.mark.parametrize(("line", "data"), READING)
def test_what_is_read_may_be_a_pipe(
    line: str, data: bytes, pipe: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    llama_cpp_for(line)
    code, _, err = run(line, "in.fifo", capfd)
    assert (code, err.splitlines()[-1]) == (2, "mtkit: NAME: is a pipe that nobody writes to")
    (pipe.parent / "in.file").write_bytes(data)
    code, said, err = run(line, "in.file", capfd)
    assert code == 0, err
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    assert run(line, "in.fifo", capfd)[:2] == (0, said)
    writer.join()


@named_pipes
@pytest.mark.parametrize("command", ["count", "encode"])
def test_a_corpus_is_read_from_files(
    command: str, pipe: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(f"corpus {command} PIPE -o out", "in.fifo", capfd)
    assert (code, err) == (2, "mtkit: NAME: is not a file: a corpus cannot come from a pipe\n")


BBPE_FOLDER = FIXTURES / "bbpe-8k"
RUNS = ("perplexity", "imatrix", "generate")
"""Commands that run a model."""


@pytest.mark.parametrize("command", ["count", "encode", "explain", *RUNS])
def test_a_model_in_the_place_of_a_text_names_an_option_of_the_command(
    mtkit: Run, command: str
) -> None:
    if command in RUNS:
        reference("llama_cpp")
    option = "-m" if command in RUNS else "-t"
    line = one_line(mtkit(command, "-f", BBPE_FOLDER / "vocab.gguf"), 2)
    file = "FILE" if command in ("count", "perplexity", "imatrix") else "-f FILE"
    assert f"is a model, not a text; run: mtkit {command} {file} {option} " in line
    assert re.search(rf"^  {option}, --", mtkit(command, "--help").stdout.decode(), re.M)


def test_a_default_that_is_not_always_the_same_is_said_once(mtkit: Run) -> None:
    """What a terminal's chat takes for --temp and --ctx is not what the record has."""
    words = " ".join(mtkit("chat", "--help").stdout.decode().split())
    for name, next_name in (("--temp T", "--top-k"), ("--ctx N", "--batch-size")):
        said = words.partition(f"{name} ")[2].partition(next_name)[0]
        assert "efault: " in said
        assert "[default" not in said


def test_a_refusal_counts_the_same_on_a_terminal_and_in_a_row(tmp_path: Path) -> None:
    source = tmp_path / "tokenizer.json"
    document = json.loads((BBPE_FOLDER / "tokenizer.json").read_bytes())
    source.write_text(json.dumps(document | {"normalizer": {"type": "NFC"}}), encoding="utf-8")
    target = str(tmp_path / "x.gguf")
    with pytest.raises(
        LossError, match=r"different ids, the first is .*; possible causes: "
    ) as caught:
        convert(load(str(source)), target)
    found = find_refusal(load(str(source)), "gguf", WriteOptions())
    assert found is not None
    assert str(caught.value.what).startswith(
        format_texts(found.different, found.total, "get different ids")
    )
    shown = screen("convert", source, "--to", "gguf", "-o", target)
    assert f"not written: {found.different} of {found.total} text" in " ".join(shown.lines)


def test_a_text_of_a_refusal_is_escaped_once(tmp_path: Path) -> None:
    source = tmp_path / "tokenizer.json"
    document = json.loads((BBPE_FOLDER / "tokenizer.json").read_bytes())
    rule = {"type": "Replace", "pattern": {"String": "\u0085"}, "content": "-"}
    source.write_text(json.dumps(document | {"normalizer": rule}), encoding="utf-8")
    shown = screen("convert", source, "--to", "gguf", "-o", tmp_path / "x.gguf").text
    assert "u0085" in shown.lower()
    assert not re.search(r"\\\\[xu]", shown)


def test_one_text_takes_the_verb_of_one() -> None:
    assert format_texts(1, 9, "get different ids") == "1 of 9 texts gets different ids"
    assert format_texts(2, 9, "are refused in x") == "2 of 9 texts are refused in x"
    assert format_texts(1, 1, "are refused") == "1 of 1 text is refused"
