"""A conversation keeps what it has computed, and forgets its beginning where it must."""

from __future__ import annotations

import pytest
from llm_models import chatting
from support import reference


def test_turns_reuse_the_memory() -> None:
    reference("llama_cpp")
    from mtkit.llm.dialogue import Dialogue
    from mtkit.llm.runner import open_model
    from mtkit.llm.sampling import Sampler
    from mtkit.settings import AnswerSettings, SamplerSettings
    from mtkit.settings.declaration import settings_of

    def talk(*, fresh: bool) -> list[list[int]]:
        answers = []
        given = {"model": chatting(), "n_ctx": 1024, "kv_type": "bf16", "threads": 1}
        with open_model(settings_of(AnswerSettings, given)) as runner:
            context = runner.open_context()
            with Sampler(context, SamplerSettings()) as sampler:
                dialogue = Dialogue(runner, sampler, runner.model.meta("tokenizer.chat_template"))
                for text in ("Hello", "And then?", "Good."):
                    dialogue.messages.append({"role": "user", "content": text})
                    before = len(runner.ids)
                    if fresh:
                        context.clear()
                        runner.ids = []
                    list(dialogue.answer(10))
                    answers.append(dialogue.ids)
                    if not fresh and len(answers) > 1:
                        assert dialogue.reused > 10
                        assert dialogue.reused <= before
        return answers

    kept, fresh = talk(fresh=False), talk(fresh=True)
    assert [len(answer) for answer in kept] == [10, 10, 10]
    assert kept == fresh


def test_a_conversation_outgrows_the_context() -> None:
    reference("llama_cpp")
    from mtkit.errors import ResourceError
    from mtkit.llm.dialogue import Dialogue
    from mtkit.llm.runner import open_model
    from mtkit.llm.sampling import Sampler
    from mtkit.settings import AnswerSettings, SamplerSettings
    from mtkit.settings.declaration import settings_of

    given = {"model": chatting(), "n_ctx": 256, "threads": 1}
    with open_model(settings_of(AnswerSettings, given)) as runner:
        context = runner.open_context()
        template = runner.model.meta("tokenizer.chat_template")
        with Sampler(context, SamplerSettings()) as sampler:
            dialogue = Dialogue(runner, sampler, template, system="Be brief.")
            forgotten = []
            for turn in range(6):
                dialogue.messages.append({"role": "user", "content": f"{turn} word word"})
                list(dialogue.answer(40))
                forgotten.append(dialogue.forgotten)
            assert forgotten[0] == 0
            assert forgotten[-1] >= 2
            assert dialogue.messages[0]["content"] == "Be brief."
            assert len(dialogue.messages) == 13  # nothing is lost from the record
            dialogue.messages.append({"role": "user", "content": "word " * 500})
            with pytest.raises(ResourceError, match="the message has"):
                list(dialogue.answer())
