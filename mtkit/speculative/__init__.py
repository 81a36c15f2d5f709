"""Speculative decoding: a draft proposes tokens, the model verifies them in one batch.

``setup`` opens what settings say of drafting. ``rounds`` is the loop of one text, ``seats`` drafts
for slots of one batch. For both ``drafts`` (a lookup, and what asks several), ``draft_model`` and
``translation`` (a model of another vocabulary) propose; ``vocabulary`` says which ids a model
knows, ``semantic_index`` finds ids like another, ``draft_file`` cuts a model to some ids.
``verification`` accepts and rejects. ``policy`` says how many to draft by the ``costs``,
``exactness`` in which configuration the output is that of plain decoding to the bit. ``bench``
compares groups, ``tune`` finds what drafts best, ``plots`` draws both.
"""
