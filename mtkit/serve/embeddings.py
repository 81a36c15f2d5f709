"""Vectors of texts, and how well texts answer a question: OpenAI's route and llama-server's.

They are computed by the scheduler's thread between two batches, one text after the other.

Source: llama.cpp, tools/server/server-context.cpp (``handle_embeddings_impl``, ``post_rerank``).
"""

from __future__ import annotations

import base64
from functools import partial

from mtkit.serve.answer import while_connected
from mtkit.serve.bodies import Embedding, Embeddings, Rerank
from mtkit.serve.model import run_in_thread
from mtkit.serve.prompt import prompt_ids, prompts_of
from mtkit.serve.reply import Problem, json_response
from mtkit.serve.request import read_body, read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response

    from mtkit.serve.model import ServedModel

_EUCLIDEAN, _GREATEST = 2, 0
"""Values of ``embd_normalize``: p for a p-norm; 0: the greatest part, to fill 16 bits; -1: none."""
_GREATEST_WHOLE = 32760.0


async def openai_embeddings(request: Request, served: ServedModel) -> Response:
    """Return the vectors of texts, in OpenAI's shape."""
    fields = read_body(Embeddings, await read_json(request), served.unknown)
    await served.vectors.check()
    prompts = [await prompt_ids(served, prompt) for prompt in prompts_of(fields.input, "input")]
    vectors = await while_connected(request.receive, served.vectors.of(prompts))
    data = []
    for place, vector in enumerate(vectors):
        if fields.dimensions is not None:
            if fields.dimensions > len(vector):
                what = f"is {fields.dimensions}, but the model has {len(vector)}"
                raise Problem(400, f"dimensions: {what}", field="dimensions")
            vector = vector[: fields.dimensions]
        vector = normalize(vector, _EUCLIDEAN)
        embedding: Any = vector.tolist()
        if fields.encoding_format == "base64":
            embedding = base64.b64encode(vector.astype("<f4").tobytes()).decode()
        data.append({"object": "embedding", "index": place, "embedding": embedding})
    return json_response(
        {"object": "list", "data": data, "model": served.name, "usage": _usage(prompts)}
    )


async def llama_embeddings(request: Request, served: ServedModel) -> Response:
    """Return the vectors of texts, in llama-server's shape."""
    fields = read_body(Embedding, await read_json(request), served.unknown)
    name = "content" if fields.content is not None else "input"
    value = getattr(fields, name)
    if value is None:
        raise Problem(400, "content: is missing", field="content")
    await served.vectors.check()
    prompts = [await prompt_ids(served, prompt) for prompt in prompts_of(value, name)]
    vectors = await while_connected(request.receive, served.vectors.of(prompts))
    return json_response([
        {"index": place, "embedding": [normalize(vector, fields.embd_normalize).tolist()]}
        for place, vector in enumerate(vectors)
    ])  # fmt: skip


async def rerank(request: Request, served: ServedModel) -> Response:
    """Return how well texts answer a question, the best first."""
    fields = read_body(Rerank, await read_json(request), served.unknown)
    texts = fields.documents or fields.texts
    if not texts:
        raise Problem(400, "documents: is empty", field="documents")
    await served.vectors.check("rank")
    prompts = [await run_in_thread(partial(_pair, served, fields.query, text)) for text in texts]
    vectors = await while_connected(request.receive, served.vectors.of(prompts, "rank"))
    name = "score" if fields.texts else "relevance_score"
    rows: list[dict[str, Any]] = [
        {"index": place, name: float(vector[0])} for place, vector in enumerate(vectors)
    ]
    if fields.texts and fields.return_text:
        rows = [{**row, "text": texts[row["index"]]} for row in rows]
    rows.sort(key=lambda row: -row[name])
    rows = rows[: fields.top_n] if fields.top_n is not None else rows
    if fields.texts:  # as text-embeddings-inference answers
        return json_response(rows)
    return json_response(
        {"model": served.name, "object": "list", "usage": _usage(prompts), "results": rows}
    )


def _pair(served: ServedModel, query: str, text: str) -> list[int]:
    """Return the tokens of a question and a text.

    Source: llama.cpp, tools/server/server-common.cpp (``format_prompt_rerank``).
    """
    model = served.model

    def plain(text: str) -> list[int]:
        return model.tokenize(text, add_special=False, parse_special=False)

    template = model.meta("tokenizer.chat_template.rerank")
    if template:
        text = template.replace("{query}", query).replace("{document}", text)
        return model.tokenize(text, add_special=False)
    begin, end, between = model.around
    return [*begin, *plain(query), *end, *between, *plain(text), *end]


def normalize(vector: Any, norm: int) -> Any:
    """Return a vector divided by its norm, as ``embd_normalize`` names it.

    Source: llama.cpp, common/common.cpp (``common_embd_normalize``).
    """
    import numpy as np

    if norm < 0:
        return vector
    if norm == _GREATEST:
        size = float(np.abs(vector).max()) / _GREATEST_WHOLE
    else:
        size = float((np.abs(vector, dtype=np.float64) ** norm).sum() ** (1 / norm))
    return (vector / size).astype(np.float32) if size > 0 else vector * 0


def _usage(prompts: Sequence[list[int]]) -> dict[str, int]:
    count = sum(map(len, prompts))
    return {"prompt_tokens": count, "total_tokens": count}
