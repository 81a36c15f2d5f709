"""The example of docs/serve.md with Ray Serve: two replicas, one of them killed in the middle."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from llm_models import own
from support import reference

import mtkit

ROOT = Path(__file__).parents[2]
PROMPTS = ("To list files, use", "The function", "Returns", "A tuple is")


def example(model: str) -> str:
    """Return the module that the documents describe, with a model of the tests'."""
    text = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```py\n(from ray import serve\n.*?)```", text, re.DOTALL)
    assert code.count('"/models/model.gguf"') == 1
    return str(code.replace("/models/model.gguf", model))


def test_the_example_is_in_the_documents() -> None:
    """Where Ray is not installed the other test cannot say so."""
    compile(example("model.gguf"), "replicas.py", "exec")


def application(model: Path) -> Any:
    names: dict[str, Any] = {"__name__": "__main__"}  # what Ray sends by value
    exec(example(str(model)), names)
    return names["app"]


def replicas() -> list[int]:
    """Return the processes of the replicas."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if folder.name.isdecimal() and line.startswith(b"ray::ServeReplica"):
            found.append(int(folder.name))
    return found


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("PROXY_READY_CHECK_TIMEOUT_S", "PROXY_HEALTH_CHECK_TIMEOUT_S"):
        monkeypatch.setenv(f"RAY_SERVE_{name}", "120")  # five seconds are few on a busy machine
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # or Ray writes a token to the home folder
    serve = pytest.importorskip("ray.serve", reason="Ray Serve is not installed (extra ray)")
    import ray

    if not Path("/proc").exists():
        pytest.skip("finds processes in /proc")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    tested = str(Path(mtkit.__file__).parents[1])  # not the checkout's, where one is installed
    paths = os.pathsep.join([tested, os.environ.get("PYTHONPATH", "")])
    variables = {"PYTHONPATH": paths, "MTKIT_TRIAL": "0"}
    ray.init(
        num_cpus=4, include_dashboard=False, log_to_driver=False,
        runtime_env={"env_vars": variables},
    )  # fmt: skip
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        serve.run(application(own("own/model/mtkit-docs-target-q8_0.gguf")), route_prefix="/")
        yield f"http://127.0.0.1:{port}"
        serve.shutdown()
    finally:
        ray.shutdown()


def test_one_of_two_replicas_is_killed(url: str) -> None:
    openai = reference("openai")
    first = replicas()
    assert len(first) == 2
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=8, timeout=60) as client:

        def ask(turn: int) -> tuple[str, str]:
            prompt = PROMPTS[turn % len(PROMPTS)]
            made = client.completions.create(model="x", prompt=prompt, max_tokens=16)
            return prompt, made.choices[0].text

        wanted = dict(map(ask, range(len(PROMPTS))))
        with client.completions.create(model="x", prompt="A", max_tokens=8, stream=True) as stream:
            assert len(list(stream)) > 2
        killer = threading.Timer(0.3, os.kill, (first[0], signal.SIGKILL))
        killer.start()
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(ask, range(60)))
        killer.join()
        assert all(wanted[prompt] == text for prompt, text in found)
        end = time.monotonic() + 60
        while time.monotonic() < end and (len(replicas()) < 2 or first[0] in replicas()):
            time.sleep(0.2)
        assert len(replicas()) == 2
        assert first[0] not in replicas()
        assert ask(0) == (PROMPTS[0], wanted[PROMPTS[0]])
