"""``mtkit generate`` and ``mtkit.generate``: options, streaming, sessions, errors; greedily what
llama-cpp-python's own ``Llama`` and plain numpy generate.
"""

from __future__ import annotations

import json
import subprocess
import sys
from math import inf
from pathlib import Path
from typing import Any

import pytest
from llm_models import ARCHITECTURES, OWN, chatting, own, reciting, tiny
from support import Run, reference, shared

import mtkit as package
from mtkit.api.generation import generate
from mtkit.cli import main
from mtkit.conversion.model import convert_checkpoint
from mtkit.errors import UsageError
from mtkit.llm.runner import TextStream
from mtkit.tokenizer.load import load


@pytest.fixture(autouse=True)
def _library() -> None:
    reference("llama_cpp")


def answer(done: Any) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def test_a_model_that_recites(mtkit: Run) -> None:
    text = "Hello world, you read me."
    done = mtkit("generate", "", "-m", reciting(text))
    assert done.stdout == f" {text}\n".encode()
    lines = done.stderr.decode().splitlines()
    assert [line.split()[1] for line in lines] == ["load", "prompt", "generation"]
    made = answer(mtkit("generate", "", "-m", reciting(text), "--json"))
    assert made["end"] == "eog"
    assert made["text"] == " " + text
    assert made["ids"][-1] == 2
    assert made["pieces"][-1] == "</s>"
    assert len(made["logprobs"]) == len(made["ids"]) == len(made["pieces"])


def test_the_default_model_needs_no_option(mtkit: Run) -> None:
    done = mtkit("generate", "To list files, use", "-n", 8, "-q")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) > 8
    assert done.stderr == b""


def test_public_function() -> None:
    texts: list[str] = []
    made = package.generate("Hello", model=tiny(), n_predict=9, on_text=texts.append, threads=1)
    assert len(made.ids) == 9
    assert "".join(texts) == made.text
    again = package.generate(made.prompt_ids, model=str(tiny()), n_predict=9, threads=1)
    assert again.ids == made.ids
    with pytest.raises(UsageError, match="there is no setting 'color'"):
        generate("x", model=tiny(), color=1)


def test_log_probabilities_are_those_of_the_logits() -> None:
    import numpy as np

    from mtkit.llama import Context, ContextSettings, Model

    made = generate("Hello", model=tiny(), n_predict=5, logprobs=True, threads=1)
    with Model(str(tiny())) as model, Context(model, ContextSettings()) as context:
        for at, (token_id, logprob) in enumerate(zip(made.ids, made.logprobs, strict=True)):
            before = made.prompt_ids + made.ids[:at]
            context.clear()
            context.decode(before)
            row = context.logits().astype(np.float64)
            expected = row[token_id] - np.log(np.exp(row).sum())
            assert logprob == pytest.approx(expected, abs=2e-3)


def test_stop_strings_end_the_text(mtkit: Run) -> None:
    done = mtkit("generate", "", "-m", reciting(), "-q", "--stop", "you", "--stop", "read")
    assert done.stdout == b" Hello world, \n"
    made = answer(mtkit("generate", "", "-m", reciting(), "--json", "--stop", "nowhere"))
    assert made["end"] == "eog"


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_stop_strings_across_pieces(size: int) -> None:
    text = "ab<e<en<end🙂>xyz<end>tail"
    data = text.encode()
    stream = TextStream(["<end>", "never"])
    given = "".join(stream.push(data[at : at + size]) for at in range(0, len(data), size))
    assert given + stream.finish() == "ab<e<en<end🙂>xyz"
    assert stream.stopped == "<end>"


def test_no_half_character() -> None:
    stream = TextStream()
    given = [stream.push(bytes([byte])) for byte in "é你🙂".encode()]
    assert given == ["", "é", "", "", "你", "", "", "", "🙂"]
    assert stream.push(b"\xf0\x9f") == ""
    assert stream.finish() == "\ufffd"
    held = TextStream(["ab"])
    assert held.push(b"xa") == "x"
    assert held.finish() == "a"


def test_ignore_eos_and_bias(mtkit: Run) -> None:
    made = answer(mtkit("generate", "", "-m", reciting(), "--json", "--ignore-eos", "-n", 40))
    assert made["end"] == "length"
    assert 2 not in made["ids"]
    first = answer(mtkit("generate", "hi", "-m", tiny(), "--json", "-n", 1))["ids"][0]
    made = answer(
        mtkit("generate", "hi", "-m", tiny(), "--json", "-n", 5, "--logit-bias", f"{first}=false")
    )
    assert first not in made["ids"]
    made = answer(mtkit("generate", "hi", "-m", tiny(), "--json", "-n", 5, "--logit-bias", "7=1e6"))
    assert made["ids"] == [7] * 5
    made = answer(mtkit("generate", "hi", "-m", tiny(), "--json", "-n", 5, "-l", "7+1e6"))
    assert made["ids"] == [7] * 5


