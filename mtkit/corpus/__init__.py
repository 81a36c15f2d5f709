"""Corpora: count the tokens of many documents, or encode them into files that trainers read.

``documents`` finds the files, cuts the work into units and reads a unit's documents; ``workers``
turn each into a part on the disk, in processes or on a Ray cluster; ``job`` says what is done and
remembers which parts are there, ``outputs`` puts them together, and ``run`` does it all.
"""
