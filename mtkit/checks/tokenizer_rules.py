"""What is odd about a tokenizer of any format, its chat templates included: one rule a row.

Its specification breaks no rule of ``spec.rules``, so it can be run; what is found here is what its
author hardly meant, or what other programs refuse. Each template is run on a short conversation, as
every template is, in a process of its own with limits (``chat``). Of a folder with a tokenizer.json
transformers may make another tokenizer.
Source: transformers, utils/chat_template_utils.py; llama.cpp, common/chat.cpp.
"""

from __future__ import annotations

import re
from collections import Counter
from math import isnan

from mtkit.base.escape import as_text, printable
from mtkit.checks.report import survey
from mtkit.errors import FormatError, MtkitError, NoToken, ResourceError
from mtkit.spec import (
    TokenType,
    components_of,
    models,
    normalizers,
    post_processors,
    pre_tokenizers,
)
from mtkit.spec.vocabulary import BYTE_TOKENS
from mtkit.unicode.utf8 import BYTE_LETTERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.checks.report import Place
    from mtkit.spec import ChatTemplate, TokenizerSpec, Vocabulary
    from mtkit.tokenizer.tokenizer import Tokenizer


LLAMA_CPP = "llama.cpp"
TOKENIZERS = "tokenizers"
ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask", "eot")
_BYTE_LEVEL = (normalizers.ByteLevel, pre_tokenizers.ByteLevel)
_NEVER = {0xC0, 0xC1, *range(0xF5, 0x100)}
"""Bytes that no valid UTF-8 has."""
_BYTE_LETTERS = frozenset(
    letter.encode() for byte, letter in enumerate(BYTE_LETTERS) if byte not in _NEVER
)
_BYTE_SPELLINGS = frozenset(BYTE_TOKENS)
_FILLER = b"<pad>"
"""ExecuTorch's exporter gives it to every id of the embedding that has no token."""
_MOST_LETTERS = 60


def _format_piece(piece: bytes) -> str:
    text = printable(as_text(piece))
    return f"'{text if len(text) <= _MOST_LETTERS else text[:_MOST_LETTERS] + '…'}'"


def _present_tokens(vocabulary: Vocabulary) -> Iterator[tuple[int, bytes, int]]:
    """Yield id, piece and type of every id that is a token."""
    for number, (piece, kind) in enumerate(
        zip(vocabulary.pieces, vocabulary.all_types(), strict=True)
    ):
        if kind != TokenType.ABSENT:
            yield number, piece, kind


def _token_twice(vocabulary: Vocabulary) -> Iterator[Place]:
    if vocabulary.pieces.are_distinct():
        return
    pieces = [piece for _, piece, _ in _present_tokens(vocabulary) if piece]
    if len(set(pieces)) == len(pieces):
        return
    several = {piece for piece, count in Counter(pieces).items() if count > 1} - {_FILLER}
    first: dict[bytes, int] = {}
    for number, piece, _ in _present_tokens(vocabulary):
        if piece in several and first.setdefault(piece, number) != number:
            what = f"token {number} is {_format_piece(piece)}, as is token {first[piece]}"
            yield "vocabulary", what, None


def _spellings(vocabulary: Vocabulary) -> Iterator[Place]:
    for other in vocabulary.also:
        first = _format_piece(vocabulary.pieces[other.id])
        yield (
            "vocabulary",
            f"token {other.id} is {first}, and {_format_piece(other.piece)} too",
            None,
        )


def _token_empty(vocabulary: Vocabulary) -> Iterator[Place]:
    if not vocabulary.pieces.has_empty():
        return
    for number, piece, _ in _present_tokens(vocabulary):
        if not piece:
            yield "vocabulary", f"token {number} has no text", None


def _byte_form(vocabulary: Vocabulary) -> Iterator[Place]:
    types, number = vocabulary.all_types(), -1
    while (number := types.find(TokenType.BYTE, number + 1)) >= 0:
        piece = vocabulary.pieces[number]
        if piece not in _BYTE_SPELLINGS:
            yield (
                "vocabulary",
                f"token {number} is a byte token and spelled {_format_piece(piece)}",
                None,
            )


def _bytes_missing(spec: TokenizerSpec) -> Iterator[Place]:
    if not getattr(spec.model, "byte_fallback", False):
        return
    missing = [token for token in BYTE_TOKENS if token not in spec.vocabulary.ids]
    if missing:
        what = f"{len(missing)} of 256 byte tokens are missing, as {missing[0].decode()}"
        yield "vocabulary", what, None


