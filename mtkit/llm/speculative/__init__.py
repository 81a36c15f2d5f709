"""Speculative decoding: a draft proposes tokens, the model verifies them in one batch.

``rounds`` is the loop; ``model_draft``, ``lookup`` and ``drafts`` propose, ``verification`` accepts
and rejects with ``distribution``, ``pace`` says how many to draft, ``exactness`` in which
configuration the output is that of plain decoding to the bit.
"""
