"""The memory that running a model takes, before it is loaded."""
