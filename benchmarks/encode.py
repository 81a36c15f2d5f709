"""Encoding speed against other libraries: same ids first, then CPU time, interleaved.

    python -m benchmarks.encode TEXT TOKENIZER ...

TOKENIZER is a tokenizer.json (compared with ``tokenizers``) or a tokenizer.model (with
``sentencepiece``).
Each round runs every library once on the whole text, in turn; the minimum of the rounds counts.
"Fresh" is a new mtkit engine for each round (its word cache is empty), "again" the same engine.
Ids are compared before anything is measured; a library that gives others is named and left out.
"""

from __future__ import annotations

import sys
import time

from mtkit import formats
from mtkit.base.binary import Source
from mtkit.engine import load_engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtkit.engine import AnyEngine
    from mtkit.spec import TokenizerSpec

    Encode = Callable[[str], Sequence[int]]

ROUNDS = 5


def peers(path: str) -> dict[str, Encode]:
    """Other libraries' encoders of a file, by name."""
    if path.endswith(".json"):
        from tokenizers import Tokenizer

        other = Tokenizer.from_file(path)
        other.no_truncation()
        other.no_padding()
        return {"tokenizers": lambda text: other.encode(text, add_special_tokens=False).ids}
    from sentencepiece import SentencePieceProcessor

    model = SentencePieceProcessor(model_file=path)
    return {"sentencepiece": model.encode}


def cpu(encode: Encode, text: str) -> float:
    """CPU time of this process for one encoding."""
    start = time.process_time()
    encode(text)
    return time.process_time() - start


def plain(engine: AnyEngine) -> Encode:
    """Encode without special tokens."""
    return lambda text: engine.encode_ids(text, add_special_tokens=False)


def measure(spec: TokenizerSpec, text: str, others: dict[str, Encode]) -> dict[str, float]:
    """Minimum CPU seconds by library."""
    again = plain(load_engine(spec))
    again(text)
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        runs = {"mtkit fresh": plain(load_engine(spec)), "mtkit again": again, **others}
        for name, encode in runs.items():
            best[name] = min(best.get(name, 9e9), cpu(encode, text))
    return best


def main(arguments: list[str]) -> int:
    """Compare, measure, print."""
    if len(arguments) < 2:
        print("usage: python -m benchmarks.encode TEXT TOKENIZER ...", file=sys.stderr)
        return 2
    with open(arguments[0], encoding="utf-8") as file:
        text = file.read()
    size = len(text.encode()) / 1e6
    for path in arguments[1:]:
        spec = formats.read(Source.open(path))[1].spec
        engine = load_engine(spec)
        ids = plain(engine)(text)
        others = {}
        for name, encode in peers(path).items():
            if list(encode(text)) == ids:
                others[name] = encode
            else:
                print(f"{path}: {name} gives other ids")
        best = measure(spec, text, others)
        own = best["mtkit fresh"]
        print(f"{path} ({engine.name}, {size:.2f} MB, {len(ids)} ids)")
        for name, seconds in best.items():
            print(f"  {name:14} {size / seconds:8.1f} MB/s  {seconds / own:6.2f} x mtkit fresh")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
