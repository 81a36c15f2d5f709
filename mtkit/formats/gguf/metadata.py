"""Metadata of a GGUF: typed keys, llama.cpp's defaults, the models that it knows, extras.

A key of another type than expected is refused, as by the loader. Overrides replace single values
(bool, int, float, string), never arrays. C programs end a string at its first NUL byte.

Extras are what a GGUF says about its vocabulary that no stage of a specification holds, where it
differs from what the writer writes by default, so that a vocabulary comes back equal from a GGUF.

Source: llama.cpp, src/llama-model-loader.cpp (``GGUFMeta::GKV``), src/llama-vocab.cpp
(``llama_vocab::impl::load``).
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.errors import FormatError, UsageError
from mtkit.formats.gguf.pre_tokenizers import NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from mtkit.formats.gguf.pre_tokenizers import Pre
    from mtkit.gguf import GgufArray, GgufFile

    Family = Literal["spm", "bpe", "wpm", "ugm", "rwkv", "plamo2"]


class Keys:
    """Typed access to the metadata of one file."""

    def __init__(self, file: GgufFile, overrides: Mapping[str, object]) -> None:
        self.file = file
        self.overrides = overrides
        for key, value in overrides.items():
            if not isinstance(value, (bool, int, float, str)):
                hint = "a key has a text, a number, true or false"
                raise UsageError(f"{key} cannot be overridden with {value!r}", hint=hint)
            entry = file.metadata.entries.get(key)
            if entry is not None and entry.type.name == "array":
                raise UsageError(f"{key} is an array and cannot be overridden")

    def __contains__(self, key: str) -> bool:
        return key in self.overrides or key in self.file.metadata

    def error(self, key: str, what: str) -> FormatError:
        """Return an error that names a key and its offset."""
        entry = self.file.metadata.entries.get(key)
        return FormatError(what, field=key, offset=entry.offset if entry else None)

    def text(self, key: str) -> str | None:
        """Return a string, cut at NUL."""
        if key in self.overrides:
            value = self.overrides[key]
            if not isinstance(value, str):
                raise UsageError(f"{key} is a string, not {value!r}")
            return value
        if key not in self.file.metadata:
            return None
        self._expect(key, "string")
        text: str = self.file.metadata[key]
        return text.split("\0", 1)[0]

    def flag(self, key: str) -> bool | None:
        """Return a bool."""
        if key in self.overrides:
            value = self.overrides[key]
            if not isinstance(value, bool):
                raise UsageError(f"{key} is true or false, not {value!r}")
            return value
        if key not in self.file.metadata:
            return None
        self._expect(key, "bool")
        return bool(self.file.metadata[key])

    def number(self, key: str) -> int | None:
        """Return an unsigned 32-bit number."""
        if key in self.overrides:
            value = self.overrides[key]
            if isinstance(value, bool) or not isinstance(value, int):
                raise UsageError(f"{key} is a whole number, not {value!r}")
            return value & 0xFFFFFFFF
        if key not in self.file.metadata:
            return None
        self._expect(key, "u32")
        return int(self.file.metadata[key])

    def array(self, key: str, *elements: str, at_least: int = 0) -> GgufArray | None:
        """Return an array whose elements are of one of the named types."""
        entry = self.file.metadata.entries.get(key)
        if entry is None:
            return None
        value: GgufArray = entry.value
        if entry.type.name != "array" or value.element.name not in elements:
            raise self.error(
                key,
                f"is {self.file.metadata.type_name(key)}, not an array of {' or '.join(elements)}",
            )
        if len(value) < at_least:
            raise self.error(key, f"has {len(value)} elements for {at_least} tokens")
        return value

    def _expect(self, key: str, name: str) -> None:
        kind = self.file.metadata.type_name(key)
        if kind != name:
            raise self.error(key, f"is of type {kind}, llama.cpp's loader wants {name}")


class Kind(Record):
    """llama.cpp's defaults for a ``tokenizer.ggml.model``, where the file does not say otherwise.

    Attributes:
        ids: Role -> id; ids past the vocabulary do not count.
    """

    model: str
    family: Family
    ids: tuple[tuple[str, int], ...] = ()
    add_bos: bool = False
    add_eos: bool = False
    add_sep: bool = False
    add_space_prefix: bool = False
    scored: bool = False
    clean_spaces: bool = False


_GPT2_IDS = (("bos", 11), ("eos", 11))

KINDS = {
    kind.model: kind
    for kind in (
        Kind(
            "llama",
            "spm",
            (("bos", 1), ("eos", 2), ("unk", 0)),
            add_bos=True,
            add_space_prefix=True,
            scored=True,
        ),
        Kind(
            "bert",
            "wpm",
            (("bos", 101), ("unk", 100), ("sep", 102), ("pad", 0), ("mask", 103)),
            add_bos=True,
            add_sep=True,
            clean_spaces=True,
        ),
        Kind("gpt2", "bpe", _GPT2_IDS, clean_spaces=True),
        Kind("hybriddna", "bpe", _GPT2_IDS, clean_spaces=True),
        Kind("whitespace", "bpe", _GPT2_IDS, clean_spaces=True),
        Kind("gemma4", "bpe", clean_spaces=True),
        Kind("t5", "ugm", (("eos", 1), ("unk", 2), ("pad", 0)), add_eos=True, scored=True),
        Kind("rwkv", "rwkv"),
        Kind("plamo2", "plamo2", (("bos", 1), ("eos", 2), ("unk", 0), ("pad", 3)), scored=True),
    )
}
"""Name -> its defaults."""


def default_ids(kind: Kind, pre: Pre | None, size: int) -> dict[str, int]:
    """Return llama.cpp's defaults: role -> id.

    They say nothing about the vocabulary: id 11 of most byte-pair vocabularies is a comma.
    """
    ids = {role: number for role, number in kind.ids if number < size}
    if pre is not None and not pre.default_bos:
        ids.pop("bos", None)
    return ids


NO_VOCABULARY = frozenset({"none", "no_vocab"})

STAND_IN = "test"
"""llama.cpp's model for its own tests: ids are checksums of five bytes each."""

