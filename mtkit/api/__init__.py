"""The functions of ``mtkit`` that take paths and combine several packages.

Each function does what the command of its name does, and returns records instead of printing.
"""
