"""The memory that running a model takes, before it is loaded.

``plan`` says what it takes, ``cache`` what of it each layer remembers, ``limits`` what there is.
"""
