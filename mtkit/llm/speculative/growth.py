"""Open what settings say of a draft's vocabulary that grows."""

from __future__ import annotations

from mtkit.gguf.rows import Rows
from mtkit.gguf.vocabulary_rows import EMBEDDING, HEAD
from mtkit.llm.speculative import semantic_index
from mtkit.llm.speculative.draft_vocabulary import Dynamic, finishers
from mtkit.llm.speculative.learning import Learning
from mtkit.llm.speculative.neighbors import Neighbors
from mtkit.llm.speculative.trigger import Trigger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.gguf import GgufFile
    from mtkit.llama import Context
    from mtkit.llm.runner import Runner
    from mtkit.llm.speculative.learning import Search
    from mtkit.settings import DraftSettings


def is_dynamic(drafting: DraftSettings) -> bool:
    """Whether anything adds ids to a draft's vocabulary."""
    return bool(
        drafting.sx_quant_embd is not None
        or drafting.sx_neighbors is not None
        or drafting.sx_seed_prompt
        or drafting.sx_learn
    )


def open_learning(
    drafting: DraftSettings,
    context: Context,
    ids: list[int],
    whole: GgufFile,
    search: Search | None,
) -> tuple[Dynamic, Learning]:
    """Return a vocabulary that grows, and what makes it grow."""
    embedding = Rows(whole, whole.names[EMBEDDING])
    head = Rows(whole, whole.names[HEAD]) if HEAD in whole.names else embedding
    vocabulary = Dynamic(context, ids, embedding, head, finishers(whole.metadata), drafting.sx_cap)
    trigger = None
    if search is not None:
        trigger = Trigger(vocabulary, position=drafting.sx_position, which=drafting.sx_trigger)
    learning = Learning(
        vocabulary,
        trigger=trigger,
        search=search,
        seed_prompt=drafting.sx_seed_prompt,
        learn=drafting.sx_learn,
    )
    return vocabulary, learning


def open_search(runner: Runner, drafting: DraftSettings) -> Search | None:
    """Return what finds the ids like an unknown one; None where nothing is searched for."""
    target = runner.header.file
    table = Rows(target, target.names[EMBEDDING])
    if drafting.sx_neighbors is not None:
        return Neighbors(
            drafting.sx_neighbors, table.count, top_k=drafting.sx_topk,
            threshold=drafting.sx_threshold,
        )  # fmt: skip
    if drafting.sx_quant_embd is None:
        return None
    assert drafting.sx_scales is not None
    return semantic_index.SemanticIndex(
        semantic_index.read(drafting.sx_quant_embd, drafting.sx_scales, table), table,
        top_k=drafting.sx_topk, threshold=drafting.sx_threshold, quantile=drafting.sx_quantile,
    )  # fmt: skip
