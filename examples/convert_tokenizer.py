"""A tokenizer in another format: python examples/convert_tokenizer.py [SRC [DST]].

The name of DST says the format. What the new file cannot hold is told; it gives the same ids, or is
not written. Of special tokens in the text, and around it, a GGUF has rules of its own.
"""

import sys

import mtkit

src, dst = [*sys.argv[1:], None, None][:2]
tokenizer = mtkit.load(src)
done = mtkit.convert(tokenizer, dst or "converted.mtok", force=True)
print(f"{tokenizer!r} became {done.path}, a file of format {done.format_name}")
for loss in done.losses:
    print(f"lost: {loss.field}: {loss.effect}")
for one in done.verified:
    print(f"read back by {one.reader}: {one.equal} of {one.total} texts have the same ids")
plain = {"add_special_tokens": False, "parse_special": False}
assert mtkit.compare(tokenizer, done.path, **plain).equal
