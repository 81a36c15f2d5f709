"""Running GGUF models on llama-cpp-python: the backend, generation, chat, perplexity.

Nothing here is imported before a command or ``mtkit.generate`` needs it; llama-cpp-python itself is
an optional package and is loaded by ``mtkit.llama.shared_library`` alone.
"""
