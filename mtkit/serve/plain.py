"""The shape of llama-server's own answers: ``/completion`` and ``/infill``.

Source: llama.cpp, tools/server/server-task.cpp (``to_json_non_oaicompat``).
"""

from __future__ import annotations

import math

from mtkit.serve.job import Done, Progress
from mtkit.serve.prompts import spelled
from mtkit.serve.shapes import Shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.serve.bodies.llama import Complete
    from mtkit.serve.job import Piece, Terms
    from mtkit.serve.served import Served
    from mtkit.settings import SamplerSettings

_STOPS = {"eog": "eos", "grammar": "eos", "length": "limit", "stop": "word"}
_NAMES = {
    "temperature": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p",
    "top_n_sigma": "top_n_sigma", "xtc_probability": "xtc", "xtc_threshold": "xtc_threshold",
    "typical_p": "typical", "repeat_last_n": "penalty_last", "repeat_penalty": "repeat_penalty",
    "presence_penalty": "presence_penalty", "frequency_penalty": "frequency_penalty",
    "dry_multiplier": "dry", "dry_base": "dry_base", "dry_allowed_length": "dry_length",
    "dry_penalty_last_n": "dry_last", "mirostat": "mirostat", "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta", "ignore_eos": "ignore_eos",
}  # fmt: skip
"""llama-server's names of settings -> ours."""
_FIXED = {
    "dynatemp_range": 0.0, "dynatemp_exponent": 1.0, "adaptive_target": -1.0,
    "adaptive_decay": 0.9, "n_discard": 0, "min_keep": 0, "backend_sampling": False,
}  # fmt: skip
"""What it can set besides, and what it is here."""
_NO_SEED = (1 << 32) - 1
_LEAST = float.fromhex("-0x1.fffffep+127")
"""In the place of the logarithm of 0: the least number of 32 bits."""


def settings_told(served: Served, terms: Terms | None = None) -> dict[str, Any]:
    """Return how tokens are chosen; of a request, or where one does not say."""
    sampler = terms.sampler if terms else served.settings.sampler
    limit = terms.limit if terms else served.settings.n_predict
    limit = -1 if limit is None else limit
    found: dict[str, Any] = {name: getattr(sampler, ours) for name, ours in _NAMES.items()}
    found |= {
        **_FIXED,
        "seed": _NO_SEED if sampler.seed is None else sampler.seed,
        "max_tokens": limit,
        "n_predict": limit,
        "n_keep": terms.keep if terms else 0,
        "n_probs": (terms.top or 0) if terms else 0,
        "post_sampling_probs": terms.sampled if terms else False,
    }
    if terms:
        found |= {
            "stop": list(terms.stops),
            "logit_bias": _biases(served, sampler),
            "grammar": sampler.grammar or "",
        }
    return found


def _biases(served: Served, sampler: SamplerSettings) -> list[dict[str, Any]]:
    model = served.model
    pairs: list[tuple[int, float]] = []
    for name, bias in sampler.logit_bias:
        ids = [name] if isinstance(name, int) else model.tokenize(name, add_special=False)
        pairs += [(token_id, bias) for token_id in ids]
    if sampler.ignore_eos:
        pairs += [(token_id, float("-inf")) for token_id in sorted(model.eog_ids)]
    return [{"bias": bias, "token": token_id} for token_id, bias in pairs]


