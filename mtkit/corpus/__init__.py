"""Corpora: count the tokens of many documents, or encode them into files that trainers read.

``documents`` finds the files, cuts the work into units and reads a unit's documents; ``workers``
turn each into a part on the disk, in processes or on a Ray cluster; ``job`` describes the work and
keeps track of the parts, ``outputs`` joins them, and ``run`` goes through all of it.
"""