def _letters_missing(spec: TokenizerSpec) -> Iterator[Place]:
    stages = (*components_of(spec.normalizer), *components_of(spec.pre_tokenizer))
    if not any(isinstance(stage, _BYTE_LEVEL) for stage in stages):
        return
    missing = _BYTE_LETTERS - spec.vocabulary.ids.keys()
    if missing and getattr(spec.model, "unk", None) is None:
        letters = sorted(missing)
        what = f"{len(missing)} bytes of UTF-8 have no token, such as {_format_piece(letters[0])}"
        yield "vocabulary", what, None


def _products(spec: TokenizerSpec) -> Iterator[tuple[int, bytes]]:
    """Yield the rank and product of every merge."""
    if not isinstance(spec.model, models.BPE):
        return
    parts = [*spec.vocabulary.pieces, *spec.model.merges.unlisted]
    cut = len(spec.model.continuing_subword_prefix.encode())
    for rank, (left, right) in enumerate(spec.model.merges.pairs.pairs()):
        yield rank, parts[left] + parts[right][cut:]


def _merge_product(spec: TokenizerSpec) -> Iterator[Place]:
    known = spec.vocabulary.ids
    for rank, product in _products(spec):
        if product and product not in known:
            what = f"merge {rank} makes {_format_piece(product)}, which is not a token"
            yield "merges", what, None


def _merge_twice(spec: TokenizerSpec) -> Iterator[Place]:
    if not isinstance(spec.model, models.BPE):
        return
    pairs = list(spec.model.merges.pairs.pairs())
    if len(set(pairs)) == len(pairs):
        return
    first: dict[tuple[int, int], int] = {}
    for rank, pair in enumerate(pairs):
        if first.setdefault(pair, rank) != rank:
            yield "merges", f"merge {rank} repeats merge {first[pair]}", None


def _unreachable(spec: TokenizerSpec) -> Iterator[Place]:
    """Only merges make tokens of several characters, unless whole words are looked up first."""
    if not isinstance(spec.model, models.BPE) or spec.model.ignore_merges:
        return
    products = {product for _, product in _products(spec)}
    added = {token.id for token in spec.added_tokens.tokens}
    marks = spec.model.continuing_subword_prefix, spec.model.end_of_word_suffix
    unreachable = [
        number
        for number, piece, kind in _present_tokens(spec.vocabulary)
        if kind == TokenType.NORMAL and number not in added and piece not in products
        if len(as_text(piece).removeprefix(marks[0]).removesuffix(marks[1])) > 1
        if piece not in _BYTE_SPELLINGS
    ]
    if unreachable:
        first = f"{_format_piece(spec.vocabulary.pieces[unreachable[0]])} (id {unreachable[0]})"
        yield "vocabulary", f"no merge makes {len(unreachable)} of its tokens, as {first}", None


def _scores(vocabulary: Vocabulary) -> Iterator[Place]:
    scores = vocabulary.scores or ()
    if not isnan(sum(scores)):
        return
    for number, score in enumerate(scores):
        if isnan(score):
            yield "scores", f"the score of token {number} is not a number", None


def _special_range(spec: TokenizerSpec) -> Iterator[Place]:
    for role in ROLES:
        number = getattr(spec.special_ids, role)
        if number is not None and number >= spec.vocab_size:
            yield role, f"is id {number}, but there are {spec.vocab_size}", None


def _special_type(spec: TokenizerSpec) -> Iterator[Place]:
    if spec.vocabulary.types is None:
        return
    added = {token.id for token in spec.added_tokens.tokens if token.special}
    for role in ("bos", "eos", "eot"):
        number = getattr(spec.special_ids, role)
        if number is None or number >= len(spec.vocabulary) or number in added:
            continue
        if spec.vocabulary.type_of(number) == TokenType.NORMAL:
            what = f"is token {number}, which counts as text: it is not cut out of a text"
            yield role, what, None


def _added_twice(spec: TokenizerSpec) -> Iterator[Place]:
    first: dict[bytes, int] = {}
    for token in spec.added_tokens.tokens:
        if token.content and first.setdefault(token.content, token.id) != token.id:
            what = (
                f"token {token.id} is {_format_piece(token.content)}, as is {first[token.content]}"
            )
            yield "added tokens", what, None


def _added_missing(spec: TokenizerSpec) -> Iterator[Place]:
    """What surrounds a text must be a token, or nothing can embed it."""
    slots = [
        slot
        for part in (spec.post_processor,)
        if isinstance(part, post_processors.Template)
        for slot in (*part.single, *part.pair)
    ]
    for number in sorted({number for slot in slots for number in slot.ids}):
        if number >= spec.vocab_size:
            what = f"adds id {number} around texts, but there are {spec.vocab_size}"
            yield "post-processor", what, None


