"""``mtkit.Model``: what commands and server give, from one model that stays open."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_models import parrot, tiny
from support import Run, reference

import mtkit as package
from mtkit.chat.answer import CallStart
from mtkit.errors import ResourceError, UnsupportedError, UsageError

PROMPT = "To list files, use"
RANDOM: dict[str, Any] = {"temperature": 0.9, "seed": 5, "n_predict": 12}


@pytest.fixture(scope="module")
def model() -> Iterator[package.Model]:
    reference("llama_cpp")
    with package.Model(n_ctx=512) as opened:
        yield opened


@pytest.mark.parametrize(
    "settings",
    [{"n_predict": 12}, RANDOM, {"n_predict": 30, "stops": ("e",)}, {"n_predict": 0},
     {"n_predict": 9, "grammar": 'root ::= "ab" [0-9]+', "logprobs": True}],
)  # fmt: skip
def test_the_text_of_generate(model: package.Model, settings: Any) -> None:
    alone = package.generate(PROMPT, **settings)
    kept = model.generate(PROMPT, **settings)
    assert (kept.text, kept.ids, kept.end) == (alone.text, alone.ids, alone.end)
    assert np.allclose(kept.logprobs, alone.logprobs, atol=1e-3)
    stream = model.stream(PROMPT, **settings)
    with pytest.raises(UsageError, match="has not ended"):
        _ = stream.result
    assert "".join(stream) == stream.result.text == alone.text


def test_what_prompts_share_is_kept(model: package.Model, tmp_path: Path) -> None:
    first = model.generate(PROMPT, n_predict=4)
    assert model.generate(PROMPT, n_predict=4).timings.prompt_tokens == 1
    model.save_session(tmp_path / "a.session")
    model.generate("Something else", n_predict=2)
    model.load_session(tmp_path / "a.session")
    again = model.generate(PROMPT, n_predict=4)
    assert again.timings.prompt_tokens == 1
    assert again.ids == first.ids
    with pytest.raises(UsageError, match="exists"):
        model.save_session(tmp_path / "a.session")


def test_settings_of_the_model_are_not_those_of_an_answer(model: package.Model) -> None:
    with pytest.raises(UsageError, match="n_ctx: is set where the model is opened"):
        model.generate(PROMPT, n_ctx=64)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="did you mean temperature"):
        model.generate(PROMPT, temprature=1.0)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="no setting 'save_session'"):
        package.Model(save_session="a")  # type: ignore[call-arg]
    with pytest.raises(ResourceError, match="the context holds 512 tokens"):
        model.generate("word " * 600)


def test_streams_end_where_their_reader_does(model: package.Model) -> None:
    stream = model.stream(PROMPT, n_predict=50)
    next(stream)
    with pytest.raises(UsageError, match="another answer is still open"):
        model.generate(PROMPT)
    stream.close()
    stream.close()
    assert stream.result.end == "interrupted"
    assert len(stream.result.ids) < 50
    for _ in model.stream(PROMPT, n_predict=50):
        break

    def fail() -> None:
        for _ in model.stream(PROMPT, n_predict=50):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert len(model.generate(PROMPT, n_predict=3).ids) == 3


def test_threads_wait_in_order(model: package.Model) -> None:
    alone = [model.generate(f"Number {n}", n_predict=8).text for n in range(4)]
    texts: dict[int, str] = {}
    order: list[int] = []

    def work(number: int) -> None:
        texts[number] = model.generate(f"Number {number}", n_predict=8).text
        order.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    stream = model.stream(PROMPT, n_predict=3)
    next(stream)
    for number, thread in enumerate(threads):
        thread.start()
        while len(model._turns._waiting) < number + 2:
            pass
    assert not texts
    stream.close()
    for thread in threads:
        thread.join()
    assert [texts[n] for n in range(4)] == alone
    assert order == [0, 1, 2, 3]


def test_in_an_event_loop(model: package.Model) -> None:
    async def read(most: int = 99) -> str:
        text = ""
        async for part in model.astream(PROMPT, n_predict=12):
            text += part
            most -= 1
            if not most:
                break
        return text

    async def chat() -> list[Any]:
        return [part async for part in model.astream_chat("Hi", n_predict=4)]

    assert asyncio.run(read()) == model.generate(PROMPT, n_predict=12).text
    assert asyncio.run(read(2))
    assert "".join(asyncio.run(chat())) == model.chat("Hi", n_predict=4).content


def test_figures(model: package.Model, mtkit: Run, tmp_path: Path) -> None:
    path = tmp_path / "logits.npy"
    done = mtkit("logits", PROMPT, "--all", "-o", path)
    assert done.returncode == 0, done.stderr
    rows = model.logits(PROMPT)
    assert rows.dtype == np.float32
    assert np.allclose(rows, np.load(path), atol=1e-2)
    text = "Once upon a time there was a tokenizer. " * 60
    done = mtkit("perplexity", "-p", text, "--ctx", 128)
    assert float(done.stdout.split()[0]) == pytest.approx(
        model.perplexity(text, window=128).perplexity, rel=1e-3
    )
    assert model.perplexity(PROMPT, stride=64).tokens > 0
    assert model.plan.host > 0
    assert model.tokenizer.encode_ids("Hello") == package.load(model.path).encode_ids("Hello")


def test_vectors() -> None:
    with package.Model(tiny("llama")) as model:
        for _ in range(2):  # the second time it is known without a context
            with pytest.raises(UnsupportedError, match="its pooling is mean"):
                model.rank("Why?", ["Because."])
            assert model._open_pooler()._embedder is None
        pair = model.embed(["Hello world", "Other words"])
        assert pair.dtype == np.float32
        assert np.allclose(np.linalg.norm(pair, axis=1), 1)
        assert np.allclose(model.embed("Hello world"), pair[0], atol=1e-6)
        assert model.embed([]).shape == (0, pair.shape[1])
        with pytest.raises(UnsupportedError, match="its pooling is mean"):
            model.rank("Why?", ["Because."])
        generated = model.generate("Hello", n_predict=3)  # both contexts at once
        assert np.allclose(model.embed(["Other words"])[0], pair[1], atol=1e-6)
        assert model.generate("Hello", n_predict=3).ids == generated.ids


THINKING = """\
{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}\
[assistant]{% if thinking is not false %}<think>{% endif %}{% endif %}"""


def test_conversations() -> None:
    path, _ = parrot({"said": "Hm.</think>\n\nYes."})
    schema = {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"]}
    with package.Model(path, template=THINKING) as model:
        reply = model.chat("Really?")
        assert (reply.reasoning, reply.content.strip()) == ("Hm.", "Yes.")
        assert reply.message["reasoning_content"] == "Hm."
        assert reply.generation.end == "eog"
        assert json.loads(model.chat("Really?", schema=schema).content) == {"a": 1}
        assert json.loads(model.chat("Really?", schema=json.dumps(schema)).content) == {"a": 1}
        off = model.chat([{"role": "user", "content": "Really?"}], reasoning=False)
        assert off.content.startswith("Hm.")
        stream = model.stream_chat("Really?")
        next(stream)
        stream.close()
        assert stream.result.reasoning
        cut = model.chat("Really?", n_predict=1)
        assert cut.generation.end == "length"
        with pytest.raises(UsageError, match="role"):
            model.chat([{"content": "Hi"}])
    with package.Model(tiny("llama")) as model, pytest.raises(UnsupportedError, match="template"):
        model.chat("Hi")


def test_any_name_of_a_setting_counts() -> None:
    with package.Model(n_ctx=256, tokens=5) as model:  # type: ignore[call-arg]
        assert len(model.chat("Hi", ignore_eos=True).generation.ids) == 5
        assert len(model.chat("Hi", ignore_eos=True, tokens=3).generation.ids) == 3  # type: ignore[call-arg]
    with package.Model(n_ctx=256, n_predict=128) as model:
        assert len(model.chat("Hi", ignore_eos=True).generation.ids) == 128


def test_a_draft_serves_greedy_and_random_answers() -> None:
    with package.Model(n_ctx=256, draft_lookup=True) as model:
        greedy = model.generate(PROMPT, n_predict=12)
        assert len(model.generate(PROMPT, **RANDOM).ids) == RANDOM["n_predict"]
        assert model.generate(PROMPT, n_predict=12).ids == greedy.ids


def test_calls_of_tools() -> None:
    def weather(city: str) -> str:
        """Tell the weather.

        Args:
            city: Where.
        """
        return city

    chatml = (
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role "
        "}}\n{% if m.tool_calls %}{% for c in m.tool_calls %}<tool_call>\n{{ c.function | tojson }}"
        "\n</tool_call>{% endfor %}{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    path, _ = parrot({"call": call})
    with package.Model(path, template=chatml) as model:
        reply = model.chat("Weather?", tools=[weather])
        (made,) = reply.tool_calls
        assert made["function"]["name"] == "weather"
        assert json.loads(made["function"]["arguments"]) == {"city": "Oslo"}
        result = {"role": "tool", "content": "sun", "tool_call_id": made["id"]}
        history = [{"role": "user", "content": "Weather?"}, reply.message, result]
        assert model.chat(history, tools=[weather]).tool_calls
        assert not model.chat("Weather?").tool_calls
        assert not model.chat("Weather?", tools=[weather], tool_choice="none").tool_calls
        schema = {"type": "object", "properties": {"zone": {"enum": ["UTC", "CET"]}},
                  "required": ["zone"], "additionalProperties": False}  # fmt: skip
        clock = {"type": "function", "function": {"name": "clock", "parameters": schema}}
        named = {"type": "function", "function": {"name": "clock"}}
        choices: list[Any] = ["clock", named, "required"]
        for choice in choices:
            tools = [clock] if choice == "required" else [weather, clock]
            (made,) = model.chat("Weather?", tools=tools, tool_choice=choice).tool_calls
            assert made["function"]["name"] == "clock"
            assert json.loads(made["function"]["arguments"])["zone"] in ("UTC", "CET")
        both: dict[str, Any] = {"tools": [weather, clock], "tool_choice": "required", **RANDOM}
        both["n_predict"] = 99
        start = next(model.stream_chat("Weather?", **both))
        assert isinstance(start, CallStart)
        with pytest.raises(UsageError, match="tool_choice: names none of the tools"):
            model.chat("Weather?", tools=[weather], tool_choice="wether")
        with pytest.raises(UsageError, match="tool_choice: names none of the tools"):
            model.chat("Weather?", tool_choice="required")
        with pytest.raises(UsageError, match="together with a grammar"):
            model.chat("Weather?", tools=[weather], tool_choice="required", schema=schema)


def test_the_end_of_a_model() -> None:
    first, second = package.Model(n_ctx=256), package.Model(tiny("llama"))
    assert first.generate(PROMPT, n_predict=3).ids
    assert second.generate(PROMPT, n_predict=3).ids
    stream = first.stream(PROMPT, n_predict=50)
    next(stream)
    first.close()
    first.close()
    assert stream.result.end == "interrupted"
    assert "closed" in repr(first)
    with pytest.raises(UsageError, match="is closed"):
        first.generate(PROMPT)
    second.close()


SCRIPT = """
import os, resource, mtkit
model = mtkit.Model(n_ctx=256)
for place in range(%d):
    model.generate("Once upon a time", n_predict=2)
    if place == 50:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
child = os.fork()
if not child:
    try:
        model.generate("x")
    except mtkit.UsageError as error:
        os._exit(7 if "another process" in str(error) else 8)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
stream = model.stream("Once", n_predict=40)
next(stream)
print(grown, status, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_memory_stays_forks_are_refused_and_the_process_ends() -> None:
    reference("llama_cpp")
    script = SCRIPT.replace("\nprint", "\nstream.close()\nprint") % 300
    for text in (script, SCRIPT % 60):  # the second leaves a stream open
        done = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        grown, status, _ = map(int, done.stdout.split())
        assert grown < 4096  # KiB
        assert status == 7
