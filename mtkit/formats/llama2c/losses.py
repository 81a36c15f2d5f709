"""What a tokenizer.bin cannot hold: what is refused, and what is lost.

Source: karpathy/llama2.c, run.c: its ids 1, 2 and 3 to 258 are fixed in the code.
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.formats.contract import Loss
from mtkit.spec import TokenType
from mtkit.spec.decoders import AfterBos
from mtkit.spec.marks import space_rule
from mtkit.spec.model_names import model_name
from mtkit.spec.models import BPE, ScoreBPE
from mtkit.spec.scores import score_form
from mtkit.spec.vocabulary import BYTE_TOKENS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mtkit.formats.contract import LossCode
    from mtkit.formats.remainder import Rule
    from mtkit.spec import TokenizerSpec


def by_score(spec: TokenizerSpec) -> TokenizerSpec:
    """Return the specification with scores, or refuse what would not be this tokenizer any more.

    Raises:
        UnsupportedError: It is not a byte-pair encoding by score, or an id is not where the program
            that uses the file takes it from.
    """
    if isinstance(spec.model, BPE) and space_rule(spec):
        spec = score_form(spec)
    if not isinstance(spec.model, ScoreBPE):
        what = f"llama2.c stores BPE by score, not {model_name(spec.model)}"
        raise UnsupportedError(what, field="model")
    if spec.vocabulary.scores is None or spec.vocabulary.scores.code != "f":
        raise UnsupportedError("scores are not float32", field="vocabulary.scores")
    types = spec.vocabulary.types or ()
    if TokenType.ABSENT in types:
        raise UnsupportedError("ids have gaps, and it numbers tokens by place", field="vocabulary")
    for role, token_id, spelling in (("bos", 1, b"<s>"), ("eos", 2, b"</s>")):
        given = getattr(spec.special_ids, role)
        if given is None and spec.vocabulary.pieces[token_id : token_id + 1] == [spelling]:
            continue  # nobody says so, and the name leaves no doubt
        if given != token_id:
            raise UnsupportedError(
                f"the id is {given}, and it takes {token_id}",
                field=f"special_ids.{role}",
            )
    own = isinstance(spec.decoder, AfterBos)
    if not own and spec.vocabulary.pieces[3:259] != list(BYTE_TOKENS):
        raise UnsupportedError(
            "the <0xHH> tokens are not at ids 3 to 258",
            field="vocabulary",
        )
    return spec


def _vocabulary(spec: TokenizerSpec, back: TokenizerSpec) -> Iterator[Loss]:
    if spec.vocabulary.pieces != back.vocabulary.pieces:
        yield Loss(
            "ids-special", "vocabulary.pieces", "U+2581 in a text is no longer treated as a space"
        )
    if spec.vocabulary.scores != back.vocabulary.scores:
        yield Loss(
            "ids-possible", "vocabulary.scores", "scores are replaced by the order of the merges"
        )
    if spec.vocabulary.types != back.vocabulary.types:
        kinds = set(spec.vocabulary.types or ())
        told_apart = kinds & {TokenType.USER_DEFINED, TokenType.UNUSED}
        yield Loss(
            "ids-possible" if told_apart else "metadata",
            "vocabulary.types",
            "unused and user-defined tokens are treated like any other",
        )


def _model(spec: TokenizerSpec, _: TokenizerSpec) -> Iterator[Loss]:
    if not getattr(spec.model, "byte_fallback", False):
        yield Loss("ids", "model.byte_fallback", "unknown characters become byte tokens")
    yield Loss(
        "ids-possible",
        "model",
        "llama2.c merges any two parts whose result is a token, so ids can differ",
    )


def _normalizer(spec: TokenizerSpec, _: TokenizerSpec) -> Iterator[Loss]:
    rule = space_rule(spec)
    if rule is None or rule.charsmap:
        yield Loss("ids", "normalizer", "characters are not normalized")
    elif rule.remove_extra_whitespaces:
        yield Loss("ids", "normalizer.remove_extra_whitespaces", "extra spaces are not removed")
    elif not rule.add_dummy_prefix or rule.suffix:
        effect = "a space is added before every text"
        yield Loss("ids", "normalizer.add_dummy_prefix", effect)
    else:
        yield Loss(
            "ids-special",
            "normalizer",
            "U+2581 is not treated as a space, and invalid UTF-8 is not replaced",
        )


def _pre_tokenizer(spec: TokenizerSpec, _: TokenizerSpec) -> Iterator[Loss]:
    if space_rule(spec):
        yield Loss(
            "ids-special", "pre_tokenizer", "spaces next to special tokens are handled differently"
        )
    else:
        yield Loss("ids", "pre_tokenizer", "text is not split into words before merging")


def _added_tokens(spec: TokenizerSpec, _: TokenizerSpec) -> Iterator[Loss]:
    code: LossCode = "ids-special" if spec.added_tokens.tokens else "metadata"
    yield Loss(code, "added_tokens", "special tokens that are spelled out in a text are plain text")


RULES: Mapping[str, Rule] = {
    "vocabulary": _vocabulary,
    "model": _model,
    "normalizer": _normalizer,
    "pre_tokenizer": _pre_tokenizer,
    "post_processor": ("metadata", "BOS is the only token around a text that is kept"),
    "decoder": (
        "decoding",
        "decoding drops a leading space only after BOS, and keeps invalid bytes",
    ),
    "added_tokens": _added_tokens,
    "special_ids": ("metadata", "only BOS (1) and EOS (2) are kept as special tokens"),
    "invalid_utf8": ("ids-special", "text that is not valid UTF-8 is encoded byte by byte"),
    "prefix_ids": ("ids", "only BOS is added before a text"),
}
"""What it means that a field does not come back."""
