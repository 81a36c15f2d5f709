"""Requests of the shapes that coding agents send, with texts of our own.

Recorded on loopback from Claude Code 2.1.197, Codex 0.171.0, opencode 1.18.33, Cline 3.0.65, Qwen
Code 0.15.10, and the agents of LangChain 1.5 and pydantic-ai 2.68, and from the chats of aider
0.86.2 and Open WebUI 0.12.4; kept are the fields, the kinds of blocks and items, and what their
schemas are made of.
"""

from __future__ import annotations

import json
from typing import Any

FILE = "/project/notes.txt"
WORD = "pelican"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
LARGEST = 9007199254740991
"""Of JavaScript's whole numbers: zod writes it as a bound."""
_TEXT = {"type": "string", "description": "A text."}
_BRIEF = {"type": "string", "minLength": 1}


def _schema(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), **more}


_CLOSED: dict[str, Any] = {"additionalProperties": False}
_LINE = {
    "anyOf": [{"type": "integer", "exclusiveMinimum": 0, "maximum": LARGEST}, {"type": "null"}]
}


def claude_code(*, reads: bool = False) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a request of Claude Code.

    Args:
        reads: It is the one behind the call of a tool.
    """
    kept = {"cache_control": {"type": "ephemeral"}}
    mark = {} if reads else kept
    schemas = {
        "Read": _schema(
            {"file_path": _TEXT, "offset": {"type": "integer", "minimum": 0, "maximum": LARGEST},
             "limit": {"type": "integer", "exclusiveMinimum": 0, "maximum": LARGEST}},
            "file_path", **_CLOSED),
        "Edit": _schema(
            {"file_path": _TEXT, "replace_all": {"type": "boolean", "default": False}},
            "file_path", **_CLOSED),
        "TaskUpdate": _schema(
            {"status": {"anyOf": [{"type": "string", "enum": ["pending", "completed"]},
                                  {"type": "string", "const": "deleted"}]},
             "metadata": {"type": "object", "propertyNames": {"type": "string"},
                          "additionalProperties": {}}}, **_CLOSED),
        "WebFetch": _schema(
            {"url": {"type": "string", "format": "uri"}, "args": {"description": "Anything."}},
            "url", **_CLOSED),
        "Workflow": _schema(
            {"script": {"type": "string", "maxLength": 524288},
             "run": {"type": "string", "pattern": "^wf_[a-z0-9-]{6,}$"}}, **_CLOSED),
    }  # fmt: skip
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [
            {"type": "text", "text": "<system-reminder>\nA note.\n</system-reminder>\n"},
            {"type": "text", "text": f"What is in {FILE}?", **mark}]},
        {"role": "system", "content": "Agents that there are: one."},
    ]  # fmt: skip
    if reads:
        messages += [
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "I read it.", "signature": "mtkit"},
                {"type": "tool_use", "id": "toolu_1", "name": "Read",
                 "input": {"file_path": FILE}}]},
            {"role": "user", "content": [
                {"tool_use_id": "toolu_1", "type": "tool_result",
                 "content": f"1\t{WORD}\n", **kept}]},
        ]  # fmt: skip
    return "/v1/messages?beta=true", {
        "model": "claude-opus-4-8",
        "messages": messages,
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.197.e12; "
             "cc_entrypoint=sdk-cli; cch=0a1b2;"},
            {"type": "text", "text": "You are an agent.", **kept},
            {"type": "text", "text": "\nYou help with files.", **kept},
        ],
        "tools": [
            {"name": name, "description": "A tool.", "input_schema": {"$schema": DRAFT, **schema}}
            for name, schema in schemas.items()
        ],
        "metadata": {"user_id": json.dumps({"device_id": "0", "session_id": "1"})},
        "max_tokens": 64000,
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high"},
        "stream": True,
    }  # fmt: skip


def codex(*, reads: bool = False) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a request of Codex; as ``claude_code``."""

    def message(role: str, *texts: str) -> dict[str, Any]:
        content = [{"type": "input_text", "text": text} for text in texts]
        return {"type": "message", "id": "msg_0", "role": role, "content": content}

    def tool(name: str, properties: dict[str, Any], *required: str) -> dict[str, Any]:
        given = _schema(properties, *required, **_CLOSED)
        return {"type": "function", "name": name, "description": "A tool.", "strict": False,
                "parameters": given}  # fmt: skip

    items = [
        message("developer", "You are an agent."),
        message("developer", "Skills: none.", "You may read all files."),
        message("user", "<environment_context>\n  <cwd>/project</cwd>\n</environment_context>"),
        message("user", f"What is in {FILE}?"),
    ]
    if reads:
        items += [
            {"type": "reasoning", "id": "rs_0", "summary": [],
             "encrypted_content": "SSByZWFkIGl0Lg=="},
            {"type": "function_call", "status": "completed", "id": "fc_0", "name": "exec_command",
             "arguments": json.dumps({"cmd": f"cat {FILE}"}), "call_id": "call_0"},
            {"type": "function_call_output", "id": "fco_0", "call_id": "call_0",
             "output": f"Process exited with code 0\nOutput:\n{WORD}\n"},
        ]  # fmt: skip
    return "/v1/responses", {
        "model": "m",
        "stream": True,
        "input": items,
        "tools": [
            tool("exec_command", {"cmd": _TEXT, "tty": {"type": "boolean"},
                 "rule": {"type": "array", "items": {"type": "string"}},
                 "sandbox": {"type": "string", "enum": ["use_default", "require_escalated"]},
                 "yield_time_ms": {"type": "number"}}, "cmd"),
            {"type": "namespace", "name": "agents", "description": "Other agents.",
             "tools": [tool("close_agent", {"target": _TEXT}, "target")]},
            {"type": "custom", "name": "apply_patch", "description": "Changes files.",
             "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}},
            {"type": "web_search", "external_web_access": True},
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"summary": "auto"},
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "0",
        "client_metadata": {"session_id": "0"},
    }  # fmt: skip


def _chat(
    texts: list[str], schemas: dict[str, Any], call: tuple[str, dict[str, Any]], reads: bool
) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": texts[0]}, {"role": "user", "content": texts[1]}
    ]  # fmt: skip
    if reads:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        messages += [
            {"role": "assistant", "content": None,
             "tool_calls": [{"id": "call_0", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": "call_0", "content": f"1: {WORD}"},
        ]  # fmt: skip
    return {
        "model": "m",
        "messages": messages,
        "tools": [
            {"type": "function",
             "function": {"name": name, "description": "A tool.", "parameters": schema}}
            for name, schema in schemas.items()
        ],
        "tool_choice": "auto",
        "stream": True,
        "stream_options": {"include_usage": True},
    }  # fmt: skip


def opencode(*, reads: bool = False) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a request of opencode; as ``claude_code``."""
    schemas = {
        "read": _schema({"filePath": _TEXT, "limit": {"type": "number"}}, "filePath"),
        "webfetch": _schema(
            {"url": _TEXT, "format": {"type": "string", "enum": ["a", "b"], "default": "a"}},
            "url"),
    }  # fmt: skip
    schemas = {name: {"$schema": DRAFT, **schema} for name, schema in schemas.items()}
    texts = ["You are an agent.", f'"What is in {FILE}?"']
    body = _chat(texts, schemas, ("read", {"filePath": FILE}), reads)
    return "/v1/chat/completions", {**body, "max_tokens": 2048}


def cline(*, reads: bool = False) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a request of Cline; as ``claude_code``."""
    file = _schema({"path": _TEXT, "start_line": _LINE}, "path", **_CLOSED)
    options = {"type": "array", "items": _BRIEF, "minItems": 2, "maxItems": 5}
    schemas = {
        "read_files": _schema({"files": {"type": "array", "items": file}}, "files", **_CLOSED),
        "ask_question": _schema({"question": _BRIEF, "options": options}, "question", **_CLOSED),
    }
    texts = ["You are an agent.", f"What is in {FILE}?"]
    body = _chat(texts, schemas, ("read_files", {"files": [{"path": FILE}]}), reads)
    return "/v1/chat/completions", body


def qwen_code(*, reads: bool = False) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a request of Qwen Code; as ``claude_code``."""
    schemas = {
        "tool_search": _schema(
            {"query": _BRIEF, "max_results": {"type": "integer", "maximum": 20, "default": 5}},
            "query", **_CLOSED),
        "skill": {**_schema({"skill": _TEXT}, "skill", **_CLOSED),
                  "$schema": "http://json-schema.org/draft-07/schema#"},
        "read_file": _schema(
            {"file_path": _TEXT, "offset": {"description": "A line.", "type": "number"}},
            "file_path"),
    }  # fmt: skip
    texts = ["You are an agent.", "The folder is /project."]
    body = _chat(texts, schemas, ("read_file", {"file_path": FILE}), reads)
    asked = [{"type": "text", "text": f"What is in {FILE}?"}]
    body["messages"][1:2] = [
        {"role": "user", "content": [{"type": "text", "text": texts[1]}]},
        {"role": "assistant", "content": "Thanks for the context!"},
        {"role": "user", "content": asked},
    ]
    del body["tool_choice"]
    return "/v1/chat/completions", {**body, "max_tokens": 8000}


def langchain(*, reads: bool = False) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a request of LangChain's agent; as ``claude_code``."""
    line = {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    schemas = {"read_file": _schema({"path": _TEXT, "limit": line}, "path")}
    texts = ["You are an agent.", f"What is in {FILE}?"]
    body = _chat(texts, schemas, ("read_file", {"path": FILE}), reads)
    del body["tool_choice"]
    return "/v1/chat/completions", {**body, "max_completion_tokens": 600}


def pydantic_ai(*, reads: bool = False) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a request of pydantic-ai; as ``claude_code``."""
    schema = {**_CLOSED, **_schema({"path": {"type": "string"}}, "path")}
    items: list[dict[str, Any]] = [{"role": "user", "content": f"What is in {FILE}?"}]
    if reads:
        items += [
            {"type": "function_call", "name": "read_file", "call_id": "0a1b2c3d4",
             "arguments": json.dumps({"path": FILE})},
            {"type": "function_call_output", "call_id": "0a1b2c3d4", "output": WORD},
        ]  # fmt: skip
    return "/v1/responses", {
        "model": "m", "stream": True, "input": items, "instructions": "You are an agent.",
        "max_output_tokens": 600, "temperature": 0.3, "tool_choice": "auto",
        "tools": [{"type": "function", "name": "read_file", "description": "A tool.",
                   "strict": True, "parameters": schema}],
    }  # fmt: skip


def _turns(*texts: str) -> list[dict[str, Any]]:
    """Return messages of the user and the assistant in turns."""
    roles = ("user", "assistant")
    return [{"role": roles[number % 2], "content": text} for number, text in enumerate(texts)]


def aider(*, reads: bool = False) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a request of aider; as ``claude_code``.

    An example of an answer comes first, and a file is a text of the user's.
    """
    texts = ["Greet as friends do.", "I do:\n\nhi.py\n```\nprint('Hi')\n```\n",
             "These files are gone now.", "Ok."]  # fmt: skip
    if reads:
        texts += [f"These files are in the chat:\n\n{FILE}\n```\n{WORD}\n```\n", "Ok, only those."]
    system = {"role": "system", "content": "You are an agent."}
    messages = [system, *_turns(*texts, f"What is in {FILE}?")]
    return "/v1/chat/completions", {
        "model": "m", "messages": messages, "stream": True, "temperature": 0,
    }  # fmt: skip


def open_webui(*, reads: bool = False) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a request of Open WebUI; as ``claude_code``."""
    source = f'<source id="1" name="notes.txt">{WORD}</source>\n\n' if reads else ""
    messages = _turns("Hello.", "Hello!", f"{source}What is in {FILE}?")
    return "/v1/chat/completions", {
        "model": "m", "messages": messages, "stream": True, "temperature": 0.0, "max_tokens": 64,
        "stream_options": {"include_usage": True},
    }  # fmt: skip


def open_webui_to_ollama(*, reads: bool = False) -> tuple[str, dict[str, Any]]:
    """Return what Open WebUI makes of the same for a server of Ollama; as ``claude_code``."""
    body = open_webui(reads=reads)[1]
    return "/api/chat", {
        "model": "m", "messages": body["messages"], "stream": True,
        "options": {"temperature": 0, "num_ctx": 4096, "num_predict": 64},
    }  # fmt: skip


AGENTS = (claude_code, codex, opencode, cline, qwen_code, langchain, pydantic_ai)
SESSIONS = (*AGENTS, aider, open_webui, open_webui_to_ollama)
"""The chats have no tools."""


def further(body: dict[str, Any], answer: str, question: str) -> dict[str, Any]:
    """Return a request one turn further: what there is of an answer, and the next question."""
    name = "input" if "input" in body else "messages"
    turns = [
        {"role": "assistant", "content": answer}, {"role": "user", "content": question}
    ]  # fmt: skip
    return {**body, name: [*body[name], *turns]}
