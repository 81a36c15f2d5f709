"""Serving a model over HTTP.

* ``job``, ``slot``, ``scheduler``  answers in one llama.cpp context, computed together; no HTTP
* ``prompts``                       messages and texts to ids
* ``bodies``                        what a request's JSON may say
* ``openai``, ``anthropic``, ``own``  the routes, each API in its own shape
* ``replies``                       errors, server-sent events, clients that go away
* ``guard``                         who may ask: host, origin, key; headers of every answer
* ``metrics``                       what ``/metrics`` counts
* ``app``, ``run``                  the application, and the process that serves it
"""
