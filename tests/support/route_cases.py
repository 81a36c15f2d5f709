"""Requests that schemathesis draws from /openapi.json, right and wrong ones, sent to a server."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from support import reference

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

_WRONG = {404, 405, 415}
"""Refusals that stand outside the description: schemathesis tries other methods and paths, too."""


def drive(url: str, count: int, headers: Mapping[str, str] | None = None) -> Counter[int]:
    """Send requests to every route; returns how often each status was answered.

    Args:
        url: Of a running server.
        count: Requests, in all; routes that take a body get nine tenths of them.
        headers: Sent with each.

    Raises:
        AssertionError: An answer is not described, or is an error without words.
    """
    schemathesis, hypothesis = reference("schemathesis"), reference("hypothesis")
    requests = reference("requests")
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", headers=dict(headers or {}))
    operations = [found.ok() for found in schema.get_all_operations()]
    modes = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
    statuses: Counter[int] = Counter()
    with requests.Session() as session:
        session.headers.update(headers or {})
        posts = [one for one in operations if "requestBody" in one.definition.raw]
        for operation in operations:
            share = count * 9 // 10 // len(posts)
            if operation not in posts:
                share = count // 10 // (len(operations) - len(posts))
            for mode in modes if operation in posts else modes[:1]:
                examples = share // 2 if operation in posts else share

                @hypothesis.settings(
                    max_examples=max(examples, 1), deadline=None, database=None,
                    derandomize=True, suppress_health_check=list(hypothesis.HealthCheck),
                    phases=[hypothesis.Phase.generate],
                )  # fmt: skip
                @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
                def send(case: Any) -> None:
                    answer = case.call(base_url=url, session=session, timeout=120)
                    statuses[answer.status_code] += 1
                    _check(case, answer)

                send()
    return statuses


def _check(case: Any, answer: Any) -> None:
    known = {int(status) for status in case.operation.definition.raw["responses"]} | _WRONG
    said = (case.method, case.path, case.body, answer.status_code, answer.text[:500])
    assert answer.status_code in known, said
    if answer.status_code >= 400 and case.method.upper() != "HEAD":  # which has no body
        error = answer.json()["error"]
        # Ollama's errors are a text, those of the other APIs an object.
        assert error if case.path.startswith("/api/") else error["message"], said


ASK = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
_CALL = {"type": "function", "id": "1", "function": {"name": "f", "arguments": "{}"}}
_HISTORY = [
    {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
    {"role": "assistant", "content": None, "reasoning_content": "x", "tool_calls": [_CALL]},
    {"role": "tool", "tool_call_id": "1", "content": "5"}, *ASK["messages"],
]  # fmt: skip
_SCHEMA = {"type": "object", "required": ["a"], "properties": {
    "a": {"type": "string", "pattern": "^[a-z]{1,3}$"}, "b": {"type": "array", "minItems": 1},
    "c": {"enum": ["x", 1]}, "d": {"$ref": "#/$defs/e"}},
    "$defs": {"e": {"type": "integer", "minimum": 2}},
}  # fmt: skip
BODIES: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "Hi", "max_tokens": 2, "logprobs": 1, "stop": ["x"], "n": 2},
    "/v1/chat/completions": {
        **ASK, "logprobs": True, "top_logprobs": 2, "response_format": {"type": "json_object"},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    },
    "/v1/messages": {**ASK, "system": "Be.", "stop_sequences": ["x"],
                     "tools": [{"name": "f", "input_schema": {}}]},
    "/v1/messages/count_tokens": {"messages": ASK["messages"], "system": [{"text": "x"}]},
    "/tokenize": {"content": "Hi", "add_special": True, "with_pieces": True},
    "/detokenize": {"tokens": [1, 2, 3], "special": True},
    "/apply-template": {"messages": ASK["messages"], "tools": []},
}  # fmt: skip
OTHER_BODIES: dict[str, Any] = {
    "/v1/chat/completions?": {
        "messages": _HISTORY, "max_completion_tokens": 2, "tool_choice": "auto", "n": 1,
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": _SCHEMA}},
        "chat_template_kwargs": {"enable_thinking": True}, "parallel_tool_calls": False,
    },
    "/v1/chat/completions/input_tokens": {"messages": _HISTORY},
    "/v1/responses": {"input": [{"role": "user", "content": [
                          {"type": "input_text", "text": "Hi"}]}],
                      "max_output_tokens": 2, "instructions": "Be.", "tools": [
                          {"type": "function", "name": "f", "parameters": _SCHEMA}],
                      "text": {"format": {"type": "text"}}, "store": False},
    "/v1/embeddings": {"input": ["a", [1, 2]], "encoding_format": "base64", "dimensions": 3},
    "/embedding": {"content": "a", "embd_normalize": 2}, "/embeddings": {"input": "a"},
    "/rerank": {"query": "a", "documents": ["b", {"text": "c"}], "top_n": 1},
    "/completion": {"prompt": ["Hi", 5], "n_predict": 2, "n_probs": 2, "json_schema": _SCHEMA,
                    "samplers": ["top_k", "min_p"], "dry_sequence_breakers": ["x"], "id_slot": 0,
                    "logit_bias": [[5, 1.5], ["x", False]], "t_max_predict_ms": 90},
    "/infill": {"input_prefix": "a", "input_suffix": "b", "n_predict": 2,
                "input_extra": [{"text": "c", "filename": "d"}]},
    "/lora-adapters": [{"id": 0, "scale": 1.5}],
    "/api/chat": {**ASK, "stream": False, "options": {"num_predict": 2, "stop": ["x"]},
                  "think": False, "format": _SCHEMA, "keep_alive": "5m"},
    "/api/generate": {"prompt": "Hi", "suffix": "", "raw": True, "options": {"num_predict": 2},
                      "images": [], "context": [1], "template": "{{ .Prompt }}"},
    "/api/embed": {"input": ["a"], "truncate": True}, "/api/embeddings": {"prompt": "a"},
    "/api/show": {"model": "m", "verbose": True}, "/api/pull": {"model": "m", "stream": False},
    "/slots/0?action=erase": {}, "/slots/0?action=save": {"filename": "x"},
    "/slots/0?action=restore": {"filename": "x"},
}  # fmt: skip
SAMPLER = (
    "temperature", "top_k", "top_p", "min_p", "typical", "seed", "dry", "dry_last", "mirostat",
    "repeat_penalty", "penalty_last", "grammar", "json_schema", "logit_bias", "xtc", "stream",
    "ignore_eos", "stream_options", "tool_choice", "thinking", "explain_cache", "speculative",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, -1, 0.5, 1e308, -1e308, 2**31, 2**63, 10**30, "", "x", "\0", "你😀",
    "<|im_end|>", "x" * 5000, [], {}, [[]], [{}], ["x"], [1], [None], {"x": 1}, {"5": -100},
    {"type": "object"}, {"type": "tool_use", "name": "f", "input": 3}, {"$ref": "#"},
    {"properties": {"a": {"$ref": "#"}}}, 'root ::= "a"*', "root ::= root", "root ::= [", "{{",
)  # fmt: skip


def changed(value: Any, chance: random.Random, depth: int = 0) -> Any:
    """Return a JSON value of which some part is another."""
    if depth and chance.random() < 0.25:
        return chance.choice(VALUES)
    if isinstance(value, dict) and value:
        name = chance.choice(list(value))
        kept = {key: part for key, part in value.items() if key != name or chance.random() > 0.2}
        return {**kept, name: changed(value[name], chance, depth + 1)} if name in kept else kept
    if isinstance(value, list) and value:
        at = chance.randrange(len(value))
        return [*value[:at], changed(value[at], chance, depth + 1), *value[at + 1 :]]
    return chance.choice(VALUES)
