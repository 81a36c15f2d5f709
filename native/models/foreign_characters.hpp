// Foreign characters: of three bytes, with a first byte that begins no character of any piece.
//
// They are unknown to a model of characters, and no piece reaches over one: what lies between two
// is by itself. To a vocabulary of English pieces all Chinese is foreign.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "base/hash.hpp"

namespace mtkit {

class ForeignCharacters {
  public:
    ForeignCharacters() = default; // there are none
    // Looks through all pieces, end to end, once.
    explicit ForeignCharacters(std::string_view pieces) {
        for (unsigned byte = 0xE0; byte < 0xF0; ++byte) first_[byte] = true;
        std::size_t at = 0;
        for (; pieces.size() - at >= 8; at += 8)
            for (auto wide = wide_in(pieces.data() + at); wide != 0; wide &= wide - 1)
                remove(pieces[at + static_cast<std::size_t>(std::countr_zero(wide)) / 8]);
        for (; at < pieces.size(); ++at) remove(pieces[at]);
    }

    // Where one is, from `at` on, or the end of the text, which is UTF-8.
    [[nodiscard]] std::size_t next(std::string_view text, std::size_t at) const {
        for (; text.size() - at >= 8; ++at) {
            const auto wide = wide_in(text.data() + at);
            at += wide == 0 ? 7 : static_cast<std::size_t>(std::countr_zero(wide)) / 8;
            if (wide != 0 && begins_at(text, at)) return at;
        }
        while (at < text.size() && !begins_at(text, at)) ++at;
        return at;
    }
    // Where a run of them ends that begins at `at`.
    [[nodiscard]] std::size_t end(std::string_view text, std::size_t at) const {
        while (at < text.size() && begins_at(text, at)) at += 3;
        return at;
    }

  private:
    // Of eight bytes: the highest bit of those that characters of three bytes, or more, begin with.
    static std::uint64_t wide_in(const char *at) {
        const auto bytes = load64(at);
        return bytes & bytes << 1 & bytes << 2 & HIGH_BITS;
    }
    [[nodiscard]] bool begins_at(std::string_view text, std::size_t at) const {
        return first_[static_cast<unsigned char>(text[at])];
    }
    void remove(char byte) { first_[static_cast<unsigned char>(byte)] = false; }

    std::array<bool, 256> first_{};
};

} // namespace mtkit
