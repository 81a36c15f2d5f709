"""The table of architectures: one module a family."""
