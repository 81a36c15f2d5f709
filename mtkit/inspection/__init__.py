"""What is in a file, as plain records; nothing here prints.

``gguf`` inspects a GGUF (``kinds``: what it is if not a model), ``safetensors`` and ``tokenizer``
other files. ``statistics`` is about the values of one tensor, ``difference`` about two models.
``document`` has the values of a GGUF for people and for JSON.
"""
