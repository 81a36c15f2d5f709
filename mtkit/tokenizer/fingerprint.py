"""One hash of what a tokenizer does: equal for equal specifications of any file."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.spec import TokenizerSpec


def fingerprint(spec: TokenizerSpec) -> str:
    """Return the SHA-256 of a specification, in hexadecimal.

    Names, chat templates, what is asked of texts of other lengths, and what one format alone
    understands do not count: they give no text other ids.
    """
    import hashlib
    import json

    from mtkit.spec import replace
    from mtkit.spec.codec import encode

    bare = replace(spec, name="", extras=(), chat_templates=(), truncation=None, padding=None)
    data = json.dumps(encode(bare, brief=True), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(data.encode()).hexdigest()
