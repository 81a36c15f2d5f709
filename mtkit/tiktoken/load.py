"""Files of ranks, as ``tiktoken.load``; an address is read from tiktoken's cache."""

from __future__ import annotations

import os

from mtkit.errors import UsageError

__all__ = [
    "data_gym_to_mergeable_bpe_ranks",
    "dump_tiktoken_bpe",
    "load_tiktoken_bpe",
    "read_file_cached",
]


def read_file_cached(blobpath: str, expected_hash: str | None = None) -> bytes:
    """Return the content of a file, or of an address that tiktoken's cache has."""
    from hashlib import sha1, sha256

    from mtkit.sources.encodings import rank_folder

    path = blobpath
    if "://" in blobpath:
        path = os.path.join(
            rank_folder(), sha1(blobpath.encode(), usedforsecurity=False).hexdigest()
        )
        if not os.path.isfile(path):
            hint = "tiktoken.load of tiktoken itself fetches it"
            raise UsageError("is not in tiktoken's cache", source=blobpath, hint=hint)
    with open(path, "rb") as file:
        data = file.read()
    if expected_hash and sha256(data).hexdigest() != expected_hash:
        raise ValueError(f"Hash mismatch for data from {blobpath} (expected {expected_hash})")
    return data


def load_tiktoken_bpe(tiktoken_bpe_file: str, expected_hash: str | None = None) -> dict[bytes, int]:
    """Return byte string -> rank of a rank file."""
    from base64 import b64decode

    ranks: dict[bytes, int] = {}
    for line in read_file_cached(tiktoken_bpe_file, expected_hash).splitlines():
        try:
            if line:
                piece, rank = line.split()
                ranks[b64decode(piece)] = int(rank)
        except ValueError as error:
            raise ValueError(f"Error parsing line {line!r} in {tiktoken_bpe_file}") from error
    return ranks


def dump_tiktoken_bpe(bpe_ranks: dict[bytes, int], tiktoken_bpe_file: str) -> None:
    """Write a rank file."""
    from base64 import b64encode

    from mtkit.base.files import write_files

    rows = sorted(bpe_ranks.items(), key=lambda item: item[1])
    lines = b"".join(b64encode(piece) + b" %d\n" % rank for piece, rank in rows)
    write_files({tiktoken_bpe_file: lines}, force=True)


def data_gym_to_mergeable_bpe_ranks(
    vocab_bpe_file: str,
    encoder_json_file: str,
    vocab_bpe_hash: str | None = None,
    encoder_json_hash: str | None = None,
    clobber_one_byte_tokens: bool = False,
) -> dict[bytes, int]:
    """Return byte string -> rank of the two files of GPT-2's encoder.

    Args:
        encoder_json_file: Piece -> id, which has to agree.
    """
    import json

    from mtkit.unicode.utf8 import bytes_of_letters

    pieces = json.loads(read_file_cached(encoder_json_file, encoder_json_hash))
    expected = {bytes_of_letters(piece): number for piece, number in pieces.items()}
    expected.pop(b"<|endoftext|>", None)
    expected.pop(b"<|startoftext|>", None)
    single = [byte for byte in range(256) if chr(byte).isprintable() and byte != ord(" ")]
    single += [byte for byte in range(256) if byte not in single]
    ranks = {bytes([byte]): rank for rank, byte in enumerate(single)}
    lines = read_file_cached(vocab_bpe_file, vocab_bpe_hash).decode().split("\n")[1:-1]
    for rank, line in enumerate(lines, len(ranks)):
        ranks[bytes_of_letters("".join(line.split())) or b""] = rank
    if clobber_one_byte_tokens:
        ranks.update({t: number for t, number in expected.items() if t is not None and len(t) == 1})
    if ranks != expected:
        raise ValueError(f"{encoder_json_file} is not the vocabulary of {vocab_bpe_file}")
    return ranks
