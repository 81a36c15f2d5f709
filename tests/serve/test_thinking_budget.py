"""A budget of thinking: the reasoning ends where its tokens are spent, and the answer goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from llm_models import chatting
from serving_http import server
from support import reference

THINKING = (
    "{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content %}<think>"
    "{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% if thinking is not false %}<think>{% endif %}"
    "{% endif %}"
)
ASK = [{"role": "user", "content": "Weather?"}]


class Counting:
    """A sampler and what it chooses, in one."""

    def __init__(self, ids: list[int]) -> None:
        self.ids, self.accepted = ids, []  # type: ignore[var-annotated]

    def choose(self, *_: object) -> int:
        return self.ids.pop(0)

    def accept(self, ids: tuple[int, ...]) -> None:
        self.accepted += ids


@pytest.mark.parametrize(
    ("said", "is_open", "wanted"),
    [
        ("abcdefgh", True, "abcXYdefgh"),
        ("ab!cdefgh", True, "ab!cdefgh"),
        ("(abcdefgh", False, "(abcXYdefgh"),
        ("abcdefgh", False, "abcdefgh"),
    ],
)
def test_what_closes_a_reasoning_is_put_in(said: str, is_open: bool, wanted: str) -> None:
    from mtkit.serve.job import BudgetVerification, ThinkingBudget
    from mtkit.speculative.verification import Proposal

    counting: Any = Counting([ord(one) for one in said])
    budget = ThinkingBudget(3, is_open, "(", ("!",), (ord("X"), ord("Y")))
    bounded = BudgetVerification(counting, counting, budget, lambda one: bytes((one,)))
    found = "".join(chr(bounded.choose(Proposal([]), 0, -1)) for _ in wanted)
    assert found == wanted
    assert counting.accepted == ([88, 89] if "X" in wanted else [])


def test_a_server_ends_a_reasoning(tmp_path: Path) -> None:
    http = reference("httpx")
    file = tmp_path / "thinking.jinja"
    file.write_text(THINKING, encoding="utf-8")
    asked = {"messages": ASK, "max_tokens": 30, "ignore_eos": True}
    args = ("-np", "1", "-c", "8192", "--template", file)
    with server(chatting(), *args, "--reasoning-budget", "5") as started:
        path = f"{started.url}/v1/chat/completions"
        asked["logprobs"] = True
        (choice,) = http.post(path, json=asked, timeout=60).json()["choices"]
        told = [one["token"] for one in choice["logprobs"]["content"]]
        assert "".join(told[5:]).lstrip().startswith("</think>")
        assert choice["message"]["reasoning_content"]
        assert choice["message"]["content"]
    with server(chatting(), *args) as started:
        path = f"{started.url}/v1/chat/completions"
        message = http.post(path, json=asked, timeout=60).json()["choices"][0]["message"]
        assert not message["content"]
        spoken = {**asked, "thinking": {"type": "enabled", "budget_tokens": 5}}
        found = http.post(f"{started.url}/v1/messages", json=spoken, timeout=60).json()
        assert [block["type"] for block in found["content"]] == ["thinking", "text"]
