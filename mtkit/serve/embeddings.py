"""Vectors of texts, and how well texts answer a question: OpenAI's route and llama-server's.

They are computed by the scheduler's thread between two batches, one text after the other.

Source: llama.cpp, tools/server/server-context.cpp (``handle_embeddings_impl``, ``post_rerank``).
"""

from __future__ import annotations

import base64
from functools import partial

from mtkit.llm.vectors import EUCLIDEAN, normalize, pair_ids
from mtkit.serve.bodies import Embedding, Embeddings, Rerank
from mtkit.serve.model import run_in_thread
from mtkit.serve.prompt import prompt_ids, prompts_of
from mtkit.serve.reply import Problem, json_response, while_connected
from mtkit.serve.request import read_body, read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response

    from mtkit.serve.model import ServedModel


async def openai_embeddings(request: Request, served: ServedModel) -> Response:
    """Return the vectors of texts, in OpenAI's shape."""
    fields = read_body(Embeddings, await read_json(request), served.unknown)
    await served.vectors.check()
    prompts, vectors = await _vectors_of(request, served, prompts_of(fields.input, "input"))
    data = []
    for place, vector in enumerate(vectors):
        if fields.dimensions is not None:
            if fields.dimensions > len(vector):
                what = f"is {fields.dimensions}, but the model has {len(vector)}"
                raise Problem(400, f"dimensions: {what}", field="dimensions")
            vector = vector[: fields.dimensions]
        vector = normalize(vector, EUCLIDEAN)
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
    _, vectors = await _vectors_of(request, served, prompts_of(value, name))
    return json_response([
        {"index": place, "embedding": [normalize(vector, fields.embd_normalize).tolist()]}
        for place, vector in enumerate(vectors)
    ])  # fmt: skip


async def _vectors_of(
    request: Request, served: ServedModel, texts: Sequence[Any]
) -> tuple[list[list[int]], list[Any]]:
    """Return the tokens and the vectors of texts, while the client waits for them."""

    async def work() -> tuple[list[list[int]], list[Any]]:
        prompts, vectors = [], []
        for text in texts:  # 10,000 texts at once would hold up everything else
            prompts.append(await prompt_ids(served, text))
            vectors += await served.vectors.of(prompts[-1:])
        return prompts, vectors

    result: tuple[list[list[int]], list[Any]] = await while_connected(request.receive, work())
    return result


async def rerank(request: Request, served: ServedModel) -> Response:
    """Return how well texts answer a question, the best first."""
    fields = read_body(Rerank, await read_json(request), served.unknown)
    texts = fields.documents or fields.texts
    if not texts:
        raise Problem(400, "documents: is empty", field="documents")
    await served.vectors.check("rank")

    async def rank() -> tuple[list[list[int]], list[Any]]:
        ids = partial(pair_ids, served.model, fields.query)
        pairs = [await run_in_thread(partial(ids, text)) for text in texts]
        return pairs, await served.vectors.of(pairs, "rank")

    prompts, vectors = await while_connected(request.receive, rank())
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


def _usage(prompts: Sequence[list[int]]) -> dict[str, int]:
    count = sum(map(len, prompts))
    return {"prompt_tokens": count, "total_tokens": count}
