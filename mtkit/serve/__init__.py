"""Serving a model over HTTP.

* ``job``, ``slot``, ``scheduler``  answers in one llama.cpp context, computed together; no HTTP
* ``waiting``, ``shares``            what waits for slots; what of a batch and of cells each gets
* ``opening``, ``slot_file``        the context that slots share; what one remembers, in a file
* ``chances``                       how probable tokens were
* ``answers``, ``posts``            the jobs of a request, and what they tell
* ``messages``, ``*_messages``, ``*_input``  conversations of the APIs as templates know them
* ``served``, ``prompts``, ``fim``   what the routes share: the model, its prompts
* ``tools``                         tools: what is told of them, what reads and forces calls
* ``bodies``                        what a request's JSON may say
* ``openai``, ``responses``, ``anthropic``, ``llama``, ``embeddings``, ``adapters``,
  ``slot_actions``, ``own``, ``page``  the routes, each API in its own shape
* ``shapes``, ``choices``, ``plain``, ``*_output``, ``*_content``  their answers
* ``lines``, ``thinking_budget``    where an answer, or its reasoning, is ended
* ``timings``, ``vectors``          how long it took; vectors of texts
* ``replies``, ``sending``          errors and events; answers on their way, clients that go away
* ``access``, ``guard``             who may ask: host, origin, key; headers of every answer
* ``metrics``                       what ``/metrics`` counts
* ``openapi``                       the routes described
* ``app``, ``server``, ``connection``, ``listening``  the application, and uvicorn's server of it
* ``run``                           the process: loads the model while those are imported
"""
