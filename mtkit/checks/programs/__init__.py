"""What other programs make of a tokenizer: ``check --runs-on``, ``compare --as``.

A file that a program does not read is converted in memory first, as ``mtkit convert`` would.
"""