def test_biases_in_llama_cpps_spelling() -> None:
    from mtkit.commands.arguments import parse_logit_biases

    for text, pair in {
        "11-100": ("11", -100.0), "11+5": ("11", 5.0), "0+0.5": ("0", 0.5), "7-inf": ("7", -inf),
        "15043+1e2": ("15043", 100.0), "3-.5": ("3", -0.5), "11=-5": ("11", -5.0),
        "a+b=2": ("a+b", 2.0), "1+1=2": ("1+1", 2.0), "5=false": ("5", -inf),
    }.items():  # fmt: skip
        assert parse_logit_biases([text]) == (pair,)
    for text in ("11", "11-", "a-5", "11+-", "11-x", "+5", "11*5"):
        with pytest.raises(UsageError, match="logit_bias"):
            parse_logit_biases([text])


def test_a_seed_makes_sampling_repeatable(mtkit: Run) -> None:
    options = ("-m", tiny(), "--json", "-n", 12, "--temp", 1.5, "--threads", 1)
    first, second, other = (
        answer(mtkit("generate", "hi", *options, "--seed", seed)) for seed in (5, 5, 6)
    )
    assert first["ids"] == second["ids"] != other["ids"]
    assert first["sampler"] == ["top-k 40", "top-p 0.95", "min-p 0.05", "temperature 1.5",
                                "random seed=5"]  # fmt: skip
    unseeded = answer(mtkit("generate", "hi", *options))
    repeated = answer(mtkit("generate", "hi", *options, "--seed", unseeded["seed"]))
    assert repeated["ids"] == unseeded["ids"]


def test_every_sampler_goes_into_the_chain() -> None:
    made = generate(
        "hi", model=tiny(), n_predict=6, temperature=0.9, typical=0.9, top_n_sigma=3.0, xtc=0.5,
        dry=0.8, repeat_penalty=1.2, frequency_penalty=0.1, presence_penalty=0.1, seed=1,
        logit_bias=((5, 1.0),),
    )  # fmt: skip
    names = [step.split()[0] for step in made.steps]
    assert names == ["logit", "penalties", "dry", "top-n-sigma", "top-k", "typical", "top-p",
                     "min-p", "xtc", "temperature", "random"]  # fmt: skip
    for version in (1, 2):
        made = generate("hi", model=tiny(), n_predict=6, mirostat=version, seed=1)
        assert made.steps[-1] == f"mirostat {version} tau=5 eta=0.1"
    greedy = generate("hi", model=tiny(), n_predict=30, repeat_penalty=50.0)
    assert greedy.steps[-1] == "greedy"
    assert len(set(greedy.ids)) == 30


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_grammar_and_schema(temperature: float) -> None:
    options: dict[str, Any] = {"model": tiny(), "temperature": temperature, "seed": 3}
    made = generate("x", grammar='root ::= "yes" | "no"', **options)
    assert made.text in ("yes", "no")
    assert made.end == "eog"
    made = generate("x", grammar='root ::= [a-c] [a-c] "."', ignore_eos=True, **options)
    assert made.end == "grammar"
    assert made.text[-1] == "."
    schema = {"type": "object", "required": ["a"], "additionalProperties": False,
              "properties": {"a": {"enum": ["x", "y"]}}}  # fmt: skip
    made = generate("x", json_schema=json.dumps(schema), n_predict=60, **options)
    assert json.loads(made.text)["a"] in ("x", "y")


@pytest.mark.parametrize(
    "options",
    [{"temperature": -1}, {"top_p": 2}, {"temperature": float("nan")}, {"seed": -1},
     {"mirostat": 3}, {"penalty_last": -1}, {"xtc": 1.5}, {"logit_bias": ((1 << 20, 1.0),)},
     {"kv_type": "q9"}, {"flash_attention": "maybe"}, {"n_batch": 0}, {"devices": ("none",)},
     {"kv_type": "q8_0", "flash_attention": "off"}, {"wait": "never"},
     {"n_ctx": 0}, {"gpu_layers": -2},
     {"gpu_layers": 1 << 31}, {"tensor_split": (0.0, 0.0)}, {"tensor_split": (1.0,) * 100},
     {"threads": -1}, {"threads": 0}, {"threads": 100000}, {"n_predict": -2},
     {"grammar": "root ::= a", "json_schema": "{}"}],
    ids=str,
)  # fmt: skip
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        generate("x", model=tiny(), **{"n_predict": 2, **options})


