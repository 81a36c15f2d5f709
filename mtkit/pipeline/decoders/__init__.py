"""Decoders: ids back to text, whole sequences and streams."""
