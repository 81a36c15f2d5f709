"""What is wrong with a chat template: one rule a row; each template is run on a short conversation.

It runs as every template does, in a process of its own with limits (``chat``).
Source: transformers, utils/chat_template_utils.py; llama.cpp, common/chat.cpp.
"""

from __future__ import annotations

import re

from mtkit.base.escape import escape
from mtkit.checks.report import survey
from mtkit.errors import FormatError, MtkitError, ResourceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.checks.report import Place
    from mtkit.spec import ChatTemplate, TokenizerSpec
    from mtkit.tokenizer.tokenizer import Tokenizer

JINJA = "Jinja"
TRANSFORMERS = "transformers"
_QUESTION = ({"role": "user", "content": "Which way is up?"},)
_CONTROL = re.compile(r"<\|[A-Za-z0-9_/-]{2,40}\|>")
"""What is spelled like a control token in most vocabularies."""


class Trial:
    """One template, and what it makes of a question with and without an opened answer.

    Attributes:
        template: The template.
        tokenizer: Its tokenizer.
        spec: Of that.
        error: Why it gives nothing.
        text: What it gives, the answer opened.
        closed: What it gives otherwise.
    """

    def __init__(self, template: ChatTemplate, tokenizer: Tokenizer) -> None:
        from mtkit.chat.template import apply

        self.template, self.tokenizer, self.spec = template, tokenizer, tokenizer.spec
        spec = tokenizer.spec
        self.error: MtkitError | None = None
        self.text = self.closed = ""
        try:
            self.text, self.closed = (
                apply(spec, _QUESTION, template=template.text, add_generation_prompt=opened).text
                for opened in (True, False)
            )
        except MtkitError as error:
            self.error = error

    @property
    def field(self) -> str:
        """How findings name it."""
        return f"chat template {self.template.name!r}"


def _syntax(trial: Trial) -> Iterator[Place]:
    if isinstance(trial.error, FormatError):
        yield trial.field, trial.error.what, None


def _limits(trial: Trial) -> Iterator[Place]:
    if isinstance(trial.error, ResourceError):
        yield trial.field, trial.error.what, None


def _refuses(trial: Trial) -> Iterator[Place]:
    if trial.error and not isinstance(trial.error, (FormatError, ResourceError)):
        yield trial.field, f"refuses a single question: {trial.error.what}", None


def _opens(trial: Trial) -> Iterator[Place]:
    if not trial.error and trial.text == trial.closed:
        yield trial.field, "does not open the answer: add_generation_prompt changes nothing", None


def _bos_twice(trial: Trial) -> Iterator[Place]:
    from mtkit.chat.template import special_tokens

    bos = special_tokens(trial.spec).get("bos_token")
    number = trial.spec.special_ids.bos
    if bos and trial.text.startswith(bos):
        around = trial.tokenizer.encode_ids("", add_special_tokens=True)
        if number in around[:1]:
            what = f"begins with {escape(bos)}, which encoding adds in front of every text, too"
            yield trial.field, what, None


def _tokens(trial: Trial) -> Iterator[Place]:
    known = {token.content for token in trial.spec.added_tokens.tokens}
    pieces = trial.spec.vocabulary.ids
    for spelled in sorted({*_CONTROL.findall(trial.text)}):
        if spelled.encode() not in known and spelled.encode() not in pieces:
            yield trial.field, f"writes {spelled}, which is not a token", None


TEMPLATE = (
    survey("template-syntax", "warning", JINJA, "chat template", _syntax),
    survey("template-limits", "warning", "a limit of mtkit", "chat template", _limits),
    survey("template-refuses", "note", TRANSFORMERS, "chat template", _refuses),
    survey("template-answer", "note", TRANSFORMERS, "chat template", _opens),
    survey("template-bos-twice", "note", TRANSFORMERS, "chat template", _bos_twice),
    survey("template-tokens", "warning", TRANSFORMERS, "chat template", _tokens),
)


def _against(spec: TokenizerSpec, other: str, wanted: dict[str, str]) -> Iterator[Place]:
    found = {template.name: template.text for template in spec.chat_templates}
    for name, text in wanted.items():
        field = f"chat template {name!r}"
        if name not in found:
            yield field, f"is missing; {other} has it", None
        elif found[name] != text:
            place = next(
                (at for at, (a, b) in enumerate(zip(found[name], text, strict=False)) if a != b),
                min(len(text), len(found[name])),
            )
            line = text.count("\n", 0, place) + 1
            yield field, f"differs from that of {other}, first in line {line}", None


AGAINST = (survey("template-against", "warning", TRANSFORMERS, "chat template", _against),)
