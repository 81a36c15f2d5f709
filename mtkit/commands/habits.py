"""Options of other programs that mtkit does not have, and what does their work here.

A guess by spelling alone would lead astray: ``--bigendian`` is not ``--encoding``. Of what is not
in the table, an option is suggested where it is the same word but for a slip of the fingers, or a
longer or shorter form of it.
Source: the help of convert_hf_to_gguf.py, convert_lora_to_gguf.py, llama-quantize,
llama-gguf-split, gguf_new_metadata.py and gguf_set_metadata.py.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


_PROJECTOR = "mtkit does not convert projectors; convert_hf_to_gguf.py --mmproj does"
_DRAFT = "mtkit converts no draft heads (MTP); convert_hf_to_gguf.py does"
_AS_IS = "mtkit writes the tensors that the model has; convert_hf_to_gguf.py can fuse them"
_BY_SIZE = "mtkit does not choose types by size; --tensor-type PATTERN=TYPE sets them"
_SET = "edit has --set KEY=VALUE, as in --set "
_HABITS: dict[str, dict[str, str]] = {
    "convert": {
        "--bigendian": "write the file, then run: mtkit convert-endian MODEL.gguf -o BIG.gguf",
        "--big-endian": "write the file, then run: mtkit convert-endian MODEL.gguf -o BIG.gguf",
        "--remote": "--download fetches ORG/NAME into the local HuggingFace cache",
        "--mistral-format": (
            "mtkit does not read consolidated.safetensors with params.json; take the repository's "
            "config.json with model*.safetensors, or convert_hf_to_gguf.py --mistral-format"
        ),
        "--disable-mistral-community-chat-template": "edit has --unset and --chat-template-file",
        "--mmproj": _PROJECTOR,
        "--mtp": _DRAFT,
        "--no-mtp": "mtkit leaves draft heads (MTP) out",
        "--target-model-dir": _DRAFT,
        "--fuse-gate-up-exps": _AS_IS,
        "--fuse-qkv": _AS_IS,
        "--fp8-as-q8": "take the model in BF16 or F16, and --type q8_0",
        "--lora": "run: mtkit merge BASE --lora ADAPTER -o MERGED.gguf",
        "--merge": "run: mtkit merge BASE --lora ADAPTER -o MERGED.gguf",
        "--quantize": "--type Q4_K_M (or another type) quantizes",
        "--trust-remote-code": "mtkit runs no code of models",
    },
    "merge": {
        "--merge": "mtkit merge is that command; leave it out",
        "--adapter": "it is called --lora",
        "--scale": "write it after the adapter: --lora ADAPTER=0.5",
        "--split": "mtkit split cuts a file",
    },
    "split": {
        "--split": "mtkit split is that command; leave it out",
        "--merge": "mtkit merge joins shards",
    },
    "edit": {
        "--remove": "--unset KEY removes a key",
        "--remove-metadata": "--unset KEY removes a key",
        "--delete": "--unset KEY removes a key",
        "--special-token-by-id": f"{_SET}tokenizer.ggml.eos_token_id=2",
        "--general-name": f"{_SET}general.name=TEXT",
        "--general-description": f"{_SET}general.description=TEXT",
        "--pre-tokenizer": f"{_SET}tokenizer.ggml.pre=TEXT",
        "--chat-template-config": "--chat-template-file FILE takes the template itself",
        "--dense-modules": "mtkit convert writes them, from the folder",
    },
    "quantize": {
        "--outtype": "--type TYPE is the new type",
        "--target-bpw": _BY_SIZE,
        "--target-size": _BY_SIZE,
    },
    "imatrix": {"--show-statistics": "mtkit inspect IMATRIX.gguf --all shows what is in it"},
    "export-lora": {"--lora": "run: mtkit merge BASE --lora ADAPTER -o MERGED.gguf"},
}
"""Command -> option -> what to do instead."""
_LEAST_RATIO = 0.8
_LEAST_PREFIX = 3


def instead_of(command: str, option: str) -> str:
    """Return what does here what an option does elsewhere; empty where it is not known."""
    return _HABITS.get(command, {}).get(option, "")


def near_options(option: str, options: Iterable[str]) -> list[str]:
    """Return the options that another word can stand for: a slip, or a shorter or longer form."""
    return [other for other in options if _is_near(option.lstrip("-"), other.lstrip("-"))]


def _is_near(word: str, other: str) -> bool:
    from difflib import SequenceMatcher

    short, long = sorted((word, other), key=len)
    if len(short) >= _LEAST_PREFIX and (long.startswith(short) or f"-{short}" in long):
        return True
    return SequenceMatcher(None, word, other).ratio() >= _LEAST_RATIO
