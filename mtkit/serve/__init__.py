"""Serving a model over HTTP.

* ``job``, ``slot``, ``scheduler``  answers in one llama.cpp context, computed together; no HTTP
* ``answers``, ``posts``            the jobs of a request, and what they tell
* ``messages``                      conversations of both APIs as templates know them
* ``tools``                         tools: what is told of them, what reads and forces calls
* ``bodies``                        what a request's JSON may say
* ``openai``, ``anthropic``, ``own``  the routes, each API in its own shape
* ``replies``, ``sending``          errors and events; answers on their way, clients that go away
* ``guard``                         who may ask: host, origin, key; headers of every answer
* ``metrics``                       what ``/metrics`` counts
* ``openapi``                       the routes described
* ``app``, ``run``                  the application, and the process that serves it
"""
