"""The command line behaves as promised: exit codes, one-line errors, pipes, JSON."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from screens import check_screens, screen
from support import FIXTURES, one_line

from mtkit import load

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

BBPE = FIXTURES / "bbpe-8k" / "tokenizer.json"
SPM = FIXTURES / "spm-bpe" / "tokenizer.model"
TEXT = "Hello, MNN!"


def test_version_and_overview(mtkit: Run) -> None:
    version = mtkit("--version").stdout.decode()
    assert version.startswith("mtkit ")
    assert "engine" in version
    overview = mtkit("--help").stdout.decode()
    for name in ("inspect", "convert", "encode", "decode", "dump", "template", "formats"):
        assert f"  {name} " in overview
    assert mtkit().stdout.decode() == overview


def test_the_default_tokenizer_needs_no_argument(mtkit: Run) -> None:
    done = mtkit("encode", TEXT)
    assert done.returncode == 0, done.stderr
    ids = done.stdout.decode().split()
    assert ids
    assert mtkit("decode", stdin=done.stdout).stdout.decode() == TEXT + "\n"
    assert mtkit("decode", *ids).stdout.decode() == TEXT + "\n"


def test_encode_forms(mtkit: Run) -> None:
    ids = mtkit("encode", TEXT, "-t", BBPE).stdout.decode().split()
    document = json.loads(mtkit("encode", TEXT, "-t", BBPE, "--json").stdout)
    assert document["schema"] == "mtkit.encode/1"
    assert list(map(str, document["ids"])) == ids
    assert len(document["tokens"]) == len(document["offsets"]) == len(ids)
    assert mtkit("encode", TEXT, "-t", BBPE, "--count").stdout.decode() == f"{len(ids)}\n"
    tokens = mtkit("encode", TEXT, "-t", BBPE, "--tokens").stdout.decode().split()
    assert tokens == document["tokens"]
    rows = mtkit("encode", TEXT, "-t", BBPE, "--offsets").stdout.decode().splitlines()
    assert [row.split("\t")[0] for row in rows] == ids
    trace = json.loads(mtkit("encode", TEXT, "-t", BBPE, "--trace", "--json").stdout)
    assert trace["ids"] == document["ids"]


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


def test_text_comes_from_argument_pipe_or_file(mtkit: Run, tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_bytes(b"one\ntwo\r\nthree")
    whole = mtkit("encode", "--file", file, "-t", BBPE).stdout
    assert mtkit("encode", "-", "-t", BBPE, stdin=file.read_bytes()).stdout == whole
    assert mtkit("encode", "-t", BBPE, stdin=file.read_bytes()).stdout == whole
    lines = mtkit("encode", "--file", file, "-t", BBPE, "--lines").stdout.splitlines()
    single = [mtkit("encode", t, "-t", BBPE).stdout.strip() for t in ("one", "two", "three")]
    assert lines == single
    (tmp_path / "name.txt").write_bytes(b"")
    name = mtkit("encode", str(tmp_path / "name.txt"))
    assert name.stdout != whole
    assert b"--file reads" in name.stderr


def test_a_tokenizer_can_come_through_a_pipe(mtkit: Run) -> None:
    direct = mtkit("encode", TEXT, "-t", BBPE).stdout
    assert mtkit("encode", TEXT, "-t", "-", stdin=BBPE.read_bytes()).stdout == direct
    assert mtkit("inspect", "-", stdin=BBPE.read_bytes()).returncode == 0


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


def test_special_tokens_are_a_choice(mtkit: Run) -> None:
    def ids(*args: str) -> list[str]:
        return mtkit("encode", "<|im_end|>", "-t", BBPE, *args).stdout.decode().split()

    assert ids() == ["8191"]
    assert ids("--parse-special") == ["8191"]
    assert len(ids("--no-parse-special")) > 1
    plain = mtkit("encode", TEXT, "-t", SPM).stdout.decode().split()
    both = mtkit("encode", TEXT, "-t", SPM, "--bos", "--eos").stdout.decode().split()
    assert both == ["1", *plain, "2"]


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["encod", "x"], 2, "did you mean encode"),
        (["ecnode"], 2, "did you mean encode"),
        (["help", "encod"], 2, "did you mean encode"),
        (["--verison"], 2, "no such option: --verison; did you mean --version"),
        (["encode", "a", "b"], 2, "unexpected argument: b"),
        (["encode", "--nothing"], 2, "mtkit encode --help"),
        (["dump"], 2, "missing argument 'WHAT'"),
        (["dump", "tensors"], 2, "needs a GGUF"),
        (["convert", "--to"], 2, "requires an argument"),
        (["encode", "x", "-t", "missing.json"], 2, "no such file"),
        (["encode", "x", "-f", "y"], 2, "give only one of TEXT, --prompt and --file"),
        (["encode", "-f", "missing.txt"], 2, "missing.txt"),
        (["encode", "x", "--ids", "--count"], 2, "give only one"),
        (["encode", "x", "--as", "onnx"], 2, "mnn"),
        (["decode", "x"], 2, "not a token id"),
        (["decode", "99999999"], 2, "no id 99999999"),
        (["convert", str(BBPE)], 2, "no --to; run: "),
        (["convert", str(BBPE), "--to", "nothing"], 2, "unknown format"),
        (["convert", str(BBPE), "--to", "mnn"], 2, "is it mtok?"),
        (["convert", str(BBPE), "a.gguf", "-o", "b.gguf"], 2, "give DST or -o"),
        (["convert", str(BBPE), "--to", "gguf", "--allow-loss", "id"], 2, "unknown loss"),
        (["convert", str(BBPE), "--to", "gguf", "--tables"], 2, "--to mtok"),
        (["convert", str(BBPE), "--to", "mtok", "-o", "-"], 2, "not standard output"),
        (["compare", str(BBPE), str(BBPE), "-n", "-1"], 2, "-1"),
        (["encode", "x", "--encoding", "gpt2"], 2, "is for .tiktoken files"),
        (["convert", str(BBPE), "--to", "hf", "--encoding", "qwen"], 2, "is for .tiktoken files"),
        (["encode", "x", "-t", str(SPM), "--bos", "--trace"], 2, "without --bos"),
        (["convert", str(BBPE), "--to", "spm"], 4, "tokenizer.json"),
        (["dump", "nothing", str(BBPE)], 2, "cannot dump"),
        (["dump", "merges", str(SPM)], 4, "no merges"),
        (["dump", "scores", str(BBPE)], 4, "mtkit dump merges"),
        (["inspect", str(BBPE), "--tensors"], 2, "not a GGUF"),
        (["inspect", "x", "y", "--plan"], 2, "one row"),
        (["config", "color"], 2, "no setting"),
        (["completion", "tcsh"], 2, "bash"),
        (["--color", "sometimes"], 2, "auto"),
    ],
)
def test_wrong_use_is_one_clear_line(mtkit: Run, args: list[str], code: int, says: str) -> None:
    assert says in one_line(mtkit(*args), code)


def test_without_a_file_it_is_the_default_tokenizer(mtkit: Run) -> None:
    assert mtkit("inspect").stdout.startswith(b"format\tmtok\nids\t32768\nmodel\t")
    assert len(mtkit("dump", "vocab").stdout.splitlines()) == 32768


def test_short_help_is_help(mtkit: Run) -> None:
    assert mtkit("dump", "-h").stdout == mtkit("help", "dump").stdout
    assert b"Examples:" in mtkit("dump", "--help").stdout


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


def test_config_sets_the_default_tokenizer(mtkit: Run) -> None:
    assert mtkit("config", "tokenizer", BBPE).returncode == 0
    assert mtkit("config", "tokenizer").stdout.decode() == f"{BBPE}\n"
    direct = mtkit("encode", TEXT, "-t", BBPE).stdout
    assert mtkit("encode", TEXT).stdout == direct
    other = mtkit("encode", TEXT, env={"MTKIT_TOKENIZER": str(SPM)}).stdout
    assert other == mtkit("encode", TEXT, "-t", SPM).stdout
    assert mtkit("config", "tokenizer", "--unset").returncode == 0
    assert mtkit("encode", TEXT).stdout != direct


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


def test_a_completion_script_asks_mtkit(mtkit: Run) -> None:
    assert b"_MTKIT_COMPLETE" in mtkit("completion", "bash").stdout


def test_formats_lists_every_module(mtkit: Run) -> None:
    rows = json.loads(mtkit("formats", "--json").stdout)["formats"]
    assert [row["name"] for row in rows if row["holds"] == "model"] == ["hf-model"]
    names = {row["name"] for row in rows}
    assert names >= {"hf", "spm", "gguf", "llama2c", "mtok", "tiktoken", "mnn-text", "hf-model"}
    refused = one_line(mtkit("convert", BBPE, "--to", "nothing"), 2)
    assert {
        *refused.strip().partition("known: ")[2].split(", ")
    } == names  # each of which --to takes
    assert len(mtkit("formats").stdout.splitlines()) == len(rows)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_bug(closed: str, tmp_path: Path) -> None:
    for args in ("encode x", "encode -", "inspect -", "--version"):
        command = f'"{sys.executable}" -m mtkit {args} {closed}'
        done = subprocess.run(["sh", "-c", command], check=False, capture_output=True, cwd=tmp_path)
        assert done.returncode == (3 if args == "inspect -" else 0), (args, done.stderr)


def test_standard_input_cannot_be_taken_twice(mtkit: Run) -> None:
    model = SPM.read_bytes()
    for args in (["encode", "-", "-t", "-"], ["decode", "-", "-t", "-"], ["compare", "-", "-"]):
        assert "wanted twice" in one_line(mtkit(*args, stdin=model), 2)
    # The text of the arguments, the tokenizer of the pipe.
    assert mtkit("encode", "a", "-t", "-", stdin=model).returncode == 0


def test_a_missing_default_says_who_named_it(mtkit: Run) -> None:
    assert mtkit("config", "tokenizer", "/not/here.json").returncode == 0
    assert "mtkit config tokenizer" in one_line(mtkit("encode", "x"), 2)
    unprintable = os.fsdecode(b"\xff")
    assert "not valid UTF-8" in one_line(mtkit("config", "tokenizer", unprintable), 2)


def test_the_output_says_the_format_in_any_case(mtkit: Run, tmp_path: Path) -> None:
    for args in (["-o", "a.gguf"], ["--to", "GGUF", "-o", "b.gguf"]):
        assert mtkit("convert", BBPE, *args).returncode == 0
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()
    assert mtkit("convert", BBPE, "-o", "MY.MTOK").returncode == 0
    assert (
        b"the name x.y does not determine the format" in mtkit("convert", BBPE, "-o", "x.y").stderr
    )


def test_ids_come_back_from_json(mtkit: Run) -> None:
    one = mtkit("encode", TEXT, "--json").stdout
    assert mtkit("decode", stdin=one).stdout.decode() == TEXT + "\n"
    lines = mtkit("encode", "--lines", "--json", stdin=b"one\n\ntwo three\n").stdout
    assert mtkit("decode", "--lines", stdin=lines).stdout == b"one\n\ntwo three\n"
    assert mtkit("decode", stdin=lines).stdout == b"onetwo three\n"
    for text in (b'{"a": 1}', b'{"ids": [1', b'{"ids": "x"}', b'{"ids": [-1]}', b"{} []"):
        done = mtkit("decode", stdin=text)
        assert done.stdout == b""
        assert one_line(done, 2)


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
