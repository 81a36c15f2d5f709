"""What ``mtkit`` exports that takes paths and puts several packages together.

Each function does what the command of its name does, and returns records instead of printing.
"""
