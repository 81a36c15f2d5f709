"""Sampling: which token comes next.

Greedy choice is numpy's maximum over the view of the logits (10 against 160 us at 150 000 ids; both
take the lowest id of equals). Everything else is a chain of llama.cpp's samplers, in the order of
its own tools: penalties, DRY, top-n-sigma, top-k, typical, top-p, min-p, XTC, temperature. A
grammar is asked about the one chosen token first, and about all only where it does not take it;
while the model reasons (``reasoning``), it waits.
"""

from __future__ import annotations

import os
import time

from mtkit.base.process import Closeable
from mtkit.base.record import replace
from mtkit.errors import ResourceError
from mtkit.llama import Chain, Grammar
from mtkit.llama.media import text_ids
from mtkit.llm.reasoning import BEFORE, OPEN, OVER, ReasoningWatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mtkit.llama import Context, Model
    from mtkit.llm.reasoning import Reasoning
    from mtkit.settings import SamplerSettings

MOST_SECONDS, MOST_OF_ANSWER = 1.0, 30.0
"""Seconds of CPU time that a grammar may take for a token, and for all tokens of an answer."""
MOST_LOCKED = 0.02
"""Seconds of a token in which llguidance may hold Python's lock."""
_QUICK = 0.001
"""Above it, llguidance masks all tokens at once, which takes no lock, not single ones."""
DRY_BREAKERS = ("\n", ":", '"', "*")


