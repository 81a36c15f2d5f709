"""The version: a literal, so that ``mtkit --version`` imports nothing to know it."""

__version__ = "0.1.0"
