"""Small files for what only MNN's loader and llama2.c's tokenizer have, with answers by rule.

Neither can be installed. The answers follow from the rules in docs/formats and in the docstrings of
the specification; other tests hold files of both to answers recorded from the references.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from mtkit.base.binary import Source
from mtkit.formats import hf, llama2c, mnn_text, mtok
from mtkit.formats.contract import WriteOptions

if TYPE_CHECKING:
    from mtkit.spec import TokenizerSpec


class Rules(NamedTuple):
    """A specification and answers.

    Attributes:
        encoded: Texts and their ids without special tokens.
        decoded: Ids and their bytes.
    """

    spec: TokenizerSpec
    encoded: list[tuple[str, list[int]]]
    decoded: list[tuple[list[int], bytes]]


def _bare(**document: Any) -> TokenizerSpec:
    """Write a tokenizer.json as a bare .mtok; return what MNN makes of that file."""
    content = json.dumps({"version": "1.0", "added_tokens": [], **document}).encode()
    spec = hf.read(Source("tokenizer.json", content), {}).spec
    data = mtok.write(spec, WriteOptions(extension=False)).files[".mtok"]
    return mtok.other_readings()["mnn"].read(Source("a.mtok", data)).spec


def loose() -> Rules:
    """Some byte tokens, not all of them, make the merges a table beside the vocabulary."""
    vocabulary = {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "<0x41>": 5, "<0xC3>": 6}
    spec = _bare(model={"type": "BPE", "merges": [["a", "b"], ["ab", "c"]], "vocab": vocabulary})
    # "A" is its byte token; of the two bytes of "é" only the first has one, the other is dropped.
    encoded = [("abc", [4]), ("abAc", [3, 5, 2]), ("éa", [6, 0]), ("cab", [2, 3]), ("bb", [1, 1])]
    return Rules(spec, encoded, [])


def bert() -> Rules:
    """BERT's clean-up by a table, and pieces joined as bytes."""
    pieces = ["[UNK]", "e", "##e", "中", "ab", "##c", "."]
    spec = _bare(
        normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                    "strip_accents": None, "lowercase": True},
        pre_tokenizer={"type": "BertPreTokenizer"},
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
        model={"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
               "max_input_chars_per_word": 100,
               "vocab": {piece: at for at, piece in enumerate(pieces)}},
    )  # fmt: skip
    encoded = [
        ("É e\u0301E", [1, 1, 2]),  # decomposed and bare, in small letters
        ("e中e", [1, 3, 1]),  # Han stands alone
        ("AB\tABC x.", [4, 4, 5, 0, 6]),
        ("a\x07b\0", [4]),  # controls are gone
    ]
    return Rules(spec, encoded, [([1, 2, 4, 5, 6], b"ee abc."), ([3, 6, 4], "中. ab".encode())])


def lattice() -> Rules:
    """Unigram over bytes, spaces marked, compatibility characters by a table."""
    pieces = [("<u>", -9), ("a", -1), ("b", -1), ("ab", -2), ("\u2581", -1), ("bb", -0.5)]
    pieces.append(("fi", -1))
    marks = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always",
             "split": False}  # fmt: skip
    spec = _bare(
        normalizer={"type": "NFKC"},
        pre_tokenizer=marks,
        decoder=marks,
        model={"type": "Unigram", "unk_id": 0, "byte_fallback": False,
               "vocab": [[piece, float(score)] for piece, score in pieces]},
    )  # fmt: skip
    encoded = [
        ("ab", [4, 1, 2]),  # two ways of the same sum: the one with the short last piece
        ("abbb", [4, 1, 5, 2]),
        (" a  b", [4, 1, 4, 4, 2]),  # one mark a space, none put in front of a space
        ("\ufb01\uff41", [4, 6, 1]),  # the ligature and the wide letter are in the table
        ("xyza", [4, 0, 1]),  # neighboring unknown characters are one
    ]
    return Rules(spec, encoded, [([4, 1, 4, 2], b"a b"), ([5, 4], b"bb ")])


def first_mark() -> Rules:
    """MNN's first kind of text file: of each token the first mark is a space."""
    rows = [("<unk>", 0, 2), ("<s>", 0, 3), ("\u2581a", -1, 1), ("b\u2581c\u2581", -2, 1)]
    rows += [("\u2581", -3, 1), ("a", -4, 1)]
    lines = "".join(f"{base64.b64encode(p.encode()).decode()} {s} {k}\n" for p, s, k in rows)
    content = f"430 0\n0 0 0\n\n{len(rows)}\n{lines}"
    spec = mnn_text.read(Source("tokenizer.txt", content.encode()), {}).spec
    return Rules(spec, [("a", [2]), ("aa", [2, 5])], [([2, 3, 2], " ab c\u2581 a".encode())])


def after_bos() -> Rules:
    """llama2.c: a piece behind BOS loses one space in front."""
    tokens = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(b"<0x%02X>" % value for value in range(256))]
    tokens += [b" ", b"a", b" a", b"  a"]
    rows = b"".join(struct.pack("<fi", float(at), len(t)) + t for at, t in enumerate(tokens))
    spec = llama2c.read(Source("tokenizer.bin", struct.pack("<I", 9) + rows), {}).spec
    decoded = [
        ([1, 261, 261], b"a a"),
        ([1, 262], b" a"),
        ([261], b" a"),
        ([1, 3 + 0xC3, 3 + 0xA9], "é".encode()),
    ]
    return Rules(spec, [("a", [261]), ("aa", [261, 260])], decoded)


RULES = {
    ("Normalizer", "CodePointTable"): lattice, ("Normalizer", "BertTable"): bert,
    ("PreTokenizer", "MarkSpaces"): lattice, ("Model", "LooseBPE"): loose,
    ("Model", "LatticeUnigram"): lattice, ("Decoder", "Bytewise"): bert,
    ("Decoder", "FirstMark"): first_mark, ("Decoder", "AfterBos"): after_bos,
}  # fmt: skip
