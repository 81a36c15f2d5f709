"""Speculative decoding: a draft proposes tokens, the model verifies them in one batch.

``rounds`` is the loop of one text, ``shared`` drafts for slots of one batch. For both
``model_draft``, ``lookup`` and ``drafts`` propose (``loaded_draft`` makes them), ``verification``
accepts and rejects with ``distribution``. ``policy`` says how many to draft by what is ``known`` of
costs, ``exactness`` in which configuration the output is that of plain decoding to the bit.
"""
