"""The Unicode tables say of every character what the reference libraries say of it."""

from __future__ import annotations

from typing import Any

from support import reference

from mtkit.patterns.matcher import compile_pattern
from mtkit.spec.text import Regex
from mtkit.unicode import tables as unicode

CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
# Where little happens, a sample.
SAMPLE = [*CHARACTERS[:0x20000], *CHARACTERS[0x20000::97], *CHARACTERS[-3:]]
# No mark composes with it or is reordered across it.
BETWEEN = "\u4e06"


def normalized(component: Any) -> dict[str, str]:
    """What a normalizer makes of each character."""
    out: dict[str, str] = {}
    plain = [character for character in CHARACTERS if character != BETWEEN]
    for at in range(0, len(plain), 4096):
        part = plain[at : at + 4096]
        lines = component.normalize_str(BETWEEN.join(part)).split(BETWEEN)
        out.update(zip(part, lines, strict=True))
    return out


def matched(pattern: str) -> set[str]:
    """Characters that a pattern matches in the tokenizers library."""
    tokenizers = reference("tokenizers")
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "removed", invert=True)
    out: set[str] = set()
    for at in range(0, len(SAMPLE), 4096):
        for word, _ in split.pre_tokenize_str("".join(SAMPLE[at : at + 4096])):
            out.update(word)
    return out


def test_sets_of_patterns() -> None:
    text = "".join(SAMPLE)
    for pattern in (
        *(rf"\p{{{name}}}" for name in ("L", "Lu", "Lm", "M", "Nd", "N", "P", "S", "Z", "C", "Cn")),
        *(r"\w", r"[\w]", r"\s", r"\d", r"\h", r"\p{Han}", r"\p{Alphabetic}", r"\p{Inherited}"),
        *(
            r"\p{Emoji}",
            r"\p{Emoji_Presentation}",
            r"\p{Extended_Pictographic}",
            r"\p{Ideographic}",
        ),
        *(f"[[:{name}:]]" for name in ("alpha", "punct", "graph", "print", "upper", "blank")),
        *("(?i:s)", "(?i:k)", "(?i:[a-z])", "(?i:[^a-m])", "(?i:\\w)"),
    ):
        runs = f"(?:{pattern})+"
        ours = {
            c for start, end in compile_pattern(Regex(runs)).find(text) for c in text[start:end]
        }
        assert ours, pattern
        assert not ours ^ matched(runs), pattern


def test_normal_forms_are_those_of_unicode_9() -> None:
    normalizers = reference("tokenizers").normalizers
    for compatible, form in ((False, normalizers.NFD()), (True, normalizers.NFKD())):
        for character, expected in normalized(form).items():
            ours = unicode.decomposition(character, compatible=compatible, version="9.0")
            assert ours == expected, hex(ord(character))
    for character, expected in normalized(normalizers.NFC()).items():
        if len(expected) == 1:
            parts = unicode.decomposition(character, compatible=False, version="9.0")
            whole = parts[0]
            for part in parts[1:]:
                joined = unicode.composition(whole, part, version="9.0")
                assert joined is not None, hex(ord(character))
                whole = joined
            assert whole == expected
    assert unicode.composition("a", "b") is None
    # Composed only since Unicode 13.0.
    assert unicode.composition("\U00011935", "\U00011930") == "\U00011938"
    assert unicode.composition("\U00011935", "\U00011930", version="9.0") is None


def test_marks_are_ordered_as_in_unicode_9() -> None:
    form = reference("tokenizers").normalizers.NFD()
    marks = [c for c in CHARACTERS if unicode.combining_class(c, version="9.0")]
    assert len(marks) > 700
    for probe in ("\u0338", "\u3099", "\u0316", "\u0301", "\u0345"):
        order = unicode.combining_class(probe)
        lines = form.normalize_str(BETWEEN.join(f"q{probe}{mark}" for mark in marks)).split(BETWEEN)
        for mark, line in zip(marks, lines, strict=True):
            parts = unicode.decomposition(mark, compatible=False, version="9.0")
            swapped = unicode.combining_class(parts[0]) < order
            assert (line[1] != probe) == (swapped and parts[0] != probe), hex(ord(mark))