@pytest.mark.parametrize("megabytes", [60, 90, 120, 150])
def test_libraries_that_do_not_fit_the_address_space(megabytes: int) -> None:
    size = megabytes << 20
    script = (
        "import resource, sys, runpy\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({size}, {size}))\n"
        "sys.argv[0] = 'mtkit'\n"
        "runpy.run_module('mtkit', run_name='__main__')\n"
    )
    argv = [sys.executable, "-c", script, "generate", "x", "-m", str(tiny())]
    done = subprocess.run(argv, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (5, b""), done.stderr
    assert b"the limit of the address space" in done.stderr


def test_prompt_from_file_and_pipe(mtkit: Run, tmp_path: Path) -> None:
    (tmp_path / "prompt").write_text("Hello there")
    given = answer(mtkit("generate", "Hello there", "-m", tiny(), "--json", "-n", 2))
    by_file = answer(mtkit("generate", "-f", "prompt", "-m", tiny(), "--json", "-n", 2))
    by_pipe = answer(mtkit("generate", "-m", tiny(), "--json", "-n", 2, stdin=b"Hello there\n"))
    assert given["ids"] == by_file["ids"] == by_pipe["ids"]
    assert given["prompt_ids"] == by_file["prompt_ids"] == by_pipe["prompt_ids"]


def test_echo_and_ids_and_lines(mtkit: Run) -> None:
    done = mtkit("generate", "Hello 你", "-m", tiny(), "-n", 3, "--echo", "-q")
    assert done.stdout.decode().startswith("<s> Hello 你")
    made = answer(mtkit("generate", "Hello", "-m", tiny(), "-n", 3, "--json"))
    done = mtkit("generate", "Hello", "-m", tiny(), "-n", 3, "--ids", "-q")
    assert list(map(int, done.stdout.split())) == made["ids"]
    done = mtkit("generate", "Hello", "-m", tiny(), "-n", 3, "--jsonl", "-q")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["id"] for row in rows if row["id"] is not None] == made["ids"]
    assert [row["logprob"] for row in rows if row["id"] is not None] == made["logprobs"]


def test_context_overflow_says_what_helps(mtkit: Run) -> None:
    done = mtkit("generate", "word " * 50, "-m", tiny(), "--ctx", 20)
    assert done.returncode == 5
    assert b"the context holds 20 tokens, but the prompt alone has" in done.stderr
    assert b"; --ctx" in done.stderr
    made = answer(mtkit("generate", "Hello", "-m", tiny(), "--ctx", 9, "-n", 100, "--json"))
    assert made["end"] == "context"
    assert len(made["prompt_ids"]) + len(made["ids"]) == 10
    endless = answer(mtkit("generate", "Hello", "-m", tiny(), "--ctx", 9, "-n", -1, "--json"))
    assert endless["ids"] == made["ids"]


def test_settings_without_effect_are_named(mtkit: Run) -> None:
    options = ("generate", "Hello", "-m", tiny(), "-n", 1, "--top-k", 5, "--seed", 3)
    assert b"whatever --top-k, --seed says" in mtkit(*options).stderr
    assert b"warning" not in mtkit(*options, "--temp", 1).stderr
    assert b"warning" not in mtkit(*options, "--mirostat", 2).stderr
    assert mtkit(*options, "-q").stderr == b""


def test_without_the_library(mtkit: Run, tmp_path: Path) -> None:
    fake = tmp_path / "fake" / "llama_cpp"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("raise ModuleNotFoundError('no', name='llama_cpp')\n")
    import os

    path = os.pathsep.join([str(fake.parent), os.environ.get("PYTHONPATH", "")])
    done = mtkit("generate", "hi", env={"PYTHONPATH": path})
    assert done.returncode == 4
    line = done.stderr.decode()
    assert line.count("\n") == 1
    assert "llama-cpp-python is not installed; pip install 'mtkit[generate]'" in line


def test_devices(mtkit: Run) -> None:
    made = answer(mtkit("generate", "--devices", "--json"))
    assert "CPU" in [device["kind"] for device in made["devices"]]
    rows = mtkit("generate", "--devices").stdout.decode().splitlines()
    assert rows[0].split("\t")[0] == made["devices"][0]["name"]
    ids = [answer(mtkit("generate", "hi", "-m", tiny(), "-n", 3, "--json", *more))["ids"]
           for more in ((), ("--device", made["devices"][0]["name"]))]  # fmt: skip
    assert ids[0] == ids[1]


