"""Native core of mtkit."""

from collections.abc import Callable

INTERFACE: int
"""Which interface the core was built with, see mtkit/base/native.py."""

def raw_pieces(blob: object, ends: object) -> tuple[bytes, bytes, bytes]:
    """Pieces in the byte alphabet as bytes: (blob, ends, u8 each: whether it is in it)."""

def build_words(
    blob: object, ends: object, extra_blob: object, extra_ends: object, listed: object
) -> bytes:
    """The table piece -> id; `listed`: u8 each whether it counts, empty: all."""

def build_pairs(
    merges: object, sections: dict[str, object], prefix: int, by_text: bool
) -> tuple[bytes, bytes, bytes]:
    """The tables pair -> rank and rank -> symbol, and a bit for pairs that may merge."""

def build_own_words(merges: object, sections: dict[str, object], raw: bool) -> bytes:
    """A bit for each piece of which merging bytes makes itself; empty: not each byte is one."""

def build_trie(blob: object, ends: object, listed: object) -> bytes:
    """The trie of the pieces; `listed`: u8 each whether it counts, empty: all."""

def build_ranks(scores: object, wide: bool, floor: float | None) -> bytes:
    """Place of each score in descending order; wide: f64 instead of f32."""

def build_path_scores(
    blob: object,
    ends: object,
    scores: object,
    wide: bool,
    types: object,
    user_defined: int,
    every: bool,
) -> tuple[bytes, float]:
    """What each id counts in a Unigram, and an unknown character."""

class Deferred(Exception):
    """A text or an id that is left to the pipeline."""

class Engine:
    """A tokenizer from its tables; used by any thread."""

    def __init__(
        self, tables: dict[str, object], cache_bytes: int = 8388608, know_words: bool = False
    ) -> None: ...
    def encode_ids(
        self, text: object, add_special_tokens: bool, parse_special: bool | None
    ) -> list[int]:
        """Ids of a text; parse_special: None for the default."""

    def encode_array(
        self, text: object, add_special_tokens: bool, parse_special: bool | None
    ) -> memoryview:
        """The same as a view of int32."""

    def direct(self, otherwise: Callable[..., object], as_list: bool) -> Callable[..., object]:
        """encode_ids or encode_array as (text, *, add_special_tokens=True, parse_special=None).

        What the core cannot answer alone goes to otherwise.
        """

    def encode_offsets(
        self, text: object, add_special_tokens: bool, parse_special: bool | None
    ) -> tuple[memoryview, memoryview]:
        """Views of int32: the ids, and start and end of each in characters."""

    def encode_tokens(
        self, texts: list[object], parse_special: bool | None
    ) -> list[tuple[list[int], list[tuple[int, int]], list[tuple[int, bytes]]] | None]:
        """Of each text ids, offsets, and (place, text) of tokens not spelled as their pieces.

        None: the pipeline has to take it. Nothing is added around.
        """

    def encode_batch_ids(
        self,
        texts: list[object],
        add_special_tokens: bool,
        parse_special: bool | None,
        threads: int,
    ) -> tuple[list[list[int]], list[int]]:
        """The ids of each text, and which are left to the pipeline: theirs are empty."""

    def encode_batch_arrays(
        self,
        texts: list[object],
        add_special_tokens: bool,
        parse_special: bool | None,
        threads: int,
    ) -> tuple[memoryview, memoryview, list[int]]:
        """Ids of all texts (int32), starts of rows (int64), and texts left to the pipeline.

        The starts end with that of a row behind the last. Rows of texts that are left are empty.
        """

    def own_words(self) -> bytes:
        """Table of the pieces that are encoded as themselves; empty: the model needs none."""

    def warm(self) -> bool:
        """Make what is otherwise made when enough text was seen; whether words are cut."""

    @property
    def cached_bytes(self) -> int:
        """What words that idle calls remember take."""

    @property
    def cuts_at_pattern(self) -> bool:
        """Whether words are cut at a pattern without a call for each."""

    @property
    def aligns(self) -> bool:
        """Whether there is encode_tokens for it."""

class Decoder:
    """The way back of a tokenizer from its tables; used by any thread."""

    def __init__(self, tables: dict[str, object]) -> None: ...
    @property
    def vocab_size(self) -> int:
        """Number of ids."""

    def first_outside(self, ids: list[int]) -> int | None:
        """Place of the first number that is not an id, None where all are."""

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        """Text of ids."""

    def direct(self, otherwise: Callable[..., object]) -> Callable[..., object]:
        """Decode as a function (ids, *, skip_special_tokens=True) of a list of known ids.

        All else goes to otherwise.
        """

    def decode_bytes(self, ids: list[int], skip_special_tokens: bool) -> bytes:
        """Bytes of ids."""

