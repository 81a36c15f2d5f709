"""What a GGUF says about its vocabulary that no stage of a specification holds.

Only what differs from what the writer would write by itself is kept, so a vocabulary that went
through a GGUF and back is equal to what it was.
"""

from __future__ import annotations

from mtkit.formats.gguf.pre_tokenizers import NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.formats.gguf.keys import Keys
    from mtkit.formats.gguf.kinds import Kind

NAME = "gguf"
KEPT = ("token_type_count",)
"""Numbers behind ``tokenizer.ggml.`` without a meaning for ids."""

MODELS = {
    "spm": "llama",
    "bpe": "gpt2",
    "wpm": "bert",
    "ugm": "t5",
    "rwkv": "rwkv",
    "plamo2": "plamo2",
}
"""Family -> ``tokenizer.ggml.model`` that the writer writes."""

ARCHITECTURES = {"wpm": "bert", "ugm": "t5", "rwkv": "rwkv6", "plamo2": "plamo2"}
"""Family -> ``general.architecture`` that the writer writes, where it is not llama."""


def collect(keys: Keys, kind: Kind, pre: str, architecture: str) -> tuple[tuple[str, object], ...]:
    """Return the extras of a file."""
    found: dict[str, object] = {}
    if architecture != ARCHITECTURES.get(kind.family, "llama"):
        found["architecture"] = architecture
    if kind.model != MODELS[kind.family]:
        found["model"] = kind.model
    usual = {canonical(pre)} if kind.family == "bpe" else {"", "default"}
    if pre not in ({"whitespace"} if kind.model == "whitespace" else usual):
        found["pre"] = pre
    for name in KEPT:
        number = keys.number(f"tokenizer.ggml.{name}")
        if number is not None:
            found[name] = number
    return ((NAME, found),) if found else ()


def canonical(pre: str) -> str:
    """Return the name that the writer writes for what ``pre`` means."""
    meaning = NAMES.get(pre)
    return next((name for name, other in NAMES.items() if other == meaning), pre)
