"""Generation against a process that calls llama-cpp-python's ``Llama``, interleaved.

    python benchmarks/generate.py [--model M.gguf] [--tokens 200] [--rounds 7]

Each round runs all of them once, in turn: what else the machine does hits all alike. Both
sides get the same file, prompt, number of tokens, context and threads, and decode greedily; the
texts are compared. Then the loop itself: its time per token outside llama.cpp's own calls, for
lengths that double, at a vocabulary of 150,000.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

PEER = """
import json, sys
from llama_cpp import Llama
path, prompt, tokens, n_ctx, stream = sys.argv[1:]
llama = Llama(path, n_ctx=int(n_ctx), n_batch=512, n_threads=1, n_threads_batch=1, verbose=False,
              flash_attn=True, n_gpu_layers=0)
options = dict(max_tokens=int(tokens), temperature=0.0, repeat_penalty=1.0)
if stream == "1":
    for part in llama(prompt, stream=True, **options):
        sys.stdout.write(part["choices"][0]["text"]); sys.stdout.flush()
else:
    sys.stdout.write(llama(prompt, **options)["choices"][0]["text"])
"""


def timed(argv: list[str]) -> tuple[float, float, bytes]:
    """Run a command; return wall seconds, CPU seconds, output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, done.stdout


def commands(model: str, prompt: str, tokens: int, n_ctx: int) -> dict[str, list[str]]:
    """Return the processes that are compared."""
    ours = [sys.executable, "-m", "mtkit", "generate", prompt, "-m", model, "-n", str(tokens),
            "--ctx", str(n_ctx), "--threads", "1", "-q"]  # fmt: skip
    peer = [sys.executable, "-c", PEER, model, prompt, str(tokens), str(n_ctx)]
    return {
        "mtkit generate": ours,
        "mtkit generate, threads measured": [a for a in ours if a not in ("--threads", "1")],
        "Llama.__call__": [*peer, "0"],
        "Llama.__call__, streaming": [*peer, "1"],
    }


def whole_commands(model: str, tokens: int, rounds: int) -> None:
    """Compare whole processes."""
    prompt = "To list the files of a folder, use"
    found = commands(model, prompt, tokens, tokens + 32)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in found}
    texts: dict[str, bytes] = {}
    for _ in range(rounds):
        for name, argv in found.items():
            wall, cpu, text = timed(argv)
            times[name].append((wall, cpu))
            texts.setdefault(name, text.strip())
    print(f"{Path(model).name}, {tokens} tokens, best of {rounds} interleaved rounds")
    # The peer drops bytes that are not valid UTF-8, mtkit writes U+FFFD for them.
    same = {text.replace(b"\xef\xbf\xbd", b"") for text in texts.values()}
    print("  all texts equal" if len(same) == 1 else "  THE TEXTS DIFFER")
    for name, seen in times.items():
        wall, cpu = (min(column) for column in zip(*seen, strict=True))
        print(f"  {name:34} wall {wall * 1000:8.1f} ms   CPU {cpu * 1000:8.1f} ms")


def loop(model: str, lengths: list[int]) -> None:
    """Measure what the loop takes outside llama.cpp's own calls."""
    from mtkit.llm.runner import open_model
    from mtkit.llm.sampling import Sampler
    from mtkit.settings import ModelSettings, SamplerSettings
    from mtkit.settings.declaration import settings_of

    print("the loop without llama_decode (greedy, text streamed), CPU of its thread")
    given = {"model": model, "n_ctx": max(lengths) + 16, "threads": 1}
    with open_model(settings_of(ModelSettings, given)) as runner:
        context = runner.open_context()
        decode = context._decode_call  # noqa: SLF001  the call whose time is taken out
        inside = 0.0

        def clocked(*arguments: object) -> int:
            nonlocal inside
            start = time.thread_time()
            code: int = decode(*arguments)
            context._logits_at(context.handle, -1)  # noqa: SLF001  waits until it is computed
            inside += time.thread_time() - start
            return code

        context._decode_call = clocked  # noqa: SLF001
        with Sampler(context, SamplerSettings()) as sampler:
            for length in lengths:
                best = float("inf")
                for _ in range(3):
                    context.clear()
                    runner.ids = []
                    runner.feed([5, 6, 7])
                    inside = 0.0
                    start = time.thread_time()
                    text = [t.text for t in runner.stream(sampler, length, stop_at_eog=False)]
                    seconds = time.thread_time() - start - inside
                    best = min(best, seconds / length)
                assert len(text) >= length
                print(f"  {length:6d} tokens  {best * 1e6:8.1f} us a token")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="default: the model that ships with mtkit")
    parser.add_argument("--wide", help="model with a large vocabulary, for the loop")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    from mtkit.sources.locate import MODEL, locate

    model = locate(options.model, MODEL)
    whole_commands(model, options.tokens, options.rounds)
    if options.wide:
        loop(options.wide, [100, 200, 400, 800])
    print(json.dumps({"python": sys.version.split()[0]}))


if __name__ == "__main__":
    main()
