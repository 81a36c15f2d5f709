"""Models of a HuggingFace folder computed in plain numpy: what a converted file is held against.

Weights are read under the folder's names and in its order, never through the table that converts
them: a mistake there shows. Everything is float32, a block of rows of one tensor in memory.

* ``weights``      tensors of a folder, read as they are multiplied with
* ``rounding``     how llama.cpp rounds, which is done alike to compare with it
* ``activations``  of the feed-forward part
* ``rotary``       frequencies of rotary positions
* ``families``     what each class of transformers computes
* ``decoder``      the computation
"""
