"""Serving models over HTTP.

For each model, one thread computes all answers in one llama.cpp context: each batch has tokens of
all slots. An event loop speaks HTTP.

Without HTTP:

* ``job``           jobs, their terms, their events and times
* ``queue``         the jobs that wait for a slot
* ``slot``          one sequence of the context: its tokens, its answer, its grammar
* ``scheduler``     the thread: batches, rounds, the end

From a request to its answer:

* ``request``       reads a body: fields, settings of the sampler, unknown fields
* ``bodies``        the records of all bodies
* ``prompt``        prompts that are no conversations: texts, ids, a gap in a text
* ``conversation``  messages of the three APIs in the form of chat templates
* ``tool``          tools, forced calls, and the parser of an answer
* ``answer``        the jobs of a request, and the reply that their events become, whole or a stream
* ``shortening``    the oldest messages left out, where a client asks for it
* ``reply``         JSON, events and errors, in the shape of each API

Routes, each API in its own shape: ``openai``, ``responses``, ``anthropic``, ``llama``,
``embeddings``, ``ollama`` (with ``ollama_request`` and ``ollama_models``). They only translate.

The models: ``pool`` loads and unloads them, each by ``load``; ``wake`` has a request wait for its
own, a ``model`` that is loaded.

The server: ``access`` (keys, names and origins in the settings), ``addresses`` (its sockets),
``guard`` (checks of every
request), ``metrics``, ``app`` (paths to routes, the page, ``/openapi.json``), ``server``
(uvicorn's, with limits to a connection), ``run`` (the process: loads the first model while those
are imported).
"""