def _runs(tokenizer: Tokenizer) -> Iterator[Place]:
    """What only compiling a component shows: a pattern, a character map."""
    try:
        tokenizer.encode_ids("One line,\nand 2 \u00e9.")
    except FormatError as error:
        yield error.field or "tokenizer", error.what, error.offset
    except NoToken:
        pass


RUN_RULES = (
    survey("tokenizer-runs", "error", LLAMA_CPP, "any",
           "A pattern or a normalization table of the tokenizer cannot be compiled.", _runs),
)  # fmt: skip
"""For a tokenizer; a finding ends its check."""
VOCABULARY_RULES = (
    survey("token-spellings", "warning", TOKENIZERS, "vocabulary",
           "Two token texts have the same id, and encoding uses both. mtkit decodes the id to "
           "the first; the choice of the tokenizers library varies from run to run.", _spellings),
    survey("token-twice", "warning", LLAMA_CPP, "vocabulary",
           "Two ids have the same text, so encoding finds only one of them. llama.cpp before "
           "2026 aborts on such a vocabulary.", _token_twice),
    survey("token-empty", "note", LLAMA_CPP, "vocabulary",
           "A token has no text, so encoding never finds it; llama.cpp names it after its id, "
           "such as [EMPTY_7].", _token_empty),
    survey("byte-token-form", "warning", LLAMA_CPP, "vocabulary",
           "A byte token is not written as <0xHH>; llama.cpp refuses the file.", _byte_form),
    survey("score-number", "warning", LLAMA_CPP, "scores",
           "A score is not a number (NaN), so tokens cannot be ordered by it.", _scores),
)  # fmt: skip
"""For a vocabulary: pieces, types and scores alone."""
TOKENIZER_RULES = (
    survey("byte-tokens", "warning", LLAMA_CPP, "vocabulary",
           "The tokenizer falls back to bytes, but some of the 256 byte tokens are missing. "
           "Characters that need them cannot be encoded; llama.cpp aborts on them.",
           _bytes_missing),
    survey("byte-letters", "note", LLAMA_CPP, "vocabulary",
           "A byte-level vocabulary lacks tokens for bytes that occur in UTF-8. Text with these "
           "bytes loses them or is refused.", _letters_missing),
    survey("merge-product", "note", TOKENIZERS, "merges",
           "The result of a merge is not a token; the tokenizers library refuses the file.",
           _merge_product),
    survey("merge-twice", "note", TOKENIZERS, "merges",
           "A merge occurs twice; the first rank counts.", _merge_twice),
    survey("token-unreachable", "note", TOKENIZERS, "vocabulary",
           "No merge produces the token, so it is never encoded, only decoded. This is common "
           "for unused and multimodal tokens.", _unreachable),
    survey("special-range", "warning", TOKENIZERS, "special ids",
           "The id of a special token is not in the vocabulary.", _special_range),
    survey("special-type", "note", LLAMA_CPP, "special ids",
           "BOS or EOS is not a control token, so a user can type it.", _special_type),
    survey("added-token-twice", "warning", TOKENIZERS, "added tokens",
           "Two added tokens have the same text, so only one of them is ever found.", _added_twice),
    survey("added-id-range", "warning", TOKENIZERS, "post-processor",
           "A token that is added to every text has no row in the embedding.", _added_missing),
)  # fmt: skip
"""For a whole specification."""


JINJA = "Jinja"
TRANSFORMERS = "transformers"
_QUESTION = ({"role": "user", "content": "Which way is up?"},)
_CONTROL = re.compile(r"<\|[A-Za-z0-9_/-]{2,40}\|>")
"""What is spelled like a control token in most vocabularies."""


class TemplateTrial:
    """One template, and what it makes of a question with and without an opened answer."""

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


def _syntax(trial: TemplateTrial) -> Iterator[Place]:
    if isinstance(trial.error, FormatError):
        yield trial.field, trial.error.what, None


def _limits(trial: TemplateTrial) -> Iterator[Place]:
    if isinstance(trial.error, ResourceError):
        yield trial.field, trial.error.what, None


def _refuses(trial: TemplateTrial) -> Iterator[Place]:
    if trial.error and not isinstance(trial.error, (FormatError, ResourceError)):
        yield trial.field, f"refuses a single question: {trial.error.what}", None


