"""Mistral's tekken.json.

A JSON object: ``config`` (``pattern``, ``default_vocab_size``, ``default_num_special_tokens``,
``version``), ``vocab`` (rank, base64 bytes, of which only the first ``default_vocab_size -
default_num_special_tokens`` count) and, in newer files, ``special_tokens`` (rank, text, whether it
is a control token). Special tokens have the first ids, a piece has its rank plus their number; the
first 256 ranks are the bytes in their order.

Source: mistralai/mistral-common, tokens/tokenizers/tekken.py (``Tekkenizer``,
``_reload_mergeable_ranks``).
"""

from __future__ import annotations

from mtkit.base.binary import Source
from mtkit.errors import FormatError, UnsupportedError, shorten
from mtkit.formats.contract import Reading, Written, losses_between
from mtkit.formats.ranks import HIGHEST_RANK, RANK_RULES, rank_spec, rank_vocabulary, ranks_of
from mtkit.spec import SpecialIds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.formats.contract import WriteOptions
    from mtkit.spec import TokenizerSpec

NAME = "tekken"
TITLE = "Mistral tekken.json"

UNLISTED = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]",
    "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
)  # fmt: skip
"""Special tokens of files that do not list them (``DEPRECATED_SPECIAL_TOKENS``); the rest is
``<SPECIAL_n>``."""
BYTES = 256
_HEAD_BYTES = 4096


def sniff(source: Source) -> bool:
    """Tell by a JSON object with the marks of a tekken configuration or vocabulary."""
    head = bytes(source.data[:_HEAD_BYTES])
    if not head.lstrip().startswith(b"{"):
        return False
    return b'"default_num_special_tokens"' in head or b'"token_bytes"' in head


def read(source: Source, overrides: Mapping[str, object]) -> Reading:
    """Read a tekken.json.

    Raises:
        FormatError: The file is damaged.
    """
    from mtkit.formats.json_fields import Fields, check_plain, parse_json

    table = Fields(parse_json(source.data), "")
    config, listed = table.object("config"), table.values.get("special_tokens")
    check_plain([config.values, listed], "config or special_tokens")
    pattern = config.string("pattern")
    size = config.integer("default_vocab_size", most=HIGHEST_RANK)
    n_special = config.integer("default_num_special_tokens", most=size)
    names = _special_names(listed, n_special)
    ranks = {
        piece: rank + n_special
        for piece, rank in _pieces(table.items("vocab"), size - n_special).items()
    }
    special = {name: token_id for token_id, name in enumerate(names)}
    roles = SpecialIds(
        bos=special.get("<s>"),
        eos=special.get("</s>"),
        unk=special.get("<unk>"),
        pad=special.get("<pad>"),
        stop=(special["</s>"],) if "</s>" in special else (),
    )
    extras: dict[str, object] = {"tekken.config": config.values}
    if listed is not None:
        extras["tekken.special_tokens"] = listed
    others = {
        k: v for k, v in table.values.items() if k not in ("config", "vocab", "special_tokens")
    }
    if others:
        extras["tekken.other"] = others
    spec = rank_spec(rank_vocabulary(ranks), pattern, special, roles, extras=tuple(extras.items()))
    from mtkit.spec import post_processors, replace

    if roles.bos is not None and roles.eos is not None:
        slots = (
            post_processors.Slot(None, (roles.bos,), name="<s>"),
            post_processors.Slot(0),
            post_processors.Slot(None, (roles.eos,), name="</s>"),
        )
        spec = replace(spec, post_processor=post_processors.Template(slots))
    assumptions = (
        () if listed is not None else ("the special tokens of files that do not list them",)
    )
    return Reading(spec, assumptions)


def _special_names(listed: Any, count: int) -> list[str]:
    names = [UNLISTED[i] if i < len(UNLISTED) else f"<SPECIAL_{i}>" for i in range(count)]
    if listed is None:
        return names
    if not isinstance(listed, list) or len(listed) > count:
        raise FormatError(f"is not a list of at most {count}", field="special_tokens")
    names = [f"<SPECIAL_{i}>" for i in range(count)]
    for entry in listed:
        rank = entry.get("rank") if isinstance(entry, dict) else None
        name = entry.get("token_str") if isinstance(entry, dict) else None
        if type(rank) is not int or not 0 <= rank < count or not isinstance(name, str) or not name:
            raise FormatError(f"has the entry {shorten(repr(entry))}", field="special_tokens")
        names[rank] = name
    if len(set(names)) != len(names):
        raise FormatError("names a token twice", field="special_tokens")
    return names


