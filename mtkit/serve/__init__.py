"""Serving a model over HTTP.

One thread computes all answers, slot by slot, in one llama.cpp context; an event loop speaks HTTP.

Without HTTP:

* ``job``           a prompt and how it is to be answered; what a slot tells while it answers
* ``queue``         jobs that wait for a slot, and errands that need one
* ``slot``          one sequence of the context: what it remembers, and the answer that it gives
* ``scheduler``     the thread: rows of a batch and cells for each slot, rounds, the end

From a request to its answer:

* ``request``       how a body is read: fields, settings of the sampler, unknown fields
* ``bodies``        the records of what a body may say, for each API
* ``prompt``        prompts that are no conversations: texts, ids, a gap in a text
* ``conversation``  messages and tools of the APIs in the form that chat templates know
* ``tool``          what holds a model to a call, and reads calls out of an answer
* ``answer``        the jobs of a request, whole or as events, as long as the client is there
* ``content``       blocks (Anthropic) and items (Responses) of an answer, and their events
* ``reply``         JSON, events and errors, in the shape of the API that was asked

Routes, each API in its own shape: ``openai``, ``responses``, ``anthropic``, ``llama``,
``embeddings``. They only translate; what they share is ``model``.

The server: ``access`` (keys, names and addresses in the settings), ``guard`` (who may ask),
``metrics``, ``app`` (paths to routes, the page, ``/openapi.json``), ``server`` (uvicorn's, with
limits to a connection), ``run`` (the process: loads the model while those are imported).
"""
