"""Rules of llama.cpp that no golden file shows, held to llama.cpp itself."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from llama import Llama
from support import shared

from mtkit.base.binary import Source
from mtkit.formats import gguf
from mtkit.formats.contract import WriteOptions
from mtkit.formats.gguf.roles import std_sort
from mtkit.formats.gguf.vocabulary import parse_texts, spell_pieces
from mtkit.gguf.writer import Key, gguf_bytes
from mtkit.pipeline import Pipeline
from mtkit.unicode.utf8 import BYTE_LETTERS

TEXTS = (
    b"Hello World  foo\nbar 123456",
    "\U00010d50 \u1c89 \ua7cb \U0001e900".encode(),
    b"\xc3\x84RGER \xc4\xb0stanbul",
    b" a",
    b"it's12345abc!?x-y",
    b"",
)

DNA = (
    "He AC",
    "<dna>ACGTAC</dna>",
    "<dna>acgtacgta</dna> He",
    "<dna></dna>",
    "He<dna>ACGTACxx</dna> AC<dna>ACGT",
    "ACGT</dna>He</dna><dna>",
    "<dna>A C\n</dna>",
    "<dna>\u00e9ACGTA</dna>",
    "<dna>ACGTAC<dna>ACGTAC</dna><oov>",
)


@pytest.mark.parametrize("pre", ["whitespace", "llama3", "gpt-2", "gemma4", "sarvam-moe"])
def test_words_between_white_space(pre: str) -> None:
    path = shared("gguf-vocab/ggml-vocab-gpt-2.gguf")
    overrides = {"tokenizer.ggml.model": "whitespace", "tokenizer.ggml.pre": pre}
    pipeline = Pipeline(gguf.read(Source.open(str(path)), overrides).spec)
    llama = Llama(path, overrides)
    for text in TEXTS:
        for add in (False, True):
            found = pipeline.encode_ids(text, add_special_tokens=add, parse_special=False)
            assert found == llama.encode(text, add=add, parse=False), text
    llama.close()


def test_case_and_accents_are_those_of_unicode_15_1(tmp_path: Path) -> None:
    # Capitals of Unicode 16.0 and 17.0, a letter of 9.0 that decomposes, one of 16.0 that does.
    letters = "\U00010d50\U00010d70\u1c89\u1c8a\ua7cb\u0264\ua7da\ua7db\U0001e900\U0001e922"
    letters += "\u1e9b\u017f\U000113c5\U000113c2\U00016121\U0001611e\u0130i"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *("\u2581" + letter for letter in letters)]
    ids = {"bos": 2, "seperator": 3, "unknown": 1}
    keys = [
        Key("general.architecture", "string", "bert"),
        Key("tokenizer.ggml.model", "string", "bert"),
        Key("tokenizer.ggml.tokens", "string[]", [word.encode() for word in words]),
        *(Key(f"tokenizer.ggml.{role}_token_id", "u32", number) for role, number in ids.items()),
    ]
    path = tmp_path / "letters.gguf"
    path.write_bytes(gguf_bytes(keys))
    pipeline, llama = Pipeline(gguf.read(Source.open(str(path)), {}).spec), Llama(path)
    for letter in letters:
        found = pipeline.encode_ids(letter, add_special_tokens=False, parse_special=False)
        assert found == llama.encode(letter.encode(), add=False, parse=False), hex(ord(letter))
    llama.close()


def test_sections_of_dna(tmp_path: Path) -> None:
    mark = "\ue000".encode()
    runs = [b"ACGTAC", b"GTAAAA", b"AAAAAA", b"ACGTAA"]
    tokens = [letter.encode() for letter in BYTE_LETTERS]
    tokens += [b"He", b"AC", b"<dna>", b"</dna>", b"<oov>", *(run + mark for run in runs)]
    path = tmp_path / "dna.gguf"
    for kind in (1, 3, 4):
        types = [*[1] * 258, *[kind] * 3, *[1] * 4]
        keys = [
            Key("general.architecture", "string", "llama"),
            Key("tokenizer.ggml.model", "string", "hybriddna"),
            Key("tokenizer.ggml.pre", "string", "gpt-2"),
            Key("tokenizer.ggml.tokens", "string[]", tokens),
            Key("tokenizer.ggml.token_type", "i32[]", types),
            Key("tokenizer.ggml.merges", "string[]", [b"H e", b"A C"]),
        ]
        path.write_bytes(gguf_bytes(keys))
        spec = gguf.read(Source.open(str(path)), {}).spec
        pipeline, llama = Pipeline(spec), Llama(path)
        for text in DNA:
            for parse in (False, True):
                found = pipeline.encode_ids(text, add_special_tokens=False, parse_special=parse)
                assert found == llama.encode(text.encode(), add=False, parse=parse), text
        llama.close()
        result = gguf.write(spec, WriteOptions())
        (content,) = result.files.values()
        assert result.losses == ()
        assert gguf.read(Source("-", content), {}).spec == spec


def test_equal_elements_are_left_as_by_std_sort(tmp_path: Path) -> None:
    source = tmp_path / "sort.cpp"
    source.write_text(
        "#include <algorithm>\n#include <cstdio>\n#include <vector>\n"
        'int main(){int n;while(scanf("%d",&n)==1){std::vector<std::pair<int,int>> v(n);'
        'for(int i=0;i<n;i++){int k;scanf("%d",&k);v[i]={k,i};}'
        "std::sort(v.begin(),v.end(),[](auto&a,auto&b){return a.first<b.first;});"
        'for(auto&p:v)printf("%d ",p.second);puts("");}}'
    )
    program = tmp_path / "sort"
    try:
        subprocess.run(["g++", "-o", program, source], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no C++ compiler here")
    chance = random.Random(7)
    cases = [
        [chance.randrange(chance.choice((1, 3, 30, 999))) for _ in range(size)]
        for size in (1, 2, 16, 17, 40, 200, 999)
        for _ in range(12)
    ]
    half = 500  # makes the median of three always the worst choice
    cases.append([*(i if i % 2 else half + i - 1 for i in range(1, half + 1)), *range(2, 1001, 2)])
    given = "\n".join(f"{len(case)} {' '.join(map(str, case))}" for case in cases)
    answer = subprocess.run([program], input=given, capture_output=True, text=True, check=True)
    for case, line in zip(cases, answer.stdout.splitlines(), strict=True):
        assert std_sort(range(len(case)), case.__getitem__) == [int(n) for n in line.split()]


def test_spelled_texts_go_there_and_back() -> None:
    words = [b"\xe2\x96\x81the", b"ing", b"[CLS]", b"\xe2\x96\x81##x", b"#", b"\xe2\x96\x81#"]
    assert list(parse_texts("bert", words)) == [b"the", b"##ing", b"[CLS]", words[3], b"###", b"#"]
    assert list(spell_pieces("bert", parse_texts("bert", words))) == words
    escaped = [b"\\n\\n", b"\\xff", b"\\\\n", b"\\x00", b"plain"]
    assert list(parse_texts("rwkv", escaped)) == [b"\n\n", b"\xff", b"\\n", b"\0", b"plain"]
    assert list(spell_pieces("rwkv", parse_texts("rwkv", escaped))) == escaped