def test_components_of_tokenizers() -> None:
    normalizers = reference("tokenizers").normalizers
    pre_tokenizers = reference("tokenizers").pre_tokenizers
    for character, line in normalized(normalizers.Lowercase()).items():
        assert unicode.lower(character) == line
    for character, line in normalized(normalizers.StripAccents()).items():
        assert (unicode.category(character, "9.0")[0] == "M") == (line == "")
    options = {"handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    clean = normalizers.BertNormalizer(clean_text=True, **options)
    for character, line in normalized(clean).items():
        control = (
            unicode.category(character, "8.0") in {"Cc", "Cf", "Co"} and character not in "\t\n\r"
        )
        assert (control or character == "\ufffd") == (line == "")
    options["strip_accents"] = True
    accents = normalizers.BertNormalizer(clean_text=False, **options)
    for character, line in normalized(accents).items():
        parts = unicode.decomposition(character, compatible=False, version="9.0")
        assert line == "".join(p for p in parts if unicode.category(p, "8.0") != "Mn")
    symbols = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
    for component, version, first, more in (
        (pre_tokenizers.Punctuation(), "8.0", "P", symbols),
        (pre_tokenizers.Digits(individual_digits=True), "17.0", "N", set()),
    ):
        alone = set()
        for at in range(0, len(CHARACTERS), 4096):
            part = CHARACTERS[at : at + 4096]
            words = component.pre_tokenize_str("".join(c + "aa" for c in part))
            alone |= {word for word, _ in words if len(word) == 1}
        expected = {c for c in CHARACTERS if unicode.category(c, version)[0] == first} | more
        assert alone == expected


def charsmap(character: str) -> bytes:
    """A precompiled map (double-array trie) that turns one character into an exclamation mark."""
    data = character.encode()
    units = [0] * (1024 * (len(data) + 2))
    units[0] = 512 << 10
    node = 512
    for number, byte in enumerate(data):
        place = node ^ byte
        target = 1024 * (number + 1) + 512
        units[place] = byte | (place ^ target) << 10 | (number == len(data) - 1) << 8
        node = target
    trie = b"".join(unit.to_bytes(4, "little") for unit in units)
    return len(trie).to_bytes(4, "little") + trie + b"!\0"


def test_clusters_where_a_map_can_tell() -> None:
    # The reference maps a whole cluster below six bytes by its beginning.
    precompiled = reference("tokenizers").normalizers.Precompiled
    for lead in ("a", "\u0600", "\u1100", "\uac00", "\u200d"):
        component = precompiled(charsmap(lead))
        limit = 6 - len(lead.encode())
        few = [c for c in CHARACTERS if len(c.encode()) < limit and c not in {"\n", lead}]
        lines = component.normalize_str("\n".join(lead + c for c in few)).split("\n")
        for character, line in zip(few, lines, strict=True):
            whole = len(unicode.clusters(lead + character)) == 1
            assert (line == "!") == whole, (lead, hex(ord(character)))


def test_clusters_by_hand() -> None:
    for cluster in ("\r\n", "e\u0301\u0316", "\U0001f469\u200d\U0001f680", "\U0001f1e9\U0001f1ea"):
        assert unicode.clusters(cluster) == [cluster]
    assert unicode.clusters("\u0915\u094d\u0937") == ["\u0915\u094d\u0937"]
    assert unicode.clusters("\u1100\u1161\u11a8\u1100") == ["\u1100\u1161\u11a8", "\u1100"]
    assert unicode.clusters("\U0001f1e9\U0001f1ea\U0001f1eb") == [
        "\U0001f1e9\U0001f1ea",
        "\U0001f1eb",
    ]
    assert unicode.clusters("a\u200d\U0001f680") == ["a\u200d", "\U0001f680"]


def test_lower_case_of_an_older_version() -> None:
    assert unicode.simple_lower("\u0130") == "i"
    assert unicode.lower("\u0130") == "i\u0307"
    assert unicode.simple_lower("\U00010d50") == "\U00010d70"
    assert unicode.simple_lower("\U00010d50", "15.1") == "\U00010d50"
    lowered = [c for c in CHARACTERS if unicode.simple_lower(c, "15.1") != c]
    assert len(lowered) == 1433
