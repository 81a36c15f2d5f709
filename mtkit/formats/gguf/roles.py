"""Roles of tokens as llama.cpp finds them: attributes, special ids, ends of generation and text.

``resolve_roles`` follows ``llama_vocab::impl::load`` step by step. Where that walks over a hash
table to find the one token with a role (``EOT``, ``FIM_*``), the first of ``ROLE_TEXTS`` that is a
token is taken here; docs/formats/gguf-vocabulary.md says what that can change. ``roles_of`` applies
the same rules to a specification, by the texts, types, ids, name and architecture of its GGUF.

llama.cpp sorts its special tokens by length with ``std::sort``, which is not stable, and where two
tokens of one length overlap in a text, their order changes the ids. ``std_sort`` is the introsort
of libstdc++: quicksort with the median of three moved to the front, down to ranges of 16, then one
insertion sort; heap sort when the recursion gets too deep.

Source: llama.cpp, src/llama-vocab.cpp; the GNU C++ library, bits/stl_algo.h and bits/stl_heap.h.
"""

from __future__ import annotations

from mtkit.base.packed import Pieces
from mtkit.base.record import Record
from mtkit.errors import UnsupportedError
from mtkit.formats.gguf.metadata import (
    ARCHITECTURE_OF_FAMILY,
    EXTRAS,
    ID_KEYS,
    KINDS,
    MODEL_OF_FAMILY,
    default_ids,
)
from mtkit.formats.gguf.vocabulary import spell_pieces
from mtkit.spec import model_name, post_processors
from mtkit.spec.vocabulary import TokenType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mtkit.formats.gguf.metadata import Family
    from mtkit.spec import TokenizerSpec
    from mtkit.spec.post_processors import PostProcessor


_SHORT_RANGE = 16
"""Ranges up to this length are left to the insertion sort."""


def std_sort(items: Sequence[int], key: Callable[[int], int]) -> list[int]:
    """Return the items by ascending key, equal ones in the order of ``std::sort``."""
    rows = [(key(item), item) for item in items]
    if rows:
        _introsort(rows, 0, len(rows), 2 * (len(rows).bit_length() - 1))
        _insertion_sort(rows)
    return [item for _, item in rows]


def _introsort(rows: list[tuple[int, int]], first: int, last: int, depth: int) -> None:
    while last - first > _SHORT_RANGE:
        if depth == 0:
            _heap_sort(rows, first, last)
            return
        depth -= 1
        cut = _partition(rows, first, last)
        _introsort(rows, cut, last, depth)
        last = cut


def _partition(rows: list[tuple[int, int]], first: int, last: int) -> int:
    """Move the median of three to the front and divide the rest around it."""
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    ka, kb, kc = rows[a][0], rows[b][0], rows[c][0]
    if ka < kb:
        median = b if kb < kc else (c if ka < kc else a)
    else:
        median = a if ka < kc else (c if kb < kc else b)
    rows[first], rows[median] = rows[median], rows[first]
    pivot = rows[first][0]
    low, high = first + 1, last
    while True:
        while rows[low][0] < pivot:
            low += 1
        high -= 1
        while pivot < rows[high][0]:
            high -= 1
        if low >= high:
            return low
        rows[low], rows[high] = rows[high], rows[low]
        low += 1


def _insertion_sort(rows: list[tuple[int, int]]) -> None:
    """Insertion sort over all rows, as libstdc++ finishes its introsort."""
    for at in range(1, len(rows)):
        row = rows[at]
        to = at
        while to and row[0] < rows[to - 1][0]:
            rows[to] = rows[to - 1]
            to -= 1
        rows[to] = row


