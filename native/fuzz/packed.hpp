// What a fuzz target is given: tables under their tags, then a text.
//
// Each section is a four-letter tag, a u32 size and its bytes; what follows the section TEXT, or is
// no whole section, is the text. tools/fuzz_native.py writes the first ones.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "tables/tables.hpp"

namespace mtkit::fuzz {

// Memory that ends where the section ends, so that a read behind it is seen.
class Packed {
  public:
    Packed(const std::uint8_t *data, std::size_t size) {
        while (size >= HEADER) {
            std::uint32_t length = 0;
            std::memcpy(&length, data + TAG, sizeof length);
            const std::string tag(reinterpret_cast<const char *>(data), TAG);
            if (tag != "TEXT" && length > size - HEADER) break;
            data += HEADER;
            size -= HEADER;
            if (tag == "TEXT") break;
            const auto *bytes = reinterpret_cast<const std::byte *>(data);
            held_.emplace_back(tag, std::vector<std::byte>(bytes, bytes + length));
            data += length;
            size -= length;
        }
        text_.assign(reinterpret_cast<const char *>(data), size);
    }

    [[nodiscard]] Tables tables() const {
        Tables tables;
        for (const auto &[tag, bytes] : held_) tables.add(tag, bytes);
        return tables;
    }
    [[nodiscard]] const std::string &text() const { return text_; }

  private:
    static constexpr std::size_t TAG = 4;
    static constexpr std::size_t HEADER = TAG + sizeof(std::uint32_t);
    std::list<std::pair<std::string, std::vector<std::byte>>> held_;
    std::string text_;
};

// Stop where two answers that must be equal are not.
inline void require(bool holds) {
    if (!holds) std::abort();
}

} // namespace mtkit::fuzz
