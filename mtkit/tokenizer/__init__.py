"""The tokenizer: loading one, encoding and decoding with it, comparing two."""
