"""What the JSON of a request may say: a module for each API.

``fields`` holds what they share and reads a body, ``unknown`` says what becomes of fields that are
not read, ``sampler`` reads the settings of the sampler.
"""
