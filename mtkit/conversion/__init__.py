"""Conversion: read, write, verify, put the files in place.

``tokenizer`` converts a tokenizer, and ``verification`` compares what was written with its source.
``model`` makes a GGUF of a folder (``model_keys``, ``model_tensors``), ``folder_writer`` a folder
of a GGUF, ``adapter`` a GGUF of a LoRA adapter; ``folder_report`` says what a folder would become.
``folder_notes`` knows how transformers reads a folder, ``programs`` asks other libraries in a
process of its own (``program_child``). ``edit`` changes a GGUF.
"""
