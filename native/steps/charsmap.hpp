// SentencePiece's precompiled character map: a double-array trie to replacements.
//
// Layout, little-endian: u32 trie size in bytes, u32 units, replacements ended by NUL; see
// unicode/charsmap.py. Damage found on the way is a FormatError.
#pragma once

#include <array>
#include <cstring>
#include <string_view>

#include "base/compiler.hpp"
#include "base/errors.hpp"
#include "text/paged.hpp"

namespace mtkit {

class Charsmap {
  public:
    Charsmap() = default;
    explicit Charsmap(std::string_view blob) {
        std::uint32_t size = 0;
        if (blob.size() >= 4) std::memcpy(&size, blob.data(), 4);
        if (blob.size() < 4 || size > blob.size() - 4)
            throw FormatError("says its trie has " + std::to_string(size) + " bytes, " +
                                  std::to_string(blob.size() < 4 ? 0 : blob.size() - 4) + " follow",
                              FIELD);
        count_ = size / 4;
        if (count_ == 0) throw FormatError("its trie is empty", FIELD);
        units_ = blob.substr(4, 4 * count_);
        replacements_ = blob.substr(4 + 4 * count_);
    }

    [[nodiscard]] bool empty() const { return count_ == 0; }

    // Call `found(length, replacement)` for every entry that `key` begins with, shortest first,
    // until it says false. How many bytes of the key some entry begins with.
    template <typename Found> std::size_t matches(std::string_view key, Found &&found) const {
        std::size_t node = offset(unit(0));
        std::size_t at = 0;
        while (at < key.size()) {
            const auto byte = static_cast<unsigned char>(key[at]);
            if (byte == 0) break;
            node ^= byte;
            const std::uint32_t label = unit(node);
            if ((label & 0x800000FF) != byte) break;
            node ^= offset(label);
            ++at;
            if ((label >> 8 & 1) != 0 && !found(at, replacement(unit(node) & 0x7FFFFFFF))) break;
        }
        return at;
    }

    // ASCII characters that stay as they are in front of any other: no entry is one of them or
    // begins with it and another one. None where the trie is damaged: that is told when it is met.
    [[nodiscard]] std::array<bool, 256> inert() const {
        std::array<bool, 256> out{};
        try {
            for (unsigned first = 1; first < 0x80; ++first) {
                out[first] = true;
                for (unsigned second = 1; second < 0x80 && out[first] && !empty(); ++second) {
                    const char pair[] = {static_cast<char>(first), static_cast<char>(second)};
                    const auto found = [&](std::size_t, std::string_view) {
                        return out[first] = false;
                    };
                    if (matches({pair, 2}, found) == 2) out[first] = false;
                }
            }
        } catch (const FormatError &) {
            out.fill(false);
        }
        return out;
    }

    // Pages of which no entry begins with a character, or with less of one. None where the trie is
    // damaged, as for inert().
    [[nodiscard]] PageSet without_entries() const {
        try {
            return pages_that([this](unsigned page) {
                const auto pair = beginning_of(page);
                bool is_entry = false; // of one byte, which is no character
                const auto found = [&](std::size_t, std::string_view) { return is_entry = true; };
                return empty() || (matches({pair.data(), pair.size()}, found) < 2 && !is_entry);
            });
        } catch (const FormatError &) {
            return {};
        }
    }

  private:
    static constexpr const char *FIELD = "precompiled_charsmap";

    [[nodiscard]] std::uint32_t unit(std::size_t node) const {
        if (node >= count_) [[unlikely]]
            leads_outside(node);
        std::uint32_t value;
        std::memcpy(&value, units_.data() + 4 * node, 4);
        return value;
    }

    // Apart from unit(), which is then short enough to be inlined.
    [[noreturn]] MTKIT_NOINLINE void leads_outside(std::size_t node) const {
        throw FormatError("its trie leads to unit " + std::to_string(node) + ", it has " +
                              std::to_string(count_),
                          FIELD);
    }

    static std::size_t offset(std::uint32_t unit) {
        return static_cast<std::size_t>(unit >> 10) << ((unit & 0x200) >> 6);
    }

    [[nodiscard]] std::string_view replacement(std::size_t index) const {
        if (index > replacements_.size())
            throw FormatError("a replacement begins at " + std::to_string(index) +
                                  ", the last at most at " + std::to_string(replacements_.size()),
                              FIELD);
        return replacements_.substr(index, replacements_.find('\0', index) - index);
    }

    std::string_view units_;
    std::size_t count_ = 0;
    std::string_view replacements_;
};

} // namespace mtkit
