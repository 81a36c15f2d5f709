#include "text/made_valid.hpp"

#include "base/errors.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

// Copy what is valid; `make` takes what stands in front of the rest off, at least a byte.
template <typename Make>
void copy_valid(std::string_view text, std::size_t good, std::string &out, const Make &make) {
    out.clear();
    while (true) {
        out += text.substr(0, good);
        text.remove_prefix(good);
        if (text.empty()) return;
        make(text);
        good = valid_prefix(text);
    }
}

// Bytes of a character as its first byte says; 0 where they are not all there.
std::size_t loose_size(std::string_view text) {
    const auto first = static_cast<unsigned char>(text.front());
    const std::size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (first < 0xC0 || first >= 0xF8 || text.size() < size) return 0;
    for (std::size_t i = 1; i < size; ++i)
        if (!is_continuation(text[i])) return 0;
    return size;
}

} // namespace

Loose replace_invalid(std::string_view text, std::size_t good, std::string &out) {
    copy_valid(text, good, out, [&](std::string_view &rest) {
        out += REPLACEMENT;
        rest.remove_prefix(1);
    });
    return {};
}

Loose read_loosely(std::string_view text, std::size_t good, bool beyond, std::string &out) {
    Loose found;
    copy_valid(text, good, out, [&](std::string_view &rest) {
        const std::size_t size = loose_size(rest);
        if (size == 0) {
            out += REPLACEMENT;
            rest.remove_prefix(1);
            return;
        }
        auto c = static_cast<char32_t>(static_cast<unsigned char>(rest[0]) & (0xFFU >> (size + 1)));
        for (std::size_t i = 1; i < size; ++i)
            c = c << 6 | (static_cast<unsigned char>(rest[i]) & 0x3FU);
        if (c > 0x10FFFF && !beyond) throw Deferred(); // the pipeline raises the message
        if (c > 0x10FFFF || is_stray(c)) {
            found.bytes = true;
            out += rest.substr(0, size);
        } else {
            found.surrogates = found.surrogates || is_surrogate(c);
            append(out, c);
        }
        rest.remove_prefix(size);
    });
    return found;
}

} // namespace mtkit
