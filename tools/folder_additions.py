"""Draw model folders with one unknown thing in each: `python -m tools.folder_additions [COUNT]`.

Each field, file, tensor, token or value that is added must be used or named by the conversion, in a
note or an error; a silent one is printed, with the seed that draws it again, and the exit code is
1.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
additions: Any = importlib.import_module("folder_additions")
adapters: Any = importlib.import_module("adapters")
model_folders: Any = importlib.import_module("model_folders")

COUNT = 2000


def main(words: list[str]) -> int:
    """Draw folders; return the exit code."""
    count = int(words[0]) if words else COUNT
    tries: Counter[str] = Counter()
    silent = 0
    with tempfile.TemporaryDirectory() as folder:
        bases = [
            model_folders.write_folder(
                Path(folder) / name, name, tokenizer="bbpe-8k",
                config={"vocab_size": additions.ROWS},
            )
            for name in ("LlamaForCausalLM", "Qwen2ForCausalLM", "Gemma3ForCausalLM")
        ]  # fmt: skip
        layers = adapters.linear_layers(bases[0], ("q_proj", "up_proj"))
        bases.append(adapters.write_adapter(Path(folder) / "adapter", bases[0], layers))
        for seed in range(count):
            rng = Random(seed)
            addition, text = additions.try_one(rng, rng.choice(bases), Path(folder) / "model")
            tries[addition.kind] += 1
            if not any(name in text for name in addition.names):
                silent += 1
                print(f"seed {seed}: silent: {addition.kind} {addition.where} {addition.names}")
    print(f"{silent} silent of {count}: {', '.join(f'{n} {kind}' for kind, n in tries.items())}")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
