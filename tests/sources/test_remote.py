"""Of a file on a server the header is fetched and little else; bad servers end in one error."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from range_server import serving
from support import FIXTURES, Run, one_line, reference

from mtkit.checks import check
from mtkit.errors import MtkitError, ResourceError, UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, gguf_bytes
from mtkit.sources.remote import PIECE_BYTES, is_remote, open_remote

VOCABULARY = FIXTURES / "spm-bpe" / "vocab.gguf"


def sparse_model(path: Path, data_bytes: int, words: int = 4) -> int:
    """Write a model whose tensor data is a hole; return the length of its header."""
    keys = [
        Key("general.architecture", "string", "llama"),
        Key("a.words", "string[]", [f"word {number}" for number in range(words)]),
    ]
    whole = gguf_bytes(keys, [NewTensor("token_embd.weight", (32,), TENSOR_TYPES[0], bytes(128))])
    shape = (32).to_bytes(8, "little")
    at = whole.rindex(shape + bytes(4))
    head = whole[:at] + (data_bytes // 4).to_bytes(8, "little") + whole[at + 8 : -128]
    path.write_bytes(head)
    os.truncate(path, len(head) + data_bytes)
    return len(head)


@pytest.mark.parametrize("words", [4, 200_000])
def test_a_file_of_4_gb_costs_its_header_and_less_than_1_mb(
    mtkit: Run, tmp_path: Path, words: int
) -> None:
    path = tmp_path / "big.gguf"
    header = sparse_model(path, 4_000_000_000, words)
    with serving(path) as (address, server):
        document = json.loads(mtkit("inspect", address, "--json").stdout)
        assert server.sent < header + 1_000_000
        rows = mtkit("dump", "tensors", address).stdout.split(b"\t")
    own = json.loads(mtkit("inspect", path, "--json").stdout)
    assert document.pop("path") == address
    own.pop("path")
    assert document == own
    assert rows[:2] == [b"token_embd.weight", b"1000000000"]


def test_check_of_an_address_says_what_check_of_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    sparse_model(path, 4_000_000)
    os.truncate(path, path.stat().st_size - 5000)
    with serving(path) as (address, _):
        there, here = check(address), check(str(path))
        assert [str(f) for f in there.findings] == [str(f) for f in here.findings]
        assert there.exit_code == 3
        with pytest.raises(UsageError, match="deep=True"):
            check(address, deep=True)


def test_a_file_of_a_set_is_shown_alone(tmp_path: Path) -> None:
    path = tmp_path / "m-00001-of-00002.gguf"
    keys = [Key("split.no", "u16", 0), Key("split.count", "u16", 2), Key("a", "u32", 1)]
    path.write_bytes(gguf_bytes(keys))
    with serving(path) as (address, _):
        assert "loader-shards" not in {f.rule.code for f in check(address).findings}


def test_a_tokenizer_is_fetched_whole(mtkit: Run) -> None:
    path = FIXTURES / "bbpe-8k" / "tokenizer.json"
    with serving(path) as (address, server):
        rows = mtkit("inspect", address).stdout
        assert server.sent == path.stat().st_size
    assert rows.split(b"\n")[0] == b"format\thf"


@pytest.mark.parametrize("manner", ["good", "redirect", "redirect-long"])
def test_redirections_are_followed(manner: str) -> None:
    with serving(VOCABULARY, manner) as (address, _):
        assert len(open_gguf(open_remote(address)).metadata)


BAD = {
    "whole": "gives no ranges",
    "short": "bytes and says|IncompleteRead",
    "other-range": "the server gives 'bytes 1-",
    "no-range-said": "the server gives ''",
    "growing": "is now",
    "slow": "did not answer within 0.5 s",
    "drip": "did not answer within 0.5 s",
    "drip-head": "did not answer within 0.5 s",
    "drip-line": "did not answer within 0.5 s",
    "continue": "did not answer within 0.5 s",
    "loop": "is redirected to '/big.gguf'",
    "redirect-file": "is redirected to 'file:///etc/hostname'",
    "redirect-nowhere": "is redirected to ''",
    "redirect-ftp": "is redirected to 'ftp://",
    "missing": "404",
}


@pytest.mark.parametrize("manner", BAD)
def test_a_bad_server_ends_in_one_error(tmp_path: Path, manner: str) -> None:
    path = tmp_path / "big.gguf"
    sparse_model(path, 4_000_000, 200_000)
    with serving(path, manner) as (address, server):
        began = time.monotonic()
        with pytest.raises(MtkitError, match=BAD[manner]) as caught:
            open_remote(address, seconds=0.5 if "0.5 s" in BAD[manner] else 30)
        assert time.monotonic() - began < 10
        assert str(caught.value).startswith(address)
        unread = 8 << 20 if manner == "whole" else 0  # in the system's buffers at most
        assert server.sent <= 2 * PIECE_BYTES + unread
        assert "\n" not in str(caught.value)


def test_a_header_beyond_the_cap_is_refused(mtkit: Run, tmp_path: Path) -> None:
    path = tmp_path / "big.gguf"
    sparse_model(path, 4_000_000, 200_000)
    with serving(path) as (address, server):
        with pytest.raises(ResourceError, match="more than 1000000 bytes"):
            open_remote(address, most=1_000_000)
        assert server.sent == 1_000_000
        assert "--max-fetch" in one_line(mtkit("inspect", address, "--max-fetch", "1M"), 5)
        assert mtkit("inspect", address, "--max-fetch", "8M").returncode == 0
        for number in ("0", "-1"):
            done = mtkit("inspect", address, "--max-fetch", number)
            assert "is not a number of bytes" in one_line(done, 2)


@pytest.mark.parametrize("count", [1 << 20, 1 << 40, (1 << 64) - 1])
def test_a_lying_header_costs_no_more_than_the_file_has(tmp_path: Path, count: int) -> None:
    path = tmp_path / "lie.gguf"
    data = bytearray(gguf_bytes([Key("a", "u32[]", [1, 2])]))
    data[-16:-8] = count.to_bytes(8, "little")
    path.write_bytes(data)
    with serving(path) as (address, server):
        with pytest.raises(MtkitError, match="count"):
            open_gguf(open_remote(address))
        assert server.sent == len(data)


def test_other_schemes_are_fsspecs(tmp_path: Path) -> None:
    fsspec = reference("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe("/gread.gguf", VOCABULARY.read_bytes())
    assert len(open_gguf(open_remote("memory://gread.gguf")).metadata)
    with pytest.raises(UsageError, match="no such file"):
        open_remote("memory://missing.gguf")
    for address in ("nothing://a/b", "file:///etc/hostname", "http://", "http://[", "https://a b/"):
        with pytest.raises(MtkitError) as caught:
            open_remote(address, seconds=0.5)
        assert "\n" not in str(caught.value)
    assert not is_remote(str(tmp_path))
    assert not is_remote("a b://c")
