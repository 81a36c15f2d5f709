// Seams: places of a text where what stands on one side changes nothing on the other.
//
// A seam lies in front of a blank (or on both sides of it, where blanks are removed). Each step
// says whether it keeps seams, and under which conditions: what it does to both sides of one is
// then what it does to the whole. See encode/chunks.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace mtkit {

struct Seams {
    std::string_view blank = " "; // what stands for a blank after the steps so far

    // Characters of ASCII that steps treat alike whatever stands around them.
    std::array<bool, 128> free = filled();
    // Behind which a seam may lie.
    std::array<bool, 128> left = filled();
    std::array<bool, 128> written{}; // ones that a step may have written
    std::array<bool, 128> joins{};   // ones that a mark behind them may make another of
    bool changes = false;            // a step changes characters that are not ASCII
    bool clusters = false;           // a step takes an accent together with its letter
    bool wide = true;                // a seam may lie behind a letter that is not ASCII
    // Most ideographs, whose first bytes are those of no other characters.
    static constexpr std::uint32_t HAN = 0x5000;
    static constexpr std::uint32_t LAST_HAN = 0x9FFF;
    bool together = false; // a step may take them together with others, or change them
    bool han = false;      // a step puts blanks around each of them
    bool first = true;     // steps do at the beginning of a text what they do behind a seam
    bool last = true;      // and at its end what they do in front of one

    // Of the pre-tokenizer.
    bool removed = false; // it removes blanks
    bool marked = false;  // each U+2581 begins a word
    bool alone = false;   // some characters are words, whatever stands around them
    bool known = true;    // and it does nothing else

    // A text of several characters is looked for; false where it may reach over a seam.
    bool look_for(std::string_view text) {
        for (const char c : text) {
            const auto byte = static_cast<unsigned char>(c);
            if (byte >= 0x80) {
                changes = together = true;
                continue;
            }
            if (written[byte] && text.size() > 1) return false;
            if (text.size() > 1) free[byte] = false;
        }
        return text.find(blank) == std::string_view::npos;
    }
    void write(std::string_view text) {
        for (const char c : text)
            if (static_cast<unsigned char>(c) < 0x80) written[static_cast<unsigned char>(c)] = true;
    }

  private:
    static constexpr std::array<bool, 128> filled() {
        std::array<bool, 128> out{};
        out.fill(true);
        return out;
    }
};

} // namespace mtkit
