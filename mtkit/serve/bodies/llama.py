"""Bodies of the routes that llama.cpp's server has, too."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mtkit.serve.bodies.fields import Id  # noqa: TC001  msgspec reads the annotations
from mtkit.serve.bodies.openai import Answer, Prompts

Probabilities = Annotated[int, Meta(ge=0, le=1000)]


class Complete(Answer, kw_only=True):
    """A body of ``/completion``."""

    prompt: Prompts
    n_probs: Probabilities = 0
    logprobs: Probabilities = 0
    return_tokens: bool = False
    response_fields: list[str] = []


class Extra(Struct, frozen=True):
    """A piece of another file in ``/infill``."""

    text: str
    filename: str = "tmp"


class Infill(Complete, kw_only=True):
    """A body of ``/infill``."""

    prompt: str = ""
    input_prefix: str
    input_suffix: str
    input_extra: list[Extra] = []


class Saved(Struct, kw_only=True):
    """A body of ``/slots/ID`` that names a file."""

    filename: str = ""


class Tokenize(Struct, kw_only=True):
    """A body of ``/tokenize``."""

    content: Prompts
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False


class Detokenize(Struct, kw_only=True):
    """A body of ``/detokenize``."""

    tokens: list[Id]
    special: bool = True


class Embedding(Struct, kw_only=True):
    """A body of ``/embedding``."""

    content: Prompts | None = None
    input: Prompts | None = None
    embd_normalize: Annotated[int, Meta(ge=-1, le=64)] = 2


class Rerank(Struct, kw_only=True):
    """A body of ``/rerank``; ``texts`` is what text-embeddings-inference calls the documents."""

    query: str
    documents: Annotated[list[str], Meta(max_length=10_000)] = []
    texts: Annotated[list[str], Meta(max_length=10_000)] = []
    top_n: Annotated[int, Meta(ge=0)] | None = None
    return_text: bool = False


class Scale(Struct, frozen=True):
    """An entry of ``/lora-adapters``."""

    id: Annotated[int, Meta(ge=0, le=1 << 16)]
    scale: Annotated[float, Meta(ge=-1e6, le=1e6)] = 0.0
