// Where words start in 64 bytes of text, for the split patterns that most models share.
//
// Source of the rules: the patterns themselves, as the published tokenizers spell them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mtkit {

// What a pattern does with ASCII.
enum class PatternFamily : std::uint8_t {
    OTHER,  // another
    GPT2,   // ' ?' in front of letters, digits, others; contractions
    CL100K, // any character in front of letters, digits by three, line feeds behind others
    QWEN,   // the same with digits one by one
    O200K,  // as CL100K, with capitals in front of small letters, contractions at the end of words
    TEKKEN, // the same with digits one by one and without contractions
};
inline constexpr const char *PATTERN_FAMILIES[] = {"", "gpt2", "cl100k", "qwen", "o200k", "tekken"};

// Bits of the 64 bytes at `at`, where a word starts: other words that certainly start among them,
// and the first bit. `size` of them belong to the text; all have to be readable.
using WordStarts = std::uint64_t (*)(const unsigned char *at, std::size_t size);

// Null where the family has none.
WordStarts word_starts(PatternFamily family);

} // namespace mtkit
