"""Grammars, schemas and logits that would end the process inside llama.cpp.

Each case runs in a process of its own, so that an abort or a segmentation fault is seen as one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from llm_models import tiny
from llm_process import run
from support import Run


def test_rows_without_logits() -> None:
    out = run(
        """
        with Model(path) as model, Context(model, ContextSettings(n_ctx=64)) as context:
            said(context.logits)
            context.decode([5, 6, 7])
            said(context.logits, 1)
            said(context.logits, 99)
            said(context.hidden)
            with Sampler(context, SamplerSettings(temperature=1.0)) as sampler:
                sampler.sample()
            context.decode([5], outputs="none")
            with Chain() as chain:
                chain.add("greedy")
                said(chain.sample, context)
        """
    )
    assert out.count("there are no logits") == 3
    assert out.count("nothing has been computed") == 1


def test_grammars_that_do_not_parse() -> None:
    grammars = ["", "root ::= (", 'root ::= "a', 'other ::= "a"', "root ::= missing",
                'root ::= root "a"', 'root ::= "a"{5,2}', "root ::= [z-a", "\0",
                "root ::= " + "(" * 100000, 'root ::= "a"{0,1000000000}', "::=",
                'root ::= "\\x"', 'root ::= "a"{99999999999999999999}']  # fmt: skip
    out = run(
        f"""
        for grammar in {grammars!r}:
            print(grammar[:20], flush=True)
            said(generate, 'x', model=path, n_predict=2, grammar=grammar)
        """
    )
    assert out.count("UsageError grammar: ") == len(grammars)


def test_grammars_that_do() -> None:
    run(
        r"""
        for grammar, text in (("root ::=", ""), ('root ::= "a"{2,3} # ({', "aa"),
                              ('root ::= "(" [)({\\]]{1}', None), ('root ::= "{5,2}"', "{5,2}")):
            made = generate("x", model=path, n_predict=9, grammar=grammar)
            assert text is None or made.text.startswith(text), (grammar, made.text)
        """
    )


def test_schemas_that_are_none() -> None:
    schemas = ["", "[", "1", '{"type": "none"}', '{"$ref": "https://nowhere.invalid/x"}',
               '{"$ref": "#/definitions/missing"}', '{"type": "string", "pattern": "(("}',
               "[" * 5000]  # fmt: skip
    run(
        f"""
        for schema in {schemas!r}:
            print(schema[:20], flush=True)
            said(generate, 'x', model=path, n_predict=2, json_schema=schema)
        """
    )


def test_a_grammar_that_leaves_nothing() -> None:
    run(
        """
        for options in ({}, {"temperature": 1.0, "seed": 1}):
            made = generate("x", model=path, grammar='root ::= "a"', ignore_eos=True, **options)
            assert (made.text, made.end) == ("a", "grammar"), made
            bias = tuple((i, float("-inf")) for i in range(1024))
            made = generate("x", model=path, grammar='root ::= "a"', logit_bias=bias, **options)
            assert (made.ids, made.end) == ([], "grammar")
        """
    )


def test_xtc_moves_the_candidates() -> None:
    """It cuts at the front of llama.cpp's array: where the next choice would write past its end."""
    run(
        """
        import numpy as np
        random = np.random.default_rng(0)
        with Chain() as cut, Chain() as choose:
            for chain in (cut, choose):
                chain.add("xtc", 1.0, 0.1, 1, 0)
            choose.add("greedy")
            for _ in range(300):
                logits = random.normal(0, 3, 64).astype(np.float32)
                chances = np.exp(logits - logits.max())
                above = np.flatnonzero(chances / chances.sum() >= 0.1)
                removed = above[np.argsort(-chances[above])][:-1]
                ids, left = cut.cut(logits)
                assert sorted(ids) == sorted(set(range(64)) - set(removed)), removed
                assert (left == logits[ids]).all()
                assert choose.choose(logits) == ids[left.argmax()]
        """
    )


def test_logits_that_are_no_numbers(tmp_path: Path, mtkit: Run) -> None:
    """A model that computes NaN ends with an error, whatever would have chosen among them."""
    data = bytearray(tiny().read_bytes())
    data[-4096:] = b"\xff" * 4096  # not a number, in the last tensor
    path = tmp_path / "nan.gguf"
    path.write_bytes(data)
    run(
        """
        from mtkit.errors import UnsupportedError
        for options in ({}, {"temperature": 1.0}, {"mirostat": 1}, {"mirostat": 2},
                        {"temperature": 1.0, "top_k": 0, "xtc": 1.0, "typical": 0.5},
                        {"grammar": 'root ::= "a"+'}, {"repeat_penalty": 1.2, "dry": 1.0},
                        {"threads": 1}):
            try:
                generate("x", model=path, n_predict=5, seed=1, logprobs=True, **options)
            except UnsupportedError as error:
                assert "computes NaN" in str(error), error
            else:
                raise AssertionError(options)
        """,
        path,
    )
    (tmp_path / "text").write_text("one two three")
    for command in (("generate", "x", "-n", 2), ("generate", "x", "-n", 2, "--jsonl"),
                    ("logits", "x"), ("perplexity", "text")):  # fmt: skip
        done = mtkit(*command, "--json", "-m", path)
        assert done.returncode == 4, done.stderr
        assert b"computes NaN" in done.stderr + done.stdout
        assert b"NaN," not in done.stdout


def test_grammars_made_in_threads_leave_the_descriptors() -> None:
    out = run(
        """
        import os, sys, threading
        sys.setswitchinterval(1e-5)
        before = [os.fstat(number) for number in range(3)]
        with Model(path) as model:
            def work():
                for _ in range(50):
                    Grammar(model, text='root ::= "a' + "b" * 2000 + '" | [a-z]+').close()
            made = [threading.Thread(target=work) for _ in range(4)]
            [one.start() for one in made], [one.join() for one in made]
        after = [os.fstat(number) for number in range(3)]
        print([(a.st_dev, a.st_ino) == (b.st_dev, b.st_ino) for a, b in zip(before, after)])
        """,
        tiny(),
    )
    assert out.startswith("[True, True, True]\n")


def test_the_log_holds_nothing_that_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    from mtkit.llama.shared_library import Log

    log = Log()
    log.is_shown = True
    log.take(2, b"name = \x1b]0;a\x07\xc2\x9b\xff\n", None)
    log.take(5, b"more\n", None)
    assert capsys.readouterr().err == "name = \\x1b]0;a\\x07\\u009b\ufffd\nmore\n"
