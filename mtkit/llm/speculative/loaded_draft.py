"""The model that drafts: loaded once, for one draft or for one in every slot."""

from __future__ import annotations

from mtkit.base.closing import Closing
from mtkit.base.record import replace
from mtkit.errors import UnsupportedError, UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.rows import Rows
from mtkit.gguf.vocabulary_rows import EMBEDDING
from mtkit.llama import Context
from mtkit.llm.open_model import open_model
from mtkit.llm.speculative import draft_files
from mtkit.llm.speculative.draft_vocabulary import Shared, Static, Whole
from mtkit.llm.speculative.drafts import FirstOf
from mtkit.llm.speculative.growth import is_dynamic, open_learning, open_search
from mtkit.llm.speculative.lookup import Lookup
from mtkit.llm.speculative.model_draft import ModelDraft
from mtkit.llm.speculative.translated_draft import TranslatedDraft
from mtkit.llm.speculative.translation import Translation
from mtkit.settings import ModelSettings
from mtkit.sources.locate import MODEL, locate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.gguf import GgufFile
    from mtkit.llm.runner import Runner
    from mtkit.llm.speculative.drafts import Draft
    from mtkit.settings import AnswerSettings, SamplerSettings

_LONGER = 3
"""Times the target's context that a draft of another vocabulary has: it may need more tokens."""


class LoadedDraft(Closing):
    """What settings say of drafting; close it behind its drafts.

    Attributes:
        context: Of the model that drafted first; None where the text alone drafts.
    """

    def __init__(
        self, runner: Runner, settings: AnswerSettings, n_ctx: int, count: int = 1
    ) -> None:
        """Load the draft of a target.

        Args:
            runner: The target.
            settings: What drafts, and how.
            n_ctx: Tokens of the target's text.
            count: How many drafts there will be, for the plan of the memory.

        Raises:
            UsageError: There is no such draft, or it has another vocabulary.
            UnsupportedError: It cannot draft.
            FormatError: It is damaged.
            ResourceError: It does not fit the memory.
        """
        self._target, self._settings = runner, settings
        self.context: Context | None = None
        self._small: Runner | None = None
        drafting = settings.drafting
        if drafting.draft is None:
            return
        whole = open_gguf(locate(drafting.draft, MODEL))
        path, self._whole, self._ids = draft_files.find(whole, drafting.sx_static_vocab)
        self._check_ids(path)
        grows = self._ids is not None and is_dynamic(drafting)
        self._search = open_search(runner, drafting) if grows else None
        self._n_ctx = n_ctx * (_LONGER if self._translates else 1)
        small = ModelSettings(
            path,
            replace(settings.context, n_ctx=self._n_ctx, n_seq=1, embeddings=grows),
            replace(settings.load, trial=settings.load.trial and self._ids is None),
        )
        self._small = open_model(small, n_ctx=self._n_ctx * count)
        try:
            check_can_cut(self._small)
            self._translation = _translation(runner, self._small) if self._translates else None
        except BaseException:
            self._small.close()
            raise

    def _check_ids(self, path: str) -> None:
        drafting, ids, name = self._settings.drafting, self._ids, self._whole.name
        differs = _difference(self._target, self._whole)
        self._translates = bool(differs) or drafting.draft_by_text
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
                hint="--sx-static-vocab, or a draft that mtkit sx prune made",
            )

    def draft(self, seed: int | None = None) -> Draft:
        """Make a draft, with a context and a vocabulary of its own.

        Args:
            seed: Of what it draws; None to propose the most likely tokens.
        """
        drafting = self._settings.drafting
        lookup = Lookup(drafting.draft_lookup_min)
        if self._small is None:
            return lookup
        small = self._small
        if self.context is None:
            self.context = context = small.open_context(self._n_ctx)
        else:
            context = Context(small.model, self.context.settings)
        try:
            draft = self._model_draft(context, seed)
        except BaseException:
            context.close()
            raise
        return FirstOf((lookup, draft)) if drafting.draft_lookup else draft

    def _model_draft(self, context: Context, seed: int | None) -> Draft:
        settings, ids, translation = self._settings, self._ids, self._translation
        drafting, n_vocab = settings.drafting, self._target.model.n_vocab
        by_text = drafting.draft_by_text
        vocabulary, learning = Whole(context, n_vocab), None
        if translation is not None:
            vocabulary = Whole(context) if by_text else Shared(context, list(translation.shared))
        elif ids is not None and is_dynamic(drafting):
            vocabulary, learning = open_learning(drafting, context, ids, self._whole, self._search)
        elif ids is not None:
            vocabulary = Static(context, ids, Rows(self._whole, self._whole.names[EMBEDDING]))
        chain = random = None
        if seed is not None and not by_text:
            import numpy as np

            from mtkit.llm.sampling import cuts

            chain = cuts(context, replace(_without_penalties(settings.sampler), seed=seed))
            random = np.random.default_rng([seed, 1])
        draft = ModelDraft(
            context, vocabulary, least=drafting.draft_p_min, cuts=chain, random=random,
            learning=learning,
        )  # fmt: skip
        return (
            draft if translation is None else TranslatedDraft(draft, translation, by_text=by_text)
        )

    def close(self) -> None:
        """Free the model."""
        if self._small is not None:
            self._small.close()


def _translation(runner: Runner, draft: Runner) -> Translation:
    """Return what translates between the ids of a target and of a draft."""
    from mtkit.tokenizer.load import load

    target, small = load(runner.model.path), load(draft.model.path)
    front = [draft.model.bos] if draft.model.add_bos else []
    found = Translation(target, small, front)
    if not found.shared:
        raise UsageError("has no token that the model has", source=draft.model.path)
    return found


def _without_penalties(sampler: SamplerSettings) -> SamplerSettings:
    """Return settings without what depends on the tokens before: a draft may ignore them."""
    return replace(
        sampler, repeat_penalty=1.0, frequency_penalty=0.0, presence_penalty=0.0, dry=0.0
    )


def check_can_cut(runner: Runner) -> None:
    """Check that rejected tokens can be taken back.

    Raises:
        UnsupportedError: The memory of this kind of model cannot be cut.
    """
    model = runner.model
    if model.is_recurrent or model.has_encoder:
        kind = "an encoder" if model.has_encoder else "a recurrent state"
        raise UnsupportedError(
            f"has {kind}: rejected tokens cannot be taken back", source=model.path
        )


def _difference(target: Runner, draft: GgufFile) -> str:
    """Return which id means something else in a draft; empty where none does that both have."""
    key = "tokenizer.ggml.tokens"
    ours, theirs = (file.metadata.get(key) or () for file in (target.header.file, draft))
    for token_id, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != other:
            return f"id {token_id} is {other!r}, the model's is {one!r}"
    return ""
