"""Special tokens for which the files of a model folder give different ids.

A fine-tune that changes the token at the end of an answer in one of the files leaves a model whose
answers never end in programs that read another.
"""

from __future__ import annotations

import os

from mtkit.base.escape import quoted
from mtkit.base.rules import Finding, Rule
from mtkit.checkpoints.folder_files import GENERATION, MODEL_CONFIG, read_json
from mtkit.errors import MtkitError
from mtkit.formats.hf.config import content_of
from mtkit.formats.tokenizer_config import CONFIG, ROLES
from mtkit.sources.locate import TOKENIZER, in_folder
from mtkit.tokenizer.load import in_its_folder, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from mtkit.spec import TokenizerSpec

# fmt: off
SPECIAL_IDS = Rule("folder-special-ids", "warning", "transformers", CONFIG,
                   "config.json, generation_config.json and tokenizer_config.json give different "
                   "special tokens. Programs that read different files end answers at different "
                   "tokens, or never. mtkit convert takes that of tokenizer_config.json.",
                   advice="give the same token in all of them")
# fmt: on
RULES = (SPECIAL_IDS,)


def special_id_findings(folder: str) -> Iterator[Finding]:
    """Yield each role for which the files of a model folder give different tokens."""
    path = in_folder(folder, TOKENIZER.files)
    documents = {name: _document(folder, name) for name in (MODEL_CONFIG, GENERATION, CONFIG)}
    if path is None or not documents[CONFIG]:
        settings = {}
    else:
        settings = _settings_ids(path, documents[CONFIG])
    for role in ROLES:
        claims = {
            name: ids
            for name in (MODEL_CONFIG, GENERATION)
            if (ids := _ids(documents[name].get(f"{role}_token_id")))
        }
        if role in settings:
            claims[CONFIG] = {settings[role]}
        if _contradict(claims):
            text = content_of(documents[CONFIG].get(f"{role}_token"))
            names = {CONFIG: f" ({quoted(text)})"} if CONFIG in claims and text else {}
            parts = [
                f"{name} {' and '.join(map(str, sorted(ids)))}{names.get(name, '')}"
                for name, ids in claims.items()
            ]
            yield Finding(SPECIAL_IDS, f"{role}_token", ", ".join(parts), source=folder)


def _document(folder: str, name: str) -> Mapping[str, Any]:
    try:
        return read_json(os.path.join(folder, name))
    except (MtkitError, OSError):  # it is missing, or reading it reports the damage
        return {}


def _ids(value: Any) -> set[int]:
    """Return the ids of a field: one, or a list of them."""
    values = value if isinstance(value, list) else [value]
    return {number for number in values if type(number) is int and number >= 0}


def _settings_ids(path: str, settings: Mapping[str, Any]) -> dict[str, int]:
    """Return role -> id as tokenizer_config.json says, of those that the tokenizer has."""
    try:
        spec = in_its_folder(load(path)).spec
    except MtkitError:  # a finding about the tokenizer says so
        return {}
    texts = {role: content_of(settings.get(f"{role}_token")) for role in ROLES}
    ids = {role: _id_of(spec, text) for role, text in texts.items() if text}
    return {role: number for role, number in ids.items() if number is not None}


def _id_of(spec: TokenizerSpec, text: str) -> int | None:
    piece = text.encode("utf-8", "surrogatepass")
    added = {token.content: token.id for token in spec.added_tokens.tokens}
    return added[piece] if piece in added else spec.vocabulary.find(piece)


def _contradict(claims: Mapping[str, set[int]]) -> bool:
    """Tell whether two files have no id in common; a generation may end at several."""
    generation = claims.get(GENERATION, set())
    others = [ids for name, ids in claims.items() if name != GENERATION]
    if generation and all(ids & generation for ids in others):
        return False
    sets = [*others, generation] if generation else others
    return any(not left & right for at, left in enumerate(sets) for right in sets[at + 1 :])
