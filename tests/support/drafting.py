"""A target that writes behind prompts, with a draft or without."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support import reference, shared

from mtkit.llm.runner import open_model
from mtkit.llm.sampling import Sampler
from mtkit.settings import GenerateSettings
from mtkit.settings.declaration import settings_of
from mtkit.speculative.setup import open_speculation, prepare_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

PLAIN: dict[str, Any] = {"draft_lookup": True, "draft_max": 0}
"""Plain decoding in the configuration that is exact."""


def own(part: str, kind: str) -> str:
    """Return the path of a model of the trained pair."""
    reference("llama_cpp")
    return str(shared(f"own/model/mtkit-docs-{part}-{kind}.gguf"))


def prompts(language: str, count: int) -> list[str]:
    """Return held-out texts."""
    lines = shared(f"own/prompts/{language}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["prompt"] for line in lines[:count]]


class Target:
    """A target that answers many prompts with several drafts."""

    def __init__(self, model: str, **given: Any) -> None:
        self._settings = settings_of(
            GenerateSettings, {"n_ctx": 640, "threads": 1, **given, "model": model}
        )
        self._settings = prepare_settings(self._settings)
        self.runner = open_model(self._settings)
        context = self.runner.open_context()
        self._sampler = Sampler(context, self._settings.sampler)
        self.speculation = open_speculation(self.runner, self._settings, 1)

    def ids(self, prompt: str | Sequence[int], limit: int) -> list[int]:
        """Return the tokens behind a prompt."""
        runner = self.runner
        given = runner.model.tokenize(prompt) if isinstance(prompt, str) else list(prompt)
        runner.feed(given)
        for _ in runner.stream(self._sampler, limit, speculation=self.speculation):
            pass
        context = runner.context
        assert context is not None
        assert context.n_past <= len(runner.ids)
        return runner.ids[len(given) :]

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *_: object) -> None:
        if self.speculation is not None:
            self.speculation.close()
        self._sampler.close()
        self.runner.close()
