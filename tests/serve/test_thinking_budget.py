"""A budget of thinking: the reasoning ends where its tokens are spent, and the answer goes on."""

from __future__ import annotations

from pathlib import Path

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
