"""What the files of a tokenizer held beyond the specification, as far as it is still true.

``TokenizerSpec.extras`` keeps it by file, in its own spelling, and it is written again. Where the
specification has changed since (``replace``), a kept spelling of a special token would be read back
as the old one: it is left out.
"""

from __future__ import annotations

from mtkit.formats.added_tokens import CONFIG, ROLES, SPECIAL
from mtkit.formats.hf.config import GENERATION, content_of, stop_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.formats.contract import AddLoss
    from mtkit.spec import SpecialIds, TokenizerSpec

OWN_FILES = ("tokenizer.json", CONFIG, SPECIAL, GENERATION)


def adapt_extras(
    spec: TokenizerSpec, special_ids: SpecialIds, add: AddLoss
) -> tuple[tuple[str, object], ...]:
    """Return the extras that the files can hold; list those that they cannot.

    Args:
        spec: What is written.
        special_ids: Its special tokens as the files can hold them.
        add: Takes a loss: code, field, effect.
    """
    kept: list[tuple[str, object]] = []
    for name, held in spec.extras:
        if name not in OWN_FILES:
            add("metadata", "extras", f"settings that only {name} files can hold are not kept")
            continue
        true = _still_true(name, held, spec, special_ids) if isinstance(held, dict) else held
        if true != held:
            add("metadata", "extras", "changed special tokens are written again")
        if true:
            kept.append((name, true))
    return tuple(kept)


def _still_true(
    name: str, held: dict[str, Any], spec: TokenizerSpec, special_ids: SpecialIds
) -> dict[str, Any]:
    if name == GENERATION:
        same = "eos_token_id" not in held or stop_ids(held) == special_ids.stop
        return held if same else {k: v for k, v in held.items() if k != "eos_token_id"}
    if name not in (CONFIG, SPECIAL):
        return held
    known = {token.content: token.id for token in spec.added_tokens.tokens}

    def means_another(role: str) -> bool:
        content = content_of(held.get(f"{role}_token"))
        if content is None or (role == "unk" and getattr(spec.model, "unk", None) is not None):
            return False  # which counts more than the file
        piece = content.encode("utf-8", "surrogatepass")
        number = known[piece] if piece in known else spec.vocabulary.pieces.find(piece)
        # One that is in no vocabulary would be added by whoever reads the file.
        return number is None or number != getattr(special_ids, role)

    others = {f"{role}_token" for role in ROLES if means_another(role)}
    return {k: v for k, v in held.items() if k not in others} if others else held
