"""Corpora: count the tokens of many documents, or encode them into files that trainers read.

``files`` finds the documents and cuts the work into units, ``documents`` reads a unit,
``unit_work`` turns it into a part on the disk, ``local`` and ``on_ray`` do so for all units,
``parts`` remembers which are done, ``outputs`` puts them together, and ``run`` does it all.
"""