def test_check_tokenizer_shows_a_difference(mtkit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    done = mtkit("generate", "Hello 你", "-m", tiny(), "-n", 1, "-q", "--check-tokenizer")
    assert done.stderr == b""
    from mtkit.api.generation import tokenizer_difference
    from mtkit.llama import Model

    with Model(str(chatting())) as model:
        monkeypatch.setattr(
            "mtkit.tokenizer.tokenizer.Tokenizer.encode_ids", lambda *_, **__: [1, 5], raising=True
        )
        found = tokenizer_difference(model, b"Hello", add_special=True, parse_special=True)
    assert found.startswith("the tokenizers differ from token 1 on: llama.cpp has ")


TOKENS = 200
PROMPT = "The quick brown fox lists files. 你好"


def by_llama(path: Path, made: Any) -> list[int]:
    """Ids that ``Llama`` gives for the same prompt ids and the same context."""
    llama_cpp = reference("llama_cpp")
    context = made.context
    llama = llama_cpp.Llama(
        str(path),
        n_ctx=context.n_ctx,
        n_batch=context.n_batch,
        n_ubatch=context.n_ubatch,
        n_threads=context.threads,
        n_threads_batch=context.threads,
        flash_attn=context.flash_attention == "on",
        n_gpu_layers=0,
        verbose=False,
    )
    try:
        found: list[int] = []
        for token in llama.generate(made.prompt_ids, temp=0.0, repeat_penalty=1.0):
            found.append(token)
            if llama_cpp.llama_vocab_is_eog(llama._model.vocab, token) or len(found) == TOKENS:
                break
        return found
    finally:
        llama.close()


def check(path: Path, **options: Any) -> None:
    made = generate(PROMPT, model=path, n_predict=TOKENS, threads=1, **options)
    assert made.end in ("eog", "length")
    assert len(made.ids) == TOKENS or made.end == "eog"
    assert made.ids == by_llama(path, made)


@pytest.mark.parametrize("name", OWN)
def test_trained_models(name: str) -> None:
    check(own(name))


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_random_models(arch: str) -> None:
    check(tiny(arch))


@pytest.mark.parametrize(
    "options",
    [{"flash_attention": "off"}, {"n_batch": 4}, {"n_batch": 32, "n_ubatch": 8}],
    ids=["no flash attention", "small batches", "small ubatches"],
)
def test_other_contexts(options: dict[str, Any]) -> None:
    check(tiny("llama"), **options)


def test_recurrent_model() -> None:
    check(tiny("mamba"))


STORY_PROMPT = "Once upon a time"


def test_stories260k_tells_what_llama2c_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """100 greedy tokens; the weights come from the checkpoint here and from the GGUF there."""
    reference("llama_cpp")
    from reference_llama import Llama

    checkpoint = shared("models/stories260K/stories260K.bin")
    tokenizer = load(shared("models/stories260K/tok512.bin"))
    made = convert_checkpoint(checkpoint, tokenizer, tmp_path / "stories.gguf").path
    ids = tokenizer.encode_ids(STORY_PROMPT)
    model = Llama.of_llama2c(checkpoint.read_bytes())
    wanted = model.greedy(ids, 100)

    found = generate(STORY_PROMPT, model=made, n_predict=100, threads=1)
    assert found.prompt_ids == ids
    assert found.ids == wanted
    capsys.readouterr()
    assert main(["generate", STORY_PROMPT, "-m", made, "-n", "100", "--threads", "1", "-q"]) == 0
    text = capsys.readouterr().out
    assert STORY_PROMPT + text.removesuffix("\n") == tokenizer.decode(ids + wanted)
    assert "Lily" in text

    whole = generate(STORY_PROMPT, model=made, n_predict=500, threads=1)
    assert whole.end == "eog"
    assert whole.ids[-1] == 1  # llama2.c's program stops at BOS, too
    best = model.logits(ids + whole.ids[:-1]).argmax(axis=-1).tolist()
    assert whole.ids == best[len(ids) - 1 :]


PROMPTS = ("Hello world", "The quick brown fox jumps over the lazy dog. " * 8, "你好 one two")


@pytest.mark.parametrize("prompt", PROMPTS, ids=["short", "beyond the near positions", "mixed"])
def test_t5_goes_through_encoder_and_decoder(prompt: str) -> None:
    path = tiny("t5", n_ff=256, n_embd=128, seed=3)
    from reference_t5 import T5

    made = generate(prompt, model=path, n_predict=40, threads=1, kv_type="f32")
    model = T5(path)
    assert made.prompt_ids[-1] == 1  # the tokenizer ends a prompt with </s>
    assert len(set(made.ids)) > 5
    assert made.ids == model.greedy(made.prompt_ids, 40, frozenset({1}))