class Guard:
    """Makes an error of a mapped file that is truncated, see mapping.hpp."""

    def __init__(self, mapped: object, path: str) -> None: ...
    def require_whole(self) -> None:
        """Raise where the file is not what it was."""

class PatternMatcher:
    """A split pattern from its tables."""

    def __init__(self, tables: bytes) -> None: ...
    def find(self, text: bytes) -> bytes:
        """Start and end of each match in a UTF-8 text, in bytes, as u64."""

    @property
    def family(self) -> str:
        """Which published pattern it is; empty: another."""

    def word_starts(self, text: bytes) -> int:
        """Bits where words certainly start among 64 bytes; 0: not for this pattern."""

def simd() -> str:
    """Which vector instructions are used."""

def simd_levels() -> list[str]:
    """Which the machine has, the best last; MTKIT_SIMD may name one of them."""

class PieceIndex:
    """Where each piece is, by its text."""

    def __init__(self, blob: object, ends: object) -> None: ...
    @property
    def distinct(self) -> bool:
        """Whether no two pieces are equal."""

    def find(self, text: bytes) -> int | None:
        """Number of the first piece that reads so."""

    def words(self, listed: object) -> bytes | None:
        """The table piece -> id of those `listed` (u8 each; empty: all); None: build it."""

class JsonModel:
    """Vocabulary and merges of an ordinary tokenizer.json."""

    @property
    def rest(self) -> bytes:
        """The document without them."""

    @property
    def blob(self) -> bytes:
        """The tokens by id; nothing at an id that none has."""

    @property
    def ends(self) -> bytes:
        """Where each ends (u32)."""

    @property
    def present(self) -> bytes:
        """u8 each: whether there is a token."""

    @property
    def count(self) -> int:
        """Number of tokens."""

    @property
    def merges(self) -> bytes | None:
        """Left and right id in turn (u32); None where the document has no merges."""

    @property
    def scores(self) -> bytes | None:
        """By id (f64), where the vocabulary is a list of tokens with scores."""

    def find(self, token: bytes) -> int | None:
        """Id of a token."""

def read_spm_pieces(model: object) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes] | None:
    """Texts, their ends (u32), types (u8), scores (f32) and marks of pieces; the model's rest.

    Marks: u8 each, 1: has no score, 2: says NORMAL. None: it is not an ordinary model.
    """

def read_merge_lines(
    lines: object, line_ends: object, blob: object, ends: object
) -> tuple[bytes, bytes, bytes, bool]:
    """Merges of a GGUF over pieces: pairs (u32), parts that are no pieces, and their ends (u32).

    Last: whether all that merging takes and makes is a piece.
    """

def read_rank_lines(file: object) -> tuple[bytes, bytes, bytes] | None:
    """Tokens of a .tiktoken by rank, in the byte alphabet, their ends (u32), and what is there.

    What is there: u8 each, 0 at a rank that no token has. None: it is not an ordinary file.
    """

def read_json_model(document: object) -> JsonModel | None:
    """The long parts of a tokenizer.json; None: it is not an ordinary one."""

def walk_strings(
    data: object, offset: int, count: int, wide: bool, big_endian: bool, every: int
) -> tuple[int, bytes]:
    """The offset behind a GGUF array's strings, and that of every so many of them (u64)."""

def parse_mtok_vocab(
    data: object, offset: int, count: int, with_score: bool
) -> tuple[bytes, bytes, bytes, bytes, int]:
    """Entries of a .mtok: pieces by id, their ends, scores (f64), hidden ids, end offset."""

def parse_mtok_merges(
    data: object, offset: int, count: int, blob: object, ends: object, hidden: object
) -> tuple[bytes, bytes, bool]:
    """Merges of a .mtok by rank: pairs, ranks, whether each makes a token of its own rank."""

def pack_strings(
    data: object, offset: int, count: int, wide: bool, big_endian: bool
) -> tuple[bytes, bytes]:
    """The strings of a GGUF array in one blob, and where each ends in it (u32)."""

def places_of(blob: object, ends: object, wanted: list[bytes]) -> list[int]:
    """Ids of the pieces that are one of a few, rising."""

def nearest_rows(
    rows: object,
    lengths: object,
    wanted: object,
    wanted_length: float,
    skip: int,
    most: int,
    least: float,
) -> list[tuple[int, float]]:
    """Row and cosine of the rows that are nearest to one, the nearest first.

    Args:
        rows: int8 of shape (n, width), width at most 65536.
        lengths: Of the rows; float32 of shape (n,). Rows of length 0 are left out.
        wanted: int8 of shape (width,).
        wanted_length: Its length.
        skip: A row that is left out.
        most: How many rows.
        least: Their least cosine.
    """
