"""A text file as an array of ids: python examples/encode_corpus.py TEXT [TOKENIZER [OUT.npy]].

Each line is a document with the end token behind it. For files larger than memory, JSON lines or
Parquet, and all cores, there is `mtkit corpus encode`.
"""

import sys

import numpy as np

import mtkit

text, name, out = [*sys.argv[1:], None, None][:3]
tokenizer = mtkit.load(name)
with open(text, encoding="utf-8") as file:
    lines = file.read().splitlines()
ids, starts = tokenizer.encode_batch_arrays(lines, threads=4, add_special_tokens=False)
documents = np.split(ids, starts[1:-1])
end = [] if tokenizer.eos_id is None else [tokenizer.eos_id]
np.save(out or "corpus.npy", np.concatenate([[*document, *end] for document in documents]))
print(f"{len(lines)} lines, {len(ids)} ids, {len(ids) / max(len(lines), 1):.1f} a line")
assert [tokenizer.decode(document.tolist()) for document in documents[:3]] == lines[:3]
