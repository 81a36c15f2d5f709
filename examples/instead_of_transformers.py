"""mtkit inside a tokenizer of transformers: python examples/instead_of_transformers.py FILE.

The object is one of transformers, with the calls and the answers that programs know, and encodes
with mtkit.
"""

import sys

import mtkit.hf

tokenizer = mtkit.hf.from_file(sys.argv[1])
texts = ["Hello, world!", "A second, longer text."]
batch = tokenizer(texts, return_offsets_mapping=True)
for text, ids, offsets in zip(texts, batch["input_ids"], batch["offset_mapping"], strict=True):
    print(ids, [text[start:end] for start, end in offsets])
    assert tokenizer.decode(ids, skip_special_tokens=True).strip() == text
tokenizer.save_pretrained("saved-tokenizer")