class Sampler(Closeable):
    """Chooses tokens of one context; close it, or use it in ``with``.

    Attributes:
        sample: Returns the token behind a row of the last batch, by default the last one; -1
            where the grammar takes none.
    """

    def __init__(
        self, context: Context, settings: SamplerSettings, *, distributions: bool = False
    ) -> None:
        """Make the samplers; ``distribution`` needs ``distributions``."""
        self._context = context
        model = context.model
        self._chain: Chain | None = None
        self._cuts: Chain | None = None
        self._grammar: Grammar | None = None
        self._watch: ReasoningWatch | None = None
        self._locked = self._followed = 0.0
        self.steps: list[str] = []
        seed = settings.seed
        self.seed: int = int.from_bytes(os.urandom(4), "little") if seed is None else seed
        settings = replace(settings, seed=self.seed)
        biases = _biases(model, settings)
        model.check_ids(token_id for token_id, _ in biases)
        if settings.ignore_eos:
            biases += [(token_id, float("-inf")) for token_id in sorted(model.eog_ids)]
        self._bias = _arrays(biases) if biases else None
        if biases:
            self.steps.append(f"logit bias ({len(biases)} ids)")
        if settings.json_schema is not None:
            self._grammar = Grammar(model, schema=settings.json_schema)
        elif settings.grammar is not None:
            self._grammar = Grammar(model, text=settings.grammar)
        if self._grammar:
            self.steps.append("grammar")
        if not settings.is_greedy or settings.has_penalties:
            self._chain = _chain(context, settings, self.steps)
            self._cuts = cuts(context, settings) if distributions else None
        else:
            self.steps.append("greedy")
        self._sample: Callable[..., int] = self._sample_greedy
        if self._grammar:
            self._sample = self._sample_grammar
        elif self._chain:
            self._sample = self._sample_chain
        elif self._bias:
            self._sample = self._sample_biased
        self.sample = self._sample

    def watch(self, reasoning: Reasoning | None) -> None:
        """Begin an answer that may reason: a grammar waits so long, and its budget ends it."""
        self._watch = ReasoningWatch(reasoning, self._context.model) if reasoning else None
        is_bounded = reasoning is not None and reasoning.budget is not None
        self.sample = self._sample_bounded if is_bounded and not self._grammar else self._sample

    @property
    def has_grammar(self) -> bool:
        """Whether a grammar or a schema says what an answer may be."""
        return self._grammar is not None

    @property
    def is_free(self) -> bool:
        """Whether the grammar waits: the next token costs no more than without one."""
        watch = self._watch
        return watch is not None and (watch.phase == OPEN or bool(watch.due))

    def _logits(self, row: int) -> Any:
        logits = self._context.logits(row)
        if self._bias:
            ids, values = self._bias
            logits[ids] += values
        return logits

    def _sample_greedy(self, row: int = -1) -> int:
        return int(self._context.logits(row).argmax())

    def _sample_biased(self, row: int = -1) -> int:
        return int(self._logits(row).argmax())

    def _sample_chain(self, row: int = -1) -> int:
        assert self._chain is not None
        self._logits(row)  # the bias goes into the buffer that llama.cpp reads
        token_id = self._chain.sample(self._context, row)
        if self._cuts:
            self._cuts.accept(token_id)
        return token_id

    def _sample_bounded(self, row: int = -1) -> int:
        watch = self._watch
        assert watch is not None
        if watch.due:
            token_id = watch.take_due()
            self.accept((token_id,))
            return token_id
        token_id = self._sample(row)
        watch.follow(token_id)
        return token_id

    def distribution(self, row: int = -1) -> tuple[Any, Any]:
        """Return ids and logits of the tokens that could be chosen.

        Their softmax is the distribution that drawing follows; pass the choice to ``accept``.
        """
        assert self._cuts is not None
        return self._cuts.cut(self._logits(row))

    def _sample_grammar(self, row: int = -1) -> int:
        return self.follow(self._logits(row))

    def copied(self, row: int) -> Any:
        """Return a copy of a row of logits for ``follow``."""
        return self._logits(row).copy()

    def follow(self, logits: Any) -> int:
        """Return the token that the grammar takes; may be called in any thread.

        Args:
            logits: Of shape (n_vocab,), changed in place.
        """
        grammar, chain = self._grammar, self._chain
        assert grammar is not None
        if self._watch is not None and (self._watch.due or self._watch.phase != OVER):
            token = self._reason(self._watch, grammar, logits)
            if token >= 0:
                if chain:
                    chain.accept(token)
                return token
        start = time.thread_time()
        token = self._choose(logits)
        if self._locked > _QUICK or not grammar.allows(token) or logits[token] == float("-inf"):
            if not grammar.mask(logits):
                return -1
            token = self._choose(logits)
            if logits[token] == float("-inf"):  # the samplers left no token that is allowed
                return -1
        choice_end = time.thread_time()
        grammar.accept(token)
        if chain:
            chain.accept(token)
        end = time.thread_time()
        seconds, self._locked = end - start, end - choice_end
        self._followed += seconds
        slow = ""
        if seconds > MOST_SECONDS or self._locked > MOST_LOCKED:  # the next takes longer still
            slow = f"a token took {seconds:.2f} s"
        elif self._followed > MOST_OF_ANSWER:
            slow = f"the tokens took {self._followed:.0f} s"
        if slow:
            what = f"{slow}: the text can follow it in too many ways"
            raise ResourceError(what, field="grammar")
        return token

    def _reason(self, watch: ReasoningWatch, grammar: Grammar, logits: Any) -> int:
        """Return the next token of the reasoning, and of its signs; -1 where the answer begins.

        A model that ends its answer inside the reasoning is made to close it.
        """
        model = self._context.model
        while True:
            if watch.due:
                return watch.take_due()
            token = self._choose(logits)
            if logits[token] == float("-inf"):
                return -1
            if token in model.eog_ids and watch.phase == OPEN:
                watch.close()
                continue
            piece = watch.piece(token)
            state, rest = watch.step(piece)
            if watch.has_begun:
                if state[0] != OVER:
                    watch.enter(state)
                    return token
                watch.open()
                continue
            if token in model.eog_ids:
                break
            is_blank = watch.phase == BEFORE and not piece.strip()
            if rest == piece or is_blank or (watch.phase == BEFORE and grammar.allows(token)):
                break
            ids = model.tokenize(rest, add_special=False, parse_special=False) if rest else []
            # a vocabulary may put a space before a text
            is_same = b"".join(model.piece(token_id) for token_id in ids) == rest
            if is_same and (not ids or (not watch.rest and grammar.accept_all(ids))):
                watch.enter(state)
                return token
            logits[token] = float("-inf")
        watch.end()
        return -1

    def _choose(self, logits: Any) -> int:
        return self._chain.choose(logits) if self._chain else int(logits.argmax())

    def accept(self, ids: Sequence[int]) -> None:
        """Count tokens for the penalties that were not sampled here, such as a prompt's."""
        for chain in self._chains():
            for token_id in text_ids(ids):
                chain.accept(token_id)

    def _chains(self) -> list[Chain]:
        return [chain for chain in (self._chain, self._cuts) if chain]

    def reset(self) -> None:
        """Begin anew: no tokens seen, the grammar at its start, the random numbers at theirs."""
        self.watch(None)
        for chain in self._chains():
            chain.reset()
        if self._grammar:
            self._grammar.reset()
            self._locked = self._followed = 0.0

    def close(self) -> None:
        """Free the samplers."""
        for chain in self._chains():
            chain.close()
        if self._grammar:
            self._grammar.close()


