"""What llama.cpp would say about the tokens of a specification: attributes, roles, texts.

The texts, types, ids, name and architecture that a GGUF of it has decide; the rules are those of
reading.
"""

from __future__ import annotations

from mtkit.base.packed import Pieces
from mtkit.errors import UnsupportedError
from mtkit.formats.gguf import text as gguf_text
from mtkit.formats.gguf.extras import ARCHITECTURES, MODELS, NAME
from mtkit.formats.gguf.kinds import ID_KEYS, KINDS, default_ids
from mtkit.formats.gguf.special import resolve
from mtkit.spec.model_names import model_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.formats.gguf.kinds import Family
    from mtkit.formats.gguf.special import Roles
    from mtkit.spec import TokenizerSpec

_FAMILIES: dict[str, Family] = {
    "BPE": "bpe",
    "RankBPE": "bpe",
    "SectionBPE": "bpe",
    "ScoreBPE": "spm",
    "Unigram": "ugm",
    "WordPiece": "wpm",
    "Trie": "rwkv",
    "ShortestPath": "plamo2",
}
"""Record of a model -> the family that runs it."""


def family_of(spec: TokenizerSpec) -> Family:
    """Return which of llama.cpp's tokenizers runs a model.

    Raises:
        UnsupportedError: None does.
    """
    name = type(spec.model).__name__
    if name not in _FAMILIES:
        what = f"llama.cpp has no tokenizer for {model_name(spec.model)}"
        raise UnsupportedError(what, field="model")
    return _FAMILIES[name]


def extras_of(spec: TokenizerSpec) -> dict[str, object]:
    """Return what a GGUF said besides."""
    found = dict(spec.extras).get(NAME)
    return found if isinstance(found, dict) else {}


def model_of(spec: TokenizerSpec) -> str:
    """Return the ``tokenizer.ggml.model`` of a specification."""
    return str(extras_of(spec).get("model") or MODELS[family_of(spec)])


def architecture_of(spec: TokenizerSpec) -> str:
    """Return the ``general.architecture`` of a specification."""
    found = extras_of(spec).get("architecture")
    return str(found or ARCHITECTURES.get(family_of(spec), "llama"))


def texts_of(spec: TokenizerSpec) -> list[bytes]:
    """Return the token texts of a vocabulary as a GGUF spells them."""
    return list(gguf_text.texts(model_of(spec), spec.vocabulary.pieces))


def attributes(spec: TokenizerSpec) -> list[int]:
    """Return the attribute bits of every token, by id, as llama.cpp answers them."""
    return roles_of(spec).attributes


def roles_of(spec: TokenizerSpec) -> Roles:
    """Return the roles of every token of a specification that was read from a GGUF."""
    texts = texts_of(spec)
    ids = {role: getattr(spec.special_ids, role) for role in ID_KEYS}
    return resolve(
        spec.vocabulary.all_types(),
        texts,
        Pieces.of(texts).ids,
        {role: number for role, number in ids.items() if number is not None},
        default_ids(KINDS[model_of(spec)], None, len(texts)),
        pre=str(extras_of(spec).get("pre", "")),
        architecture=architecture_of(spec),
        name=spec.name,
    )
