"""What a tokenizer.bin cannot hold: what is refused, and what is lost.

Source: karpathy/llama2.c, run.c: its ids 1, 2 and 3 to 258 are fixed in the code.
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.formats.contract import Loss
from mtkit.spec import TokenType
from mtkit.spec.decoders import AfterBos
from mtkit.spec.marks import space_rule
from mtkit.spec.models import BPE, ScoreBPE
from mtkit.spec.scores import score_form

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.formats.contract import LossCode
    from mtkit.spec import TokenizerSpec

BYTE_PIECES = [b"<0x%02X>" % byte for byte in range(256)]
PLAIN: dict[str, tuple[LossCode, str]] = {
    "pre_tokenizer": ("ids", "the text is not split into words"),
    "post_processor": ("metadata", "BOS and nothing else is added"),
    "decoder": ("decoding", "only behind BOS a leading space goes; bytes stay as they are"),
    "special_ids": ("metadata", "only BOS 1 and EOS 2 have a role"),
    "truncation": ("metadata", "there is no place for it"),
    "padding": ("metadata", "there is no place for it"),
    "chat_templates": ("chat", "there is no place for them"),
    "invalid_utf8": ("ids-special", "bytes that are not valid UTF-8 are encoded as they are"),
    "clean_up_spaces": ("decoding", "spaces are not cleaned up"),
    "join": ("decoding", "nothing stands between tokens"),
    "prefix_ids": ("ids", "only BOS stands in front"),
    "extras": ("metadata", "there is no place for what other formats keep"),
}
"""Field -> code and effect of losing it."""


def by_score(spec: TokenizerSpec) -> TokenizerSpec:
    """Return the specification with scores, or refuse what would not be this tokenizer any more.

    Raises:
        UnsupportedError: It is not a byte-pair encoding by score, or an id is not where the program
            that uses the file takes it from.
    """
    if isinstance(spec.model, BPE) and space_rule(spec):
        spec = score_form(spec)
    if not isinstance(spec.model, ScoreBPE):
        raise UnsupportedError(
            f"is {type(spec.model).__name__}, the format holds byte-pair encoding by score only",
            field="model",
        )
    if spec.vocabulary.scores is None or spec.vocabulary.scores.code != "f":
        raise UnsupportedError("are not float32 numbers", field="vocabulary.scores")
    types = spec.vocabulary.types or ()
    if TokenType.ABSENT in types:
        raise UnsupportedError("has holes, the format numbers tokens by place", field="vocabulary")
    for role, token_id, spelling in (("bos", 1, b"<s>"), ("eos", 2, b"</s>")):
        given = getattr(spec.special_ids, role)
        if given is None and spec.vocabulary.pieces[token_id : token_id + 1] == [spelling]:
            continue  # nobody says so, and the name leaves no doubt
        if given != token_id:
            raise UnsupportedError(
                f"is {given}, the format knows no other than {token_id}",
                field=f"special_ids.{role}",
            )
    own = isinstance(spec.decoder, AfterBos)
    if not own and spec.vocabulary.pieces[3:259] != BYTE_PIECES:
        raise UnsupportedError(
            "has no <0xHH> tokens at the ids 3 to 258, where the format has them",
            field="vocabulary",
        )
    return spec


def field_losses(name: str, spec: TokenizerSpec, back: TokenizerSpec) -> Iterator[Loss]:
    """Yield what is lost in a field that does not come back equal."""
    if name == "vocabulary":
        if spec.vocabulary.pieces != back.vocabulary.pieces:
            yield Loss("ids-special", "vocabulary.pieces", "U+2581 in a text is no longer a space")
        if spec.vocabulary.scores != back.vocabulary.scores:
            yield Loss("ids-possible", "vocabulary.scores", "stand for the order of merges")
        if spec.vocabulary.types != back.vocabulary.types:
            kinds = set(spec.vocabulary.types or ())
            told_apart = kinds & {TokenType.USER_DEFINED, TokenType.UNUSED}
            yield Loss(
                "ids-possible" if told_apart else "metadata",
                "vocabulary.types",
                "unused and user-defined pieces are like any other",
            )
    elif name == "model":
        if not getattr(spec.model, "byte_fallback", False):
            yield Loss("ids", "model.byte_fallback", "unknown characters become bytes")
        yield Loss("ids-possible", "model", "merges may make any token's text")
    elif name == "normalizer":
        yield _normalizer_loss(spec)
    elif name == "added_tokens":
        found = bool(spec.added_tokens.tokens)
        yield Loss(
            "ids-special" if found else "metadata",
            name,
            "special tokens in a text are ordinary text",
        )
    elif not (name == "pre_tokenizer" and space_rule(spec)):
        code, effect = PLAIN[name]
        yield Loss(code, name, effect)
    else:
        yield Loss("ids-special", name, "spaces are marked in the whole text at once")


def _normalizer_loss(spec: TokenizerSpec) -> Loss:
    rule = space_rule(spec)
    if rule is None or rule.charsmap:
        return Loss("ids", "normalizer", "characters are not mapped")
    if rule.remove_extra_whitespaces:
        return Loss("ids", "normalizer.remove_extra_whitespaces", "no space is dropped")
    if not rule.add_dummy_prefix or rule.suffix:
        return Loss("ids", "normalizer.add_dummy_prefix", "a space stands in front of every text")
    return Loss("ids-special", "normalizer", "U+2581 is not a space, bad UTF-8 is not replaced")
