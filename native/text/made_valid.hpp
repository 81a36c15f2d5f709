// What becomes of a text that is not valid UTF-8; the rules are those of mtkit/unicode/utf8.py.
#pragma once

#include <string>
#include <string_view>

namespace mtkit {

// What is not as it is in UTF-8.
struct Loose {
    bool surrogates = false; // there are characters that are
    bool bytes = false;      // there are bytes of no character
};
// U+FFFD for each byte that is not valid. `good`: bytes of the text that are.
Loose replace_invalid(std::string_view text, std::size_t good, std::string &out);
// Any lead byte with its continuation bytes counts, and U+FFFD stands for what does not. Code
// points beyond U+10FFFF stay bytes where they are taken; Deferred where not.
Loose read_loosely(std::string_view text, std::size_t good, bool beyond, std::string &out);

} // namespace mtkit
