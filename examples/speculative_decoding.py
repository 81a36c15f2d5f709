"""Drafts make generation faster: python examples/speculative_decoding.py [MODEL.gguf [DRAFT.gguf]].

Needs the extra generate. At temperature 0 the text is the same with a draft, whatever the draft
proposes. Without a draft model, tokens are proposed from the text so far.
"""

import sys

import mtkit

model, draft = [*sys.argv[1:], None, None][:2]
prompt = "for i in range(10):\n    print(i)\n" * 4
asked = {"model": model, "n_predict": 32, "temperature": 0}
plain = mtkit.generate(prompt, **asked)
drafted = mtkit.generate(prompt, draft=draft, draft_lookup=draft is None, **asked)
assert drafted.ids == plain.ids
print(drafted.text)
print(f"alone:      {plain.timings.generation:.3f} s")
print(f"with draft: {drafted.timings.generation:.3f} s")
