"""The interface of tiktoken for any tokenizer: python examples/instead_of_tiktoken.py FILE."""

import sys

from mtkit import tiktoken

encoding = tiktoken.from_file(sys.argv[1])
text = "Hello, world! 12345"
ids = encoding.encode_ordinary(text)
print(encoding.name, encoding.n_vocab, ids)
print([encoding.decode_single_token_bytes(number) for number in ids])
assert encoding.decode(ids) == text
assert encoding.encode_ordinary_batch([text, text]) == [ids, ids]
