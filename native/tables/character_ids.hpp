// The ids of single characters, found by one look into a page of 64 of them.
#pragma once

#include <cstdint>
#include <vector>

#include "tables/opcodes.hpp"

namespace mtkit {

class CharacterIds {
  public:
    static constexpr char32_t LIMIT = 0x10000; // none beyond

    void put(char32_t character, std::uint32_t id) {
        if (character >= LIMIT) return;
        auto &page = pages_[character / PAGE];
        if (page == 0) {
            page = static_cast<std::uint16_t>(ids_.size() / PAGE);
            ids_.resize(ids_.size() + PAGE, NONE);
        }
        ids_[page * PAGE + character % PAGE] = id;
    }
    // NONE where it has none.
    [[nodiscard]] std::uint32_t find(char32_t character) const {
        if (character >= LIMIT) return NONE;
        return ids_[pages_[character / PAGE] * PAGE + character % PAGE];
    }

  private:
    static constexpr char32_t PAGE = 64;
    std::vector<std::uint16_t> pages_ = std::vector<std::uint16_t>(LIMIT / PAGE);
    std::vector<std::uint32_t> ids_ = std::vector<std::uint32_t>(PAGE, NONE); // of no page
};

} // namespace mtkit
