"""Speculative decoding: a draft proposes tokens, the model verifies them in one batch.

``setup`` opens drafts by settings. ``rounds`` is the loop of one text; ``seats`` drafts for the
slots of one batch. Both get proposals from ``drafts`` (a lookup, and combinations),
``draft_model`` or ``translation`` (a model of another vocabulary); ``vocabulary`` says which ids a
draft knows, ``semantic_index`` finds similar ids, ``draft_file`` cuts a model to some ids.
``verification`` accepts and rejects. ``policy`` decides how many tokens to draft, by the ``costs``;
``exactness`` knows the configurations whose output is that of plain decoding to the bit. ``bench``
compares drafts, ``tune`` finds the fastest, ``plots`` draws both.
"""