def cuts(context: Context, settings: SamplerSettings) -> Chain:
    """Return the chain of settings that are not greedy, without the draw at its end."""
    return _chain(context, settings, [], draws=False)


def _biases(model: Model, settings: SamplerSettings) -> list[tuple[int, float]]:
    """Return ids and their biases; a text stands for all its tokens."""
    biases: list[tuple[int, float]] = []
    for name, value in settings.logit_bias:
        ids = [name] if isinstance(name, int) else model.tokenize(name, add_special=False)
        biases += [(token_id, value) for token_id in ids]
    return biases


def _arrays(biases: list[tuple[int, float]]) -> Any:
    """Return ids, each once, and the sum of their biases."""
    import numpy as np

    total: dict[int, float] = {}
    for token_id, value in biases:
        total[token_id] = total.get(token_id, 0.0) + value
    return np.array(list(total), np.int64), np.array(list(total.values()), np.float32)


def _chain(
    context: Context, settings: SamplerSettings, steps: list[str], *, draws: bool = True
) -> Chain:
    """Make llama.cpp's chain, without samplers that would do nothing."""
    import ctypes

    chain = Chain()
    s = settings

    def add(step: str, name: str, *arguments: Any) -> None:
        chain.add(name, *arguments)
        steps.append(step)

    vocab, n_vocab = context.model.vocab, context.model.n_vocab
    if s.repeat_penalty != 1 or s.frequency_penalty or s.presence_penalty:
        last = min(s.penalty_last, context.n_ctx)
        add(
            f"penalties last={last} repeat={s.repeat_penalty:g} frequency={s.frequency_penalty:g} "
            f"presence={s.presence_penalty:g}",
            "penalties", n_vocab, last, s.repeat_penalty, s.frequency_penalty, s.presence_penalty,
        )  # fmt: skip
    if s.dry > 0:
        last = context.n_ctx if s.dry_last < 0 else min(s.dry_last, context.n_ctx)
        breakers = (ctypes.c_char_p * len(DRY_BREAKERS))(*(b.encode() for b in DRY_BREAKERS))
        add(
            f"dry multiplier={s.dry:g} base={s.dry_base:g} length={s.dry_length} last={last}",
            "dry", vocab, s.dry, s.dry_base, s.dry_length, last, breakers, len(DRY_BREAKERS),
        )  # fmt: skip
    if s.is_greedy:
        add("greedy", "greedy")
        return chain
    if s.mirostat:
        add(f"temperature {s.temperature or 1:g}", "temp", s.temperature or 1.0)
        text = f"mirostat {s.mirostat} tau={s.mirostat_tau:g} eta={s.mirostat_eta:g}"
        if s.mirostat == 1:
            add(text, "mirostat", n_vocab, s.seed, s.mirostat_tau, s.mirostat_eta, 100)
        else:
            add(text, "mirostat_v2", s.seed, s.mirostat_tau, s.mirostat_eta)
        return chain
    if s.top_n_sigma > 0:
        add(f"top-n-sigma {s.top_n_sigma:g}", "top_n_sigma", s.top_n_sigma)
    if s.top_k > 0:
        add(f"top-k {s.top_k}", "top_k", s.top_k)
    if s.typical < 1:
        add(f"typical {s.typical:g}", "typical", s.typical, 1)
    if s.top_p < 1:
        add(f"top-p {s.top_p:g}", "top_p", s.top_p, 1)
    if s.min_p > 0:
        add(f"min-p {s.min_p:g}", "min_p", s.min_p, 1)
    if s.xtc > 0:
        add(
            f"xtc {s.xtc:g} threshold={s.xtc_threshold:g}", "xtc", s.xtc, s.xtc_threshold, 1, s.seed
        )
    add(f"temperature {s.temperature:g}", "temp", s.temperature)
    if draws:
        add(f"random seed={s.seed}", "dist", s.seed)
    return chain