def _heap_sort(rows: list[tuple[int, int]], first: int, last: int) -> None:
    size = last - first
    for parent in range((size - 2) // 2, -1, -1):
        _sift(rows, first, parent, size, rows[first + parent])
    for end in range(last - 1, first, -1):
        row = rows[end]
        rows[end] = rows[first]
        _sift(rows, first, 0, end - first, row)


def _sift(
    rows: list[tuple[int, int]], first: int, hole: int, size: int, row: tuple[int, int]
) -> None:
    """Let a hole sink to the bottom, then let ``row`` rise from there."""
    top, child = hole, hole
    while child < (size - 1) // 2:
        child = 2 * (child + 1)
        if rows[first + child][0] < rows[first + child - 1][0]:
            child -= 1
        rows[first + hole] = rows[first + child]
        hole = child
    if size % 2 == 0 and child == (size - 2) // 2:
        child = 2 * (child + 1)
        rows[first + hole] = rows[first + child - 1]
        hole = child - 1
    parent = (hole - 1) // 2
    while hole > top and rows[first + parent][0] < row[0]:
        rows[first + hole] = rows[first + parent]
        hole = parent
        parent = (hole - 1) // 2
    rows[first + hole] = row


UNKNOWN, UNUSED, NORMAL, CONTROL, USER_DEFINED, BYTE = 1, 2, 4, 8, 16, 32
LSTRIP, RSTRIP = 128, 256
"""Bits of an attribute; llama.cpp has two more that it never sets."""

ATTRIBUTE_OF_TYPE = bytes((0, NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE)).ljust(
    256, b"\0"
)
"""``TokenType`` -> bit; UNDEFINED has none."""

ROLE_TEXTS = {
    "eot": (
        "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
        "<EOT>", "_<EOT>", "[EOT]", "<\uff5cend\u2581of\u2581sentence\uff5c>",
        "<end_of_utterance>",
    ),
    "eom": ("<|eom_id|>",),
    "fim_pre": (
        "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<\uff5cfim\u2581begin\uff5c>", "<PRE>",
        "\u2581<PRE>", "<|code_prefix|>", "<|prefix|>",
    ),
    "fim_suf": (
        "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<\uff5cfim\u2581hole\uff5c>", "<SUF>",
        "\u2581<SUF>", "<|code_suffix|>", "<|suffix|>",
    ),
    "fim_mid": (
        "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<\uff5cfim\u2581end\uff5c>", "<MID>",
        "\u2581<MID>", "<|code_middle|>", "<|middle|>",
    ),
    "fim_pad": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    "fim_rep": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "fim_sep": ("<|file_sep|>",),
}  # fmt: skip
"""Role -> texts of tokens that get it when no key says an id, in the order of preference."""

END_TEXTS = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>", "[e~[",
)  # fmt: skip
"""Texts that end a generation wherever they are a token."""

FRAME_TEXTS = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")
"""Texts that are always user-defined, so that they are shown."""


class Roles(Record):
    """The roles of a vocabulary's tokens in llama.cpp.

    Attributes:
        ids: Role -> id, for the roles that are set, defaults included.
        stated: The part of ``ids`` that the file states, by a key or by the text of a token.
        stated_stop: The part of ``stop`` that follows from ``stated``.
        special: Ids that are cut out of a text before it is encoded, in that order.
    """

    attributes: list[int]
    ids: dict[str, int]
    stop: tuple[int, ...]
    stated: dict[str, int]
    stated_stop: tuple[int, ...]
    special: list[int]


def resolve_roles(
    types: bytes,
    texts: Sequence[bytes],
    by_text: Mapping[bytes, int],
    ids: dict[str, int],
    defaults: Mapping[str, int],
    *,
    pre: str,
    architecture: str,
    name: str,
) -> Roles:
    """Find the roles of all tokens.

    Args:
        defaults: Role -> id where no key says one.
    """
    all_ids = {**defaults, **ids}
    bits = list(types.translate(ATTRIBUTE_OF_TYPE))
    for role, names in ROLE_TEXTS.items():
        if role in all_ids:
            continue
        for text in names:
            token = by_text.get(text.encode())
            if token is not None:
                all_ids[role] = token
                bits[token] |= CONTROL
                break
    for token, number in enumerate(bits):
        if number & CONTROL and b"unused" in texts[token]:
            bits[token] |= UNUSED
    ends = _generation_ends(all_ids, bits, by_text)
    stated = {role: token for role, token in all_ids.items() if role in ids or role not in defaults}
    stated_ends = ends if stated == all_ids else _generation_ends(stated, list(bits), by_text)
    special = [
        token for token, number in enumerate(bits) if number & (CONTROL | USER_DEFINED | UNKNOWN)
    ]
    special = std_sort(special, lambda token: -len(texts[token]))
    _mark_stripping(bits, special, by_text, pre, architecture, name.lower())
    stop, stated_stop = tuple(sorted(ends)), tuple(sorted(stated_ends))
    return Roles(bits, all_ids, stop, stated, stated_stop, special)


def types_by_roles(types: bytes, roles: Roles) -> bytes:
    """Return the types of the file, replaced where the rules overrule it."""
    result = bytearray(types)
    type_of_bit = {USER_DEFINED: TokenType.USER_DEFINED, NORMAL: TokenType.NORMAL}
    for token, number in enumerate(roles.attributes):
        own = ATTRIBUTE_OF_TYPE[types[token]]
        if number != own and number & own != own:
            result[token] = type_of_bit[number]
    return bytes(result)


def _generation_ends(
    ids: dict[str, int], bits: list[int], by_text: Mapping[bytes, int]
) -> set[int]:
    """Collect the tokens that end a generation and mark them."""
    ends = {ids[role] for role in ("fim_pad", "fim_rep", "fim_sep") if role in ids}
    tokens = {
        text: by_text.get(text.encode()) for text in (*END_TEXTS, *FRAME_TEXTS, "<|plamo:eos|>")
    }
    for text in END_TEXTS:
        token = tokens[text]
        if token is not None:
            ends.add(token)
            bits[token] |= CONTROL
    for text in FRAME_TEXTS:
        token = tokens[text]
        if token is not None:
            bits[token] = USER_DEFINED
    ends |= {ids[role] for role in ("eos", "eot", "eom") if role in ids}

    def has(text: str) -> bool:
        return tokens[text] in ends

    # <|end|> ends a message, not the generation, where calls and final answers have their own end.
    calls = has("<|call|>") or has("<|calls|>")
    end = tokens["<|end|>"]
    if end in ends and calls and (has("<|return|>") or has("<|flush|>")):
        ends.discard(end)
        bits[end] = USER_DEFINED
    close = tokens["</s>"]
    if close in ends and (has("<|tool_response>") or has("<|plamo:eos|>")):
        ends.discard(close)
        bits[close] = NORMAL
    return ends


def _mark_stripping(
    bits: list[int],
    special: list[int],
    by_text: Mapping[bytes, int],
    pre: str,
    architecture: str,
    name: str,
) -> None:
    """Mark the tokens that strip white space, which only the names of some models tell."""
    jina = ("jina-v2-de", "jina-v2-es", "jina-v2-code")
    if any(part in pre for part in jina) or any(
        part in architecture for part in ("nomic-bert-moe", "jina-bert-v3")
    ):
        mask = by_text.get(b"<mask>")
        if mask is not None:
            bits[mask] |= LSTRIP
    elif "phi-3" in name or "phi3" in name:
        for token in special:
            bits[token] |= RSTRIP
        for text in (b"</s>", b"<unk>", b"<s>", b"<|endoftext|>"):
            token_id = by_text.get(text)
            if token_id is not None:
                bits[token_id] &= ~RSTRIP
                if text == b"</s>":
                    bits[token_id] |= RSTRIP
    elif "modern-bert" in name:
        mask = by_text.get(b"[MASK]")
        if mask is not None:
            bits[mask] |= LSTRIP


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
    """Return which of llama.cpp's tokenizers runs a model."""
    name = type(spec.model).__name__
    if name not in _FAMILIES:
        what = f"llama.cpp has no tokenizer for {model_name(spec.model)}"
        raise UnsupportedError(what, field="model")
    return _FAMILIES[name]


def extras_of(spec: TokenizerSpec) -> dict[str, object]:
    """Return the extras of a GGUF."""
    extras = dict(spec.extras).get(EXTRAS)
    return extras if isinstance(extras, dict) else {}


def model_of(spec: TokenizerSpec) -> str:
    """Return the ``tokenizer.ggml.model`` of a specification."""
    return str(extras_of(spec).get("model") or MODEL_OF_FAMILY[family_of(spec)])


def architecture_of(spec: TokenizerSpec) -> str:
    """Return the ``general.architecture`` of a specification."""
    name = extras_of(spec).get("architecture")
    return str(name or ARCHITECTURE_OF_FAMILY.get(family_of(spec), "llama"))


def texts_of(spec: TokenizerSpec) -> list[bytes]:
    """Return the token texts of a vocabulary as a GGUF spells them."""
    return list(spell_pieces(model_of(spec), spec.vocabulary.pieces))


def attributes(spec: TokenizerSpec) -> list[int]:
    """Return the attribute bits of every token, by id, as llama.cpp answers them."""
    return roles_of(spec).attributes


def roles_of(spec: TokenizerSpec) -> Roles:
    """Return the roles of every token of a specification that was read from a GGUF."""
    texts = texts_of(spec)
    ids = {role: getattr(spec.special_ids, role) for role in ID_KEYS}
    return resolve_roles(
        spec.vocabulary.all_types(),
        texts,
        Pieces.of(texts).ids,
        {role: number for role, number in ids.items() if number is not None},
        default_ids(KINDS[model_of(spec)], None, len(texts)),
        pre=str(extras_of(spec).get("pre", "")),
        architecture=architecture_of(spec),
        name=spec.name,
    )


def text_ends(spec: TokenizerSpec) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the ids in front and behind; None where the text does not stand exactly once."""
    return _processor_ends(spec.post_processor)


def separates_pairs(spec: TokenizerSpec) -> bool:
    """Tell whether SEP stands between the texts of a pair, behind the end of the first."""
    processor, sep = spec.post_processor, spec.special_ids.sep
    if not isinstance(processor, post_processors.Template) or sep is None:
        return False
    texts = [at for at, slot in enumerate(processor.pair) if slot.text is not None]
    if len(texts) != 2:
        return False
    between = [token for slot in processor.pair[texts[0] + 1 : texts[1]] for token in slot.ids]
    ends = text_ends(spec)
    return between == [*(ends[1] if ends else ()), sep]


def _processor_ends(
    processor: PostProcessor | None,
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    if isinstance(processor, (post_processors.Bert, post_processors.Roberta)):
        return (processor.cls[1],), (processor.sep[1],)
    if isinstance(processor, post_processors.Template):
        places = [at for at, slot in enumerate(processor.single) if slot.text is not None]
        if len(places) != 1:
            return None
        first = [token for slot in processor.single[: places[0]] for token in slot.ids]
        last = [token for slot in processor.single[places[0] + 1 :] for token in slot.ids]
        return tuple(first), tuple(last)
    if isinstance(processor, post_processors.Sequence):
        all_ends = [_processor_ends(step) for step in processor.steps]
        if None in all_ends:
            return None
        step_ends = [ends for ends in all_ends if ends]
        first_ids = tuple(token for ends in reversed(step_ends) for token in ends[0])
        return first_ids, tuple(token for ends in step_ends for token in ends[1])
    return (), ()
