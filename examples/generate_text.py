"""A model goes on with a text: python examples/generate_text.py [MODEL.gguf [PROMPT]].

Needs the extra generate. Without a model it runs the small one that ships with mtkit.
"""

import sys

import mtkit

model, prompt = [*sys.argv[1:], None, None][:2]
made = mtkit.generate(
    prompt or "To list files, use",
    model=model,
    n_predict=24,
    temperature=0,
    on_text=lambda text: print(text, end="", flush=True),
)
print(f"\n{len(made.ids)} tokens, ended by {made.end}, in {made.timings.generation:.2f} s")
