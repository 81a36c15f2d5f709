"""Characters: Unicode tables, UTF-8, the byte alphabet, precompiled character maps."""