ID_KEYS = {
    "bos": "bos_token_id",
    "eos": "eos_token_id",
    "eot": "eot_token_id",
    "eom": "eom_token_id",
    "unk": "unknown_token_id",
    "sep": "seperator_token_id",
    "pad": "padding_token_id",
    "cls": "cls_token_id",
    "mask": "mask_token_id",
    "fim_pre": "fim_pre_token_id",
    "fim_suf": "fim_suf_token_id",
    "fim_mid": "fim_mid_token_id",
    "fim_pad": "fim_pad_token_id",
    "fim_rep": "fim_rep_token_id",
    "fim_sep": "fim_sep_token_id",
}
"""Role -> key behind ``tokenizer.ggml.``; the misspelling is the format's."""

OLD_ID_KEYS = {
    "fim_pre": "prefix_token_id",
    "fim_suf": "suffix_token_id",
    "fim_mid": "middle_token_id",
}
"""Read last, so they win."""


EXTRAS = "gguf"
EXTRA_NUMBERS = ("token_type_count",)
"""Numbers behind ``tokenizer.ggml.`` that change no ids."""

MODEL_OF_FAMILY = {
    "spm": "llama",
    "bpe": "gpt2",
    "wpm": "bert",
    "ugm": "t5",
    "rwkv": "rwkv",
    "plamo2": "plamo2",
}
"""Family -> ``tokenizer.ggml.model`` that the writer writes."""

ARCHITECTURE_OF_FAMILY = {"wpm": "bert", "ugm": "t5", "rwkv": "rwkv6", "plamo2": "plamo2"}
"""Family -> ``general.architecture`` that the writer writes, where it is not llama."""


def read_extras(
    keys: Keys, kind: Kind, pre: str, architecture: str
) -> tuple[tuple[str, object], ...]:
    """Return the extras of a file."""
    extras: dict[str, object] = {}
    if architecture != ARCHITECTURE_OF_FAMILY.get(kind.family, "llama"):
        extras["architecture"] = architecture
    if kind.model != MODEL_OF_FAMILY[kind.family]:
        extras["model"] = kind.model
    usual = {canonical_pre(pre)} if kind.family == "bpe" else {"", "default"}
    if pre not in ({"whitespace"} if kind.model == "whitespace" else usual):
        extras["pre"] = pre
    for name in EXTRA_NUMBERS:
        number = keys.number(f"tokenizer.ggml.{name}")
        if number is not None:
            extras[name] = number
    return ((EXTRAS, extras),) if extras else ()


def canonical_pre(pre: str) -> str:
    """Return the name that the writer writes for the meaning of ``pre``."""
    meaning = NAMES.get(pre)
    return next((name for name, other in NAMES.items() if other == meaning), pre)


LLAMA_VERSION = "0.3.36"

_ARCHITECTURE_NAMES = """
    afmoe apertus arcee arctic arwkv7 baichuan bailingmoe bailingmoe2 bailingmoe3 bert
    bitnet bloom chameleon chatglm codeshell cogvlm cohere2 cohere2moe command-r dbrx deci
    deepseek deepseek2 deepseek2-ocr deepseek32 deepseek4 dflash dots1 dots3note dream
    eagle3 ernie4_5 ernie4_5-moe eurobert exaone exaone-moe exaone4 falcon falcon-h1 gemma
    gemma-embedding gemma2 gemma3 gemma3n gemma4 gemma4-assistant glm-dsa glm4 glm4moe
    glm5-next gpt-oss gpt2 gptneox granite granite_swa granitehybrid granitemoe
    graniteswitch grok grovemoe hrm_text hunyuan-dense hunyuan-moe hunyuan_vl hy_v3 hy_v4
    internlm2 jais jais2 jamba jina-bert-v2 jina-bert-v3 kimi-k3 kimi-linear laguna lfm2
    lfm2moe llada llada-moe llama llama-embed llama4 maincoder mamba mamba2 maple mellum
    mimo2 minicpm minicpm3 minimax-01 minimax-m2 minimax-m3 mistral3 mistral4 modern-bert
    mpt muse-glimmer nanbeige nemotron nemotron_h nemotron_h_moe neo-bert nomic-bert
    nomic-bert-moe olmo olmo2 olmoe openelm orion paddleocr pangu-embedded phi2 phi3 phimoe
    plamo plamo2 plamo3 plm pockettts qwen qwen2 qwen2moe qwen2vl qwen3 qwen35 qwen35moe
    qwen3moe qwen3next qwen3tts qwen3vl qwen3vlmoe qwen4exp refact rnd1 rwkv6 rwkv6qwen2
    rwkv7 seed_oss smallthinker smollm3 spark2_5 stablelm starcoder starcoder2 step35 t5
    t5encoder talkie wavtokenizer-dec xverse
"""
ARCHITECTURES = frozenset(_ARCHITECTURE_NAMES.split())
"""Values of ``general.architecture`` that llama.cpp accepts; each was tried on a file of its own.

Only two have rules of their own for the tokenizer (``roles``), so a new one most likely has none:
its vocabulary is read as that of any other model, and the reader says so.
"""
