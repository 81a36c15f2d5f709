"""Running GGUF models on llama-cpp-python: a model opened, its answers, and what measures it.

``runner`` opens a model (``header`` reads and checks its file, ``trial`` loads a new one in a child
process, ``threads`` chooses how it computes) and takes tokens, which ``sampling`` chooses;
``session`` keeps its memory in a file, ``vectors`` pools texts. ``dialogue`` is a
conversation, ``chat_prompt`` its prompt.
``perplexity``, ``divergence`` and ``importance`` go through texts in ``windows``; ``forward``
computes the model of a folder in numpy for ``model_check``. ``quantization`` and ``trim`` write
smaller models. What drafts is ``mtkit.speculative``.

Nothing here is imported before a command or ``mtkit.generate`` needs it; llama-cpp-python itself is
an optional package and is loaded by ``mtkit.llama.shared_library`` alone.
"""