def _opens(trial: TemplateTrial) -> Iterator[Place]:
    if not trial.error and trial.text == trial.closed:
        yield trial.field, "does not open the answer: add_generation_prompt changes nothing", None


def _bos_twice(trial: TemplateTrial) -> Iterator[Place]:
    from mtkit.chat.template import special_tokens

    bos = special_tokens(trial.spec).get("bos_token")
    number = trial.spec.special_ids.bos
    if bos and trial.text.startswith(bos):
        around = trial.tokenizer.encode_ids("", add_special_tokens=True)
        if number in around[:1]:
            what = f"begins with {printable(bos)}, which encoding adds in front of every text, too"
            yield trial.field, what, None


def _tokens(trial: TemplateTrial) -> Iterator[Place]:
    known = {token.content for token in trial.spec.added_tokens.tokens}
    pieces = trial.spec.vocabulary.ids
    for text in sorted({*_CONTROL.findall(trial.text)}):
        if text.encode() not in known and text.encode() not in pieces:
            yield trial.field, f"writes {text}, which is not a token", None


TEMPLATE_RULES = (
    survey("template-syntax", "warning", JINJA, "chat template",
           "The chat template is not valid Jinja, so no chat can be rendered.", _syntax),
    survey("template-limits", "warning", "a limit of mtkit", "chat template",
           "The chat template takes too much time or memory for a short question.", _limits),
    survey("template-refuses", "note", TRANSFORMERS, "chat template",
           "The chat template does not accept a conversation with one question.", _refuses),
    survey("template-answer", "note", TRANSFORMERS, "chat template",
           "add_generation_prompt changes nothing: it should open the answer, and without that "
           "the model may continue the question instead.", _opens),
    survey("template-bos-twice", "note", TRANSFORMERS, "chat template",
           "BOS is added twice, by the template and by encoding. Encode the rendered template "
           "without special tokens.", _bos_twice),
    survey("template-tokens", "warning", TRANSFORMERS, "chat template",
           "The template writes a control token that is not in the vocabulary, so the model "
           "sees it as plain characters. The template is probably from another model.", _tokens),
)  # fmt: skip


def _against(spec: TokenizerSpec, other: str, expected: dict[str, str]) -> Iterator[Place]:
    templates = {template.name: template.text for template in spec.chat_templates}
    for name, text in expected.items():
        field = f"chat template {name!r}"
        if name not in templates:
            yield field, f"is missing; {other} has it", None
        elif templates[name] != text:
            pairs = enumerate(zip(templates[name], text, strict=False))
            shortest = min(len(text), len(templates[name]))
            place = next((at for at, (here, there) in pairs if here != there), shortest)
            line = text.count("\n", 0, place) + 1
            yield field, f"differs from that of {other}, first in line {line}", None


AGAINST_RULES = (
    survey("template-against", "warning", TRANSFORMERS, "chat template",
           "The chat template differs from the one it was compared with.", _against),
)  # fmt: skip


_CLASS_SOURCE = "transformers"


def _other_ids(tokenizer: Tokenizer) -> Iterator[Place]:
    from mtkit.conversion.folder_notes import compare_transformers

    try:
        unlike = compare_transformers(tokenizer)
    except MtkitError:  # the rule below
        return
    if unlike is not None:
        hint = "--as transformers gives the ids of transformers"
        yield "tokenizer_config.json", f"{unlike}; {hint}", None


def _unknown_class(tokenizer: Tokenizer) -> Iterator[Place]:
    from mtkit.conversion.folder_notes import compare_transformers

    try:
        compare_transformers(tokenizer)
    except FormatError as error:
        yield error.field, f"transformers does not read it: {error.what}", error.offset
    except MtkitError as error:
        hint = "--runs-on transformers asks the library"
        yield error.field or "tokenizer_config.json", f"{error.what}; {hint}", None


CLASS_RULES = (
    survey("tokenizer-class", "warning", _CLASS_SOURCE, "tokenizer_config.json",
           "transformers 5 builds a different tokenizer here than tokenizer.json says: it uses "
           "the built-in rules of the class that tokenizer_config.json or config.json names. If "
           "tokenizer.json is right, set tokenizer_class to TokenizersBackend.", _other_ids),
    survey("tokenizer-class-unknown", "note", _CLASS_SOURCE, "tokenizer_config.json",
           "The tokenizer class is unknown to mtkit, so transformers 5 may build a different "
           "tokenizer from this folder.", _unknown_class),
)  # fmt: skip
"""For a tokenizer that was read from a tokenizer.json in a folder."""
