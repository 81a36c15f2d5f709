// SplitPoints that no piece reaches over: between another character and a run of U+2581.
#pragma once

#include <array>
#include <string_view>

#include "text/utf8.hpp"

namespace mtkit {

class SplitPoints {
  public:
    SplitPoints() = default;
    // `crossed`: bytes behind which a run of U+2581 is not a border, see sections.py.
    explicit SplitPoints(std::string_view crossed) {
        for (const char byte : crossed) crossed_[static_cast<unsigned char>(byte)] = true;
    }

    [[nodiscard]] bool crossed(unsigned char byte) const { return crossed_[byte]; }

    // Where the first border lies; the end of the text if there is none.
    [[nodiscard]] std::size_t first(std::string_view text) const {
        for (std::size_t at = 0;;) {
            while (text.substr(at).starts_with(MARK)) at += MARK.size();
            at = text.find(MARK, at);
            if (at == std::string_view::npos) return text.size();
            if (at > 0 && !crossed_[static_cast<unsigned char>(text[at - 1])]) return at;
        }
    }

  private:
    std::array<bool, 256> crossed_{};
};

} // namespace mtkit
