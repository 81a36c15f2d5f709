"""tekken.json as mistral-common reads it: published files, and drawn ones that mtkit writes."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from rank_cases import NASTY, PATTERNS, random_ranks
from support import golden_inputs, reference, shared_tokenizer

import mtkit
from mtkit.base.binary import Source
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats import tekken
from mtkit.formats.contract import WriteOptions
from mtkit.formats.ranks import rank_spec, rank_vocabulary
from mtkit.formats.tekken import UNLISTED
from mtkit.spec import SpecialIds, TokenizerSpec, replace
from mtkit.tokenizer.tokenizer import Tokenizer


def tekkenizer(path: Path) -> Any:
    if sys.version_info < (3, 11):
        pytest.skip("mistral-common needs Python 3.11")
    return reference("mistral_common.tokens.tokenizers.tekken").Tekkenizer.from_file(path)


def published() -> list[Path]:
    folder = Path(reference("mistral_common").__file__).parent / "data"
    return [
        shared_tokenizer("tekken-240718") / "tekken.json",
        *sorted(folder.glob("tekken_*.json")),
    ]


def compare(ours: Tokenizer, theirs: Any, texts: list[str]) -> None:
    count = theirs.num_special_tokens
    assert ours.vocab_size == theirs.n_words
    for token_id in range(count):
        assert ours.decode([token_id], skip_special_tokens=False) == theirs.id_to_piece(token_id)
    for text in texts:
        ids = theirs.encode(text, bos=False, eos=False)
        assert ours.encode_ids(text, add_special_tokens=False) == ids, text
        assert ours.decode(ids) == theirs.decode(ids)


def test_files_that_list_no_special_tokens_have_those_of_mistral_common(tmp_path: Path) -> None:
    """In 240718 and 240911, id 10 is ``[IMG]`` and id 11 ``<pad>``."""
    files = published()
    assert len(files) > 1
    for path in files:
        assert "special_tokens" not in json.loads(path.read_bytes())
        ours, theirs = mtkit.load(path), tekkenizer(path)
        compare(ours, theirs, golden_inputs())
        roles = ours.spec.special_ids
        assert (roles.pad, ours.decode([10], skip_special_tokens=False)) == (11, "[IMG]")
        assert (roles.bos, roles.eos, roles.unk) == (theirs.bos_id, theirs.eos_id, theirs.unk_id)
        assert roles.pad == theirs.pad_id
        mtkit.convert(path, tmp_path / "tekken.json", to="tekken", force=True)
        assert tekkenizer(tmp_path / "tekken.json").vocab() == theirs.vocab()


def drawn_spec(seed: int) -> TokenizerSpec:
    """Make a tokenizer whose special tokens come first; the bytes are in order for even seeds."""
    rng = random.Random(seed)
    names = [
        list(UNLISTED[:10]),
        list(UNLISTED),
        [*UNLISTED, *(f"<SPECIAL_{number}>" for number in range(20, 25))],
        [],
        [*rng.sample(UNLISTED, 7), "<SPECIAL_3>", "é\n", '"'],
    ][seed % 5]
    found = sorted(random_ranks(seed), key=lambda piece: (len(piece), piece))
    if seed % 2:
        rng.shuffle(found)
    ranks = {piece: rank + len(names) for rank, piece in enumerate(found)}
    special = {name: token_id for token_id, name in enumerate(names)}
    pattern = PATTERNS[seed % len(PATTERNS)]
    return rank_spec(rank_vocabulary(ranks), pattern, special, SpecialIds())


@pytest.mark.parametrize("seed", range(0, 40, 2))
def test_what_is_written_mistral_common_takes(seed: int, tmp_path: Path) -> None:
    spec = drawn_spec(seed)
    path = tmp_path / "tekken.json"
    path.write_bytes(tekken.write(spec, WriteOptions()).files["tekken.json"])
    rng = random.Random(seed)
    texts = ["".join(rng.choices("ab e\n1é中😀'<|>[IMG]", k=rng.randrange(40))) for _ in range(200)]
    compare(mtkit.load(path), tekkenizer(path), NASTY + texts)


@pytest.mark.parametrize("seed", range(1, 21, 2))
def test_bytes_in_another_order_are_refused(seed: int, tmp_path: Path) -> None:
    """mistral-common asserts that rank i is byte i for the first 256, and so do we both ways."""
    spec = drawn_spec(seed)
    with pytest.raises(UnsupportedError, match="bytes in order"):
        tekken.write(spec, WriteOptions())
    ordered = tekken.write(drawn_spec(seed + 1), WriteOptions()).files["tekken.json"]
    table = json.loads(ordered)
    first, second = random.Random(seed).sample(range(256), 2)
    rows = table["vocab"]
    rows[first]["token_bytes"], rows[second]["token_bytes"] = (
        rows[second]["token_bytes"],
        rows[first]["token_bytes"],
    )
    path = tmp_path / "tekken.json"
    path.write_text(json.dumps(table))
    with pytest.raises(AssertionError):
        tekkenizer(path)
    with pytest.raises(FormatError, match="is not the byte"):
        mtkit.load(path)


def test_special_tokens_that_have_changed_are_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "tekken.json"
    path.write_bytes(tekken.write(drawn_spec(0), WriteOptions()).files["tekken.json"])
    spec = tekken.read(Source.open(str(path)), {}).spec
    tokens = tuple(
        replace(token, content=b"[OTHER]") if token.id == 3 else token
        for token in spec.added_tokens.tokens
    )
    changed = replace(spec, added_tokens=replace(spec.added_tokens, tokens=tokens))
    written = tekken.write(changed, WriteOptions())
    path.write_bytes(written.files["tekken.json"])
    assert tekkenizer(path).id_to_piece(3) == "[OTHER]"
    twice = tuple(replace(token, content=b"x") for token in tokens)
    with pytest.raises(UnsupportedError, match="by their text"):
        tekken.write(
            replace(spec, added_tokens=replace(spec.added_tokens, tokens=twice)), WriteOptions()
        )
