"""The vocabulary of a GGUF as llama.cpp means it: keys to a specification.

Source: llama.cpp, src/llama-vocab.cpp (``llama_vocab::impl::load`` and the ``llm_tokenizer_*``
classes). docs/formats/gguf.md has the rules in words.
"""

from __future__ import annotations

from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats import gguf_text
from mtkit.formats.gguf_kinds import KINDS, Kind
from mtkit.formats.gguf_pre import NAMES, Pre
from mtkit.formats.gguf_special import (
    CONTROL,
    LSTRIP,
    NORMAL,
    RSTRIP,
    UNKNOWN,
    USER_DEFINED,
    resolve,
)
from mtkit.formats.gguf_stages import stages
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    ChatTemplate,
    SpecialIds,
    TokenizerSpec,
    TokenType,
    Vocabulary,
)
from mtkit.spec.packed import Numbers, Pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.formats.gguf_keys import Keys
    from mtkit.formats.gguf_special import Roles

PREFIX = "tokenizer.ggml."

ID_KEYS = {
    "bos": "bos_token_id",
    "eos": "eos_token_id",
    "eot": "eot_token_id",
    "eom": "eom_token_id",
    "unk": "unknown_token_id",
    "sep": "seperator_token_id",
    "pad": "padding_token_id",
    "mask": "mask_token_id",
    "fim_pre": "fim_pre_token_id",
    "fim_suf": "fim_suf_token_id",
    "fim_mid": "fim_mid_token_id",
    "fim_pad": "fim_pad_token_id",
    "fim_rep": "fim_rep_token_id",
    "fim_sep": "fim_sep_token_id",
}
"""Role -> key; the misspelling is the format's."""

OLD_ID_KEYS = {
    "fim_pre": "prefix_token_id",
    "fim_suf": "suffix_token_id",
    "fim_mid": "middle_token_id",
}
"""Read last, so they win."""

FLAGS = ("add_bos", "add_eos", "add_sep")
MAX_DUMMY_TOKENS = 1 << 26


class Given(TokenizerSpec):
    """Never made; names what ``read_vocabulary`` gives."""


def read_spec(keys: Keys) -> TokenizerSpec:
    """Build the specification from the keys.

    Raises:
        FormatError: A key has the wrong type or the vocabulary cannot work.
        UnsupportedError: The file holds no vocabulary.
    """
    name, architecture = _identity(keys)
    kind = _kind(keys, architecture)
    pre_name, pre = _pre(keys, kind)
    texts, types, scores = _columns(keys)
    flags = _flags(keys, kind, pre)
    ids = _ids(keys, kind, pre, len(texts))
    by_text = texts.ids
    raw = list(texts)
    roles = resolve(
        types,
        raw.__getitem__,
        by_text.get,
        ids,
        pre=pre_name,
        architecture=architecture,
        name=name,
    )
    vocabulary = Vocabulary(
        texts if kind.texts == "plain" else Pieces.of(gguf_text.pieces(kind.model, raw)),
        Numbers.of("B", _settled(types, roles)),
        scores if kind.scored else None,
    )
    built = stages(keys, kind, pre, vocabulary, roles, flags)
    return TokenizerSpec(
        vocabulary=vocabulary,
        added_tokens=_added(raw, roles),
        special_ids=SpecialIds(
            **{role: roles.ids[role] for role in (*ID_KEYS,) if role in roles.ids},
            cls=roles.ids.get("bos") if kind.model == "bert" else None,
            stop=roles.stop,
        ),
        chat_templates=_templates(keys),
        extras=_extras(kind, pre_name, architecture),
        name=name,
        **built,
    )