def ended(shape: Shape, index: int, text: str, said: str, ids: Sequence[int]) -> dict[str, Any]:
    """Return what is told at the end of an answer.

    Args:
        shape: Whose.
        index: Which.
        text: The answer.
        said: What of it is told here.
        ids: Its tokens, if they are told here.
    """
    answers, served = shape.answers, shape.served
    done, prompt = answers.done[index], answers.prompt(index)
    fields = getattr(shape.asked, "response_fields", None) or ["prompt"]
    return {
        "index": index,
        "content": said,
        "tokens": list(ids),
        "id_slot": answers.begun[index].slot,
        "stop": True,
        "model": served.name,
        "tokens_predicted": done.generated,
        "tokens_evaluated": len(prompt),
        "generation_settings": {
            **settings_told(served, shape.terms),
            "stream": shape.asked.stream,
            "timings_per_token": shape.asked.timings_per_token,
        },
        "prompt": spelled(served.model, prompt) if "prompt" in fields else None,
        "has_new_line": "\n" in text,
        "truncated": done.truncated,
        "stop_type": _STOPS[done.end],
        "stopping_word": done.stop or "",
        "tokens_cached": len(prompt) + max(done.generated - 1, 0),
        "timings": answers.timings[index].told(),
        **({"cache": answers.explanation()} if shape.asked.explain_cache else {}),
    }


class Plain(Shape):
    """The shape of ``/completion``."""

    asked: Complete

    def __init__(self, served: Served, asked: Complete, terms: Terms, prompts: Any) -> None:
        """Prepare the answers, as ``Shape``."""
        super().__init__(served, asked, terms, prompts)
        self._pieces: list[list[Piece]] = [[] for _ in range(self.answers.count)]
        self._texts = [""] * self.answers.count

    def told(self, index: int, told: Progress | Piece | Done) -> list[Any]:
        """Return the event of what was told."""
        if isinstance(told, Progress):
            return [{**self._part(index, "", []), **self.progress(index, told)}]
        self._texts[index] += told.text
        if isinstance(told, Done):
            return [self._fields(ended(self, index, self._texts[index], told.text, []))]
        self._pieces[index].append(told)
        part = self._part(index, told.text, [told.id])
        return [{**part, **self.timed(index), **self._probabilities([told])}]

    def keep(self, index: int, told: Progress | Piece | Done) -> None:
        """Remember what was told."""
        if isinstance(told, Progress):
            return
        self._texts[index] += told.text
        if not isinstance(told, Done):
            self._pieces[index].append(told)

    def whole(self) -> Any:
        """Return the answer, or a list of them."""
        found = []
        for index, (text, pieces) in enumerate(zip(self._texts, self._pieces, strict=True)):
            ids = [piece.id for piece in pieces] if self.asked.return_tokens else []
            one = {**ended(self, index, text, text, ids), **self._probabilities(pieces)}
            found.append(self._fields(one))
        return found[0] if len(found) == 1 else found

    def _part(self, index: int, text: str, ids: list[int]) -> dict[str, Any]:
        return {
            "index": index,
            "content": text,
            "tokens": ids,
            "stop": False,
            "id_slot": self.answers.begun[index].slot,
            "tokens_predicted": len(self._pieces[index]),
            "tokens_evaluated": len(self.answers.prompt(index)),
        }

    def _probabilities(self, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return how probable tokens were, and others in their place."""
        model, sampled = self.served.model, self.terms.sampled

        def named(token_id: int, raw: bytes, chance: float) -> dict[str, Any]:
            one: dict[str, Any] = {"id": token_id, "token": raw.decode("utf-8", "replace")}
            one["bytes"] = list(raw)
            one["prob" if sampled else "logprob"] = (
                math.exp(chance) if sampled else max(chance, _LEAST)
            )
            return one

        found = []
        for piece in pieces:
            if piece.chances is not None:
                top = [
                    named(token_id, model.piece(token_id, special=True), chance)
                    for token_id, chance in piece.chances.top
                ]
                one = named(piece.id, piece.raw, piece.chances.logprob)
                found.append({**one, "top_probs" if sampled else "top_logprobs": top})
        return {"completion_probabilities": found} if found else {}

    def _fields(self, one: dict[str, Any]) -> dict[str, Any]:
        """Return the fields that are asked for, by the names that the request has."""
        if not self.asked.response_fields:
            return one
        found = {}
        for name in self.asked.response_fields:
            value: Any = one
            for key in name.split("/"):
                value = value.get(key) if isinstance(value, dict) else None
            if value is not None:
                found[name] = value
        return found
