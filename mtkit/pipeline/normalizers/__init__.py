"""Normalizers, and the text that knows where its characters came from."""
