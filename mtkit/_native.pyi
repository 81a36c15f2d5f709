"""Native core of mtkit."""

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
) -> tuple[bytes, bytes]:
    """The tables pair -> rank and rank -> symbol."""

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

def crossed(blob: object, ends: object, names: list[bytes]) -> bytes | None:
    """The bytes that some piece has in front of a run of U+2581; None: one of the names."""

class Deferred(Exception):
    """A text or an id that is left to the pipeline."""

class Engine:
    """A tokenizer from its tables; used by any thread."""

    def __init__(self, tables: dict[str, object]) -> None: ...
    def encode_ids(
        self, text: object, add_special_tokens: bool, parse_special: bool | None
    ) -> list[int]:
        """Ids of a text; parse_special: None for the default."""

    def encode_packed(
        self, text: object, add_special_tokens: bool, parse_special: bool | None
    ) -> memoryview:
        """The same as a view of int32."""

    def encode_places(
        self, text: object, add_special_tokens: bool, parse_special: bool | None
    ) -> tuple[memoryview, memoryview]:
        """Views of int32: the ids, and start and end of each in characters."""

    def encode_tokens(
        self, texts: list[object], parse_special: bool | None
    ) -> list[tuple[list[int], list[tuple[int, int]], list[tuple[int, bytes]]] | None]:
        """Of each text ids, offsets, and (place, text) of tokens not spelled as their pieces.

        None: the pipeline has to take it. Nothing is added around.
        """

    def encode_batch(
        self,
        texts: list[object],
        add_special_tokens: bool,
        parse_special: bool | None,
        threads: int,
    ) -> tuple[list[list[int]], list[int]]:
        """The ids of each text, and which are left to the pipeline: theirs are empty."""

    def encode_batch_packed(
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
        """Make what is otherwise made when enough text was seen; whether merges have borders."""

    @property
    def cuts_at_pattern(self) -> bool:
        """Whether words are cut at a pattern without a call for each."""

    @property
    def aligns(self) -> bool:
        """Whether there is encode_tokens for it."""

class Column:
    """Numbers that the core made."""

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

    def decode_bytes(self, ids: list[int], skip_special_tokens: bool) -> bytes:
        """Bytes of ids."""

class PatternMatcher:
    """A split pattern from its tables."""

    def __init__(self, tables: bytes) -> None: ...
    def find(self, text: bytes) -> bytes:
        """Start and end of each match in a UTF-8 text, in bytes, as u64."""

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