def _pieces(vocab: list[Any], count: int) -> dict[bytes, int]:
    import binascii

    if len(vocab) < count:
        raise FormatError(f"has {len(vocab)} of {count} entries", field="vocab")
    ranks: dict[bytes, int] = {}
    for at, entry in enumerate(vocab[:count]):
        rank = entry.get("rank") if isinstance(entry, dict) else None
        text = entry.get("token_bytes") if isinstance(entry, dict) else None
        try:
            if rank != at or not isinstance(text, str):
                raise FormatError(f"has no rank {at} with bytes", field=f"vocab[{at}]")
            piece = binascii.a2b_base64(text.encode("ascii"))
        except ValueError:
            raise FormatError("is not valid base64", field=f"vocab[{at}].token_bytes") from None
        if at < BYTES and piece != bytes([at]):
            raise FormatError(f"is not the byte 0x{at:02x}", field=f"vocab[{at}].token_bytes")
        if piece in ranks:
            raise FormatError("occurs twice", field=f"vocab[{at}].token_bytes")
        ranks[piece] = at
    if len(ranks) < BYTES:
        raise FormatError(f"has {len(ranks)} of the {BYTES} bytes", field="vocab")
    return ranks


def write(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a byte-level specification whose special tokens have the first ids."""
    import binascii
    import json

    ranks, pattern, losses = ranks_of(spec, TITLE)
    tokens = sorted(spec.added_tokens.tokens, key=lambda token: token.id)
    n_special = len(tokens)
    ordered = sorted(ranks.items(), key=lambda item: item[1])
    expected = list(range(n_special, n_special + len(ordered)))
    if [token.id for token in tokens] != list(range(n_special)) or (
        [rank for _, rank in ordered] != expected
    ):
        what = f"{TITLE} needs the special tokens first, and then all other ids without a gap"
        raise UnsupportedError(what)
    wrong = next((at for at in range(BYTES) if ordered[at][0] != bytes([at])), None)
    if wrong is not None:
        raise UnsupportedError(
            f"{TITLE} has the bytes in order behind the special tokens, "
            f"id {n_special + wrong} is not 0x{wrong:02x}"
        )
    names = [token.content.decode("utf-8", "replace") for token in tokens]
    if len(set(names)) != n_special or "" in names:
        raise UnsupportedError(f"{TITLE} tells special tokens apart by their text")
    extras = dict(spec.extras)
    config = {
        "num_vocab_tokens": len(ordered),
        "version": "v3",
        **_as_table(extras.get("tekken.config")),
        "pattern": pattern,
        "default_vocab_size": n_special + len(ordered),
        "default_num_special_tokens": n_special,
    }
    table: dict[str, object] = {"config": config}
    table["vocab"] = [
        {
            "rank": rank - n_special,
            "token_bytes": binascii.b2a_base64(piece, newline=False).decode("ascii"),
            "token_str": _text(piece),
        }
        for piece, rank in ordered
    ]
    listed = extras.get("tekken.special_tokens")
    if n_special < len(UNLISTED) or not _names_are(names, listed):
        listed = [
            {"rank": at, "token_str": name, "is_control": True} for at, name in enumerate(names)
        ]
    if listed is not None:
        table["special_tokens"] = listed
    table.update(_as_table(extras.get("tekken.other")))
    data = json.dumps(table, ensure_ascii=False).encode("utf-8")
    back = read(Source("tekken.json", data), {}).spec
    return Written({"tekken.json": data}, losses_between(spec, back, losses, RANK_RULES))


def _as_table(extra: object) -> dict[str, Any]:
    return extra if isinstance(extra, dict) else {}


def _names_are(names: list[str], listed: object) -> bool:
    """Tell whether a list of special tokens gives these names."""
    try:
        return _special_names(listed, len(names)) == names
    except FormatError:
        return False


def _text(piece: bytes) -> str | None:
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        return None
