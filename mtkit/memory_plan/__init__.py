"""The memory that running a model takes, before it is loaded.

``plan`` says what it takes and whether it fits, ``cache`` what each layer adds to it.
"""
