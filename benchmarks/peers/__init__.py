"""Measuring: mtkit beside the other libraries that read the same file, in one interleaved run.

``bench`` starts a process for each library (``process``, ``worker``), compares ids before anything
is measured, runs every scenario of every library in turn, round after round, and returns one JSON
document; ``summary`` says what its rows are.
"""
