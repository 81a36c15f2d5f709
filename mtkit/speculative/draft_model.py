"""Drafts by a model, which is loaded once, for one draft or for one in every slot.

``ModelDraft`` proposes the tokens of a smaller model; ``DraftLoader`` makes drafts as settings say.
"""

from __future__ import annotations

from mtkit.base.process import Closeable
from mtkit.base.record import replace
from mtkit.errors import UnsupportedError, UsageError, wording
from mtkit.gguf.arrays import GgufArray
from mtkit.gguf.values import EMBEDDING, HEAD, Rows
from mtkit.llama import Context
from mtkit.llm.header import ModelHeader
from mtkit.llm.runner import open_model
from mtkit.settings import ModelSettings
from mtkit.sources.locate import MODEL, locate
from mtkit.speculative import draft_file
from mtkit.speculative.drafts import FirstOf, Lazy, Lookup
from mtkit.speculative.exactness import matrices
from mtkit.speculative.translation import TranslatedDraft, Translation
from mtkit.speculative.verification import Distribution, Proposal
from mtkit.speculative.vocabulary import (
    SharedVocabulary,
    StaticVocabulary,
    WholeVocabulary,
    is_dynamic,
    open_index,
    open_learner,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mtkit.gguf import GgufFile
    from mtkit.llama import Chain
    from mtkit.llm.runner import Runner
    from mtkit.settings import AnswerSettings, SamplerSettings
    from mtkit.speculative.drafts import Draft
    from mtkit.speculative.verification import Outcome
    from mtkit.speculative.vocabulary import Learner


class ModelDraft:
    """Proposes the tokens that a model finds most likely, or draws them.

    Attributes:
        learning: Changes its vocabulary between rounds, if not None.
        script: Place in the text -> what to propose there instead; for benchmarks.
    """

    free, overlap = False, 0
    script: Callable[[int], int] | None = None

    def __init__(
        self,
        context: Context,
        vocabulary: WholeVocabulary,
        *,
        least: float = 0.0,
        cuts: Chain | None = None,
        random: Any = None,
        learning: Learner | None = None,
    ) -> None:
        """Take a context of a model.

        Args:
            least: Stop where even the most likely token has less than this probability. To depend
                on the token that was drawn would be a bias.
            cuts: Sampler chain to draw with; None to take the most likely token.
        """
        self.learning = learning
        self._least, self._cuts, self._random = least, cuts, random
        self._context, self._vocabulary = context, vocabulary
        self._fed: list[int] = []
        self._agreed = 0

    def begin(self, ids: Sequence[int]) -> None:
        """Take the tokens of a prompt; they are computed with the first proposal."""
        self._agreed = 0
        if self.learning is not None:
            self.learning.begin(ids)

    def behind(self, ids: Sequence[int]) -> int | None:
        """Return how many tokens have to be computed first; None where they do not fit."""
        return None if len(ids) >= self._context.n_ctx else len(ids) - 1 - self._agree(ids)

    def read(self, ids: Sequence[int], most: int) -> None:
        """Compute some of these tokens."""
        self._catch_up(ids[: self._agree(ids) + most])

    def propose(self, ids: Sequence[int], most: int) -> Proposal:
        """Propose tokens; none if they do not fit the draft's context, or it lacks an id."""
        context = self._context
        most = min(most, context.n_ctx - len(ids))
        if most <= 0 or not self._catch_up(ids):
            return Proposal([])
        if self.learning is not None:
            self.learning.ready()
        proposed: list[int] = []
        distributions: list[Distribution] = []
        vocabulary = self._vocabulary
        id_of_row = vocabulary.ids  # None: the rows are the ids
        while True:
            logits = vocabulary.logits()
            if self._cuts is None:
                at = int(logits.argmax())
                token_id = at if id_of_row is None else int(id_of_row[at])
                if self._least > 0 and _highest_probability(logits) < self._least:
                    break
                if self.script is not None:
                    token_id = self.script(len(ids) + len(proposed))
            else:
                rows, cut_logits = self._cuts.cut(logits)
                cut_ids = rows if id_of_row is None else id_of_row[rows]
                distribution = Distribution.of_logits(cut_ids, cut_logits)
                if distribution.chances.max() < self._least:
                    break
                token_id = distribution.draw(self._random)
                distributions.append(distribution)
            proposed.append(token_id)
            if len(proposed) == most:
                break
            vocabulary.feed((token_id,))
            self._fed.append(token_id)
        return Proposal(proposed, distributions if self._cuts else None)

    def _agree(self, ids: Sequence[int]) -> int:
        """Return how many of these tokens, from the first on, are in the cache."""
        at, fed = self._agreed, self._fed
        until = min(len(fed), len(ids) - 1)  # the last is computed anew, for its logits
        while at < until and fed[at] == ids[at]:
            at += 1
        self._agreed = at = min(at, max(len(ids) - 1, 0))
        return at

    def _catch_up(self, ids: Sequence[int]) -> bool:
        """Bring the cache to these tokens; False if the model lacks one of them."""
        at, fed = self._agree(ids), self._fed
        del fed[at:]
        self._context.truncate(at)
        rest = ids[at:]
        if not rest or len(ids) > self._context.n_ctx or not self._vocabulary.knows(rest):
            return not rest
        self._vocabulary.feed(rest)
        fed += rest
        return True

    def saw(self, outcome: Outcome) -> None:
        """Let the vocabulary learn; rejected tokens are cut with the next proposal."""
        if self.learning is not None:
            self.learning.saw(outcome)

    def reset(self) -> None:
        """Forget every text, and all that the vocabulary learned."""
        self._fed, self._agreed = [], 0
        self._context.clear()
        if self.learning is not None:
            self.learning.reset()

    def close(self) -> None:
        """Free the context."""
        if self._cuts is not None:
            self._cuts.close()
        self._context.close()


def _highest_probability(logits: Any) -> float:
    import numpy as np

    return float(1 / np.exp(logits - logits.max()).sum(dtype=np.float64))


_CUT_TENSORS = (EMBEDDING, HEAD)
_CONTEXT_TIMES = 3
"""Context of a draft of another vocabulary, in times the target's: it may need more tokens."""


class DraftLoader(Closeable):
    """Makes the drafts of settings, which it checks at once; loads the model with the first.

    Close it after its drafts.

    Attributes:
        file: Of the draft model; None if only a lookup drafts.
        context: Of the first draft; None before.
    """

    def __init__(
        self, runner: Runner, settings: AnswerSettings, n_ctx: int, count: int = 1
    ) -> None:
        """Find the draft model, and check that it fits the target."""
        self._target, self._settings, self._count = runner, settings, count
        self.is_ahead: Callable[[], bool] = lambda: True  # of lookups
        self.context: Context | None = None
        self.file: GgufFile | None = None
        self._small: Runner | None = None
        drafting = settings.drafting
        if drafting.draft is None:
            return
        self.file = ModelHeader(locate(drafting.draft, MODEL).path).file
        self._whole, self._ids = draft_file.find_draft(self.file, drafting.sx_static_vocab)
        self._check_ids(self.file.name)
        self._grows = self._ids is not None and is_dynamic(drafting)
        self._index = open_index(runner, drafting) if self._grows else None
        self._n_ctx = n_ctx * (_CONTEXT_TIMES if self._translates else 1)

    @property
    def n_bytes(self) -> float:
        """Return the bytes of weights that a drafted token reads; 0 (unknown) with experts."""
        if self.file is None or any(key.endswith(".expert_count") for key in self.file.metadata):
            return 0.0
        n_ids = len(self._ids or ())
        return sum(
            tensor.n_bytes
            * (n_ids / tensor.shape[-1] if n_ids and tensor.name in _CUT_TENSORS else 1)
            for tensor in matrices(self._whole.tensors)
        )

    def _load(self) -> Runner:
        """Return the draft model, loaded once."""
        if self._small is not None:
            return self._small
        settings, ids = self._settings, self._ids
        assert self.file is not None
        small = ModelSettings(
            draft_file.model_path(self.file, ids),
            replace(settings.context, n_ctx=self._n_ctx, n_seq=1, embeddings=self._grows),
            replace(settings.load, trial=settings.load.trial and ids is None),
        )
        opened = open_model(small, n_ctx=self._n_ctx * self._count)
        try:
            check_can_cut(opened)
            self._translation = (
                _make_translation(self._target, opened) if self._translates else None
            )
        except BaseException:
            opened.close()
            raise
        self._small = opened
        return opened

    def _check_ids(self, path: str) -> None:
        drafting, ids, name = self._settings.drafting, self._ids, self._whole.name
        differs = _vocabulary_difference(self._target, self._whole)
        self._translates = bool(differs)
        if ids is not None and differs:
            raise UsageError(
                f"has another vocabulary: {differs}",
                source=name,
                hint="a static vocabulary needs the model's ids",
            )
        if ids is not None and max(ids) >= self._target.model.n_vocab:
            raise UsageError(
                f"can propose id {max(ids)}, which the model does not have", source=name,
                hint="mtkit sx vocab -t MODEL counts the model's ids",
            )  # fmt: skip
        if is_dynamic(drafting) and ids is None:
            raise UsageError(
                "every id can be proposed: nothing is left to add",
                source=path,
                hint=f"add {wording('--sx-static-vocab', 'sx_static_vocab=FILE')}, "
                "or use a draft written by mtkit sx prune",
            )

    def draft(self, seed: int | None = None) -> Draft:
        """Make a draft, with a context and a vocabulary of its own.

        Args:
            seed: For drawing tokens; None to propose the most likely ones.
        """
        if self.file is None:
            return Lookup(is_ahead=self.is_ahead)
        return self.before(self._make(seed))

    def lazy(self, seed: int | None, pays: Callable[[], bool], clock: Callable[[], float]) -> Lazy:
        """Return a draft that is made at its first use (``drafts.Lazy``)."""
        return Lazy(lambda: self._make(seed), pays, clock)

    def before(self, draft: Draft) -> Draft:
        """Return a draft with a lookup in front of it, if settings say so."""
        if not self._settings.drafting.draft_lookup:
            return draft
        return FirstOf(Lookup(is_ahead=self.is_ahead), draft)

    def _make(self, seed: int | None) -> Draft:
        small = self._load()
        if self.context is None:
            self.context = context = small.open_context(self._n_ctx)
        else:
            context = Context(small.model, self.context.settings)
        try:
            return self._model_draft(context, seed)
        except BaseException:
            context.close()
            raise

    def _model_draft(self, context: Context, seed: int | None) -> Draft:
        settings, ids, translation = self._settings, self._ids, self._translation
        drafting, n_vocab = settings.drafting, self._target.model.n_vocab
        vocabulary, learning = WholeVocabulary(context, n_vocab), None
        if translation is not None:
            vocabulary = SharedVocabulary(context, list(translation.shared))
        elif ids is not None and self._grows:
            learning = open_learner(drafting, context, ids, self._whole, self._index)
            vocabulary = learning.vocabulary
        elif ids is not None:
            vocabulary = StaticVocabulary(
                context, ids, Rows(self._whole, self._whole.names[EMBEDDING])
            )
        chain = random = None
        if seed is not None:
            import numpy as np

            from mtkit.llm.sampling import cuts

            chain = cuts(context, replace(_without_penalties(settings.sampler), seed=seed))
            random = np.random.default_rng([seed, 1])
        draft = ModelDraft(
            context, vocabulary, least=drafting.draft_p_min, cuts=chain, random=random,
            learning=learning,
        )  # fmt: skip
        return draft if translation is None else TranslatedDraft(draft, translation)

    def close(self) -> None:
        """Free the model."""
        if self._small is not None:
            self._small.close()


def _make_translation(runner: Runner, draft: Runner) -> Translation:
    """Return the translation between the ids of a target and of a draft."""
    from mtkit.tokenizer.load import load

    target, small = load(runner.model.path), load(draft.model.path)
    front = [draft.model.bos] if draft.model.add_bos else []
    translation = Translation(target, small, front)
    if not translation.shared:
        raise UsageError("has no token that the model has", source=draft.model.path)
    return translation


def _without_penalties(sampler: SamplerSettings) -> SamplerSettings:
    """Return settings without penalties, which depend on earlier tokens; a draft may skip them."""
    return replace(
        sampler, repeat_penalty=1.0, frequency_penalty=0.0, presence_penalty=0.0, dry=0.0
    )


def check_can_cut(runner: Runner) -> None:
    """Check that rejected tokens can be taken back."""
    model = runner.model
    if model.is_recurrent or model.has_encoder:
        kind = "an encoder" if model.has_encoder else "a recurrent state"
        raise UnsupportedError(
            f"has {kind}: rejected tokens cannot be taken back", source=model.path
        )


def _vocabulary_difference(target: Runner, draft: GgufFile) -> str:
    """Return which id has another token in a draft; empty if all ids that both have agree."""
    key = "tokenizer.ggml.tokens"
    ours, theirs = (file.metadata.get(key) or () for file in (target.header.file, draft))
    if isinstance(ours, GgufArray) and isinstance(theirs, GgufArray):
        raw, other_raw = sorted((ours.raw_bytes(), theirs.raw_bytes()), key=len)
        if other_raw.startswith(raw):  # 0.12 s less than token by token, for 152,000
            return ""
    for token_id, (our_token, token) in enumerate(zip(ours, theirs, strict=False)):
        if our_token != token:
            return f"id {token_id} is {token!r}, but the model's is {our_token!r}"
    return ""
