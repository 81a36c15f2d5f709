"""What is in a file, as plain records; nothing here prints.

``gguf``: a GGUF model or vocabulary. ``document``: the same as a JSON document.
"""
