#include "text/character_places.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/compiler.hpp"
#include "base/simd.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

// Bit i: the byte at place i begins a character; of 64 bytes.
std::uint64_t characters_in(const char *at) {
    std::uint64_t bits = 0;
    for (unsigned i = 0; i < 64; i += 8) {
        const std::uint64_t eight = load64(at + i);
        bits |= gather(~eight | eight << 1) << i; // all but 10xxxxxx
    }
    return bits;
}

// How many characters begin in front of each place of a UTF-8 text.
class CharacterCounts {
  public:
    explicit CharacterCounts(std::string_view text) {
        const std::size_t whole = text.size() / BLOCK;
        blocks_.reserve(whole + 1);
        for (std::size_t i = 0; i < whole; ++i) add(text.data() + i * BLOCK);
        char last[BLOCK] = {};
        std::copy(text.begin() + static_cast<std::ptrdiff_t>(whole * BLOCK), text.end(), last);
        add(last);
    }
    [[nodiscard]] std::uint32_t before(std::size_t place) const {
        const auto &block = blocks_[place / BLOCK];
        const std::uint64_t passed = (std::uint64_t{1} << (place % BLOCK)) - 1;
        return block.before + static_cast<std::uint32_t>(std::popcount(block.begins & passed));
    }
    [[nodiscard]] bool begins(std::size_t place) const {
        return (blocks_[place / BLOCK].begins >> (place % BLOCK) & 1) != 0;
    }

  private:
    static constexpr std::size_t BLOCK = 64;
    struct Block {
        std::uint64_t begins;
        std::uint32_t before;
    };
    void add(const char *at) {
        const std::uint64_t begins = characters_in(at);
        blocks_.push_back({begins, count_});
        count_ += static_cast<std::uint32_t>(std::popcount(begins));
    }

    std::vector<Block> blocks_;
    std::uint32_t count_ = 0;
};

// What lies in a stretch of ASCII is moved with it.
MTKIT_INLINE void convert(std::string_view text, std::span<std::uint32_t> places) {
    constexpr std::size_t AHEAD = 4096; // tokens out of order do not look through all of the text
    const CharacterCounts counts(text);
    std::size_t from = 0; // the stretch
    std::size_t to = 0;
    std::uint32_t wider = 0; // bytes in front of it that begin no character
    for (auto *place = places.data(); place != places.data() + places.size(); place += 2) {
        if (place[0] >= from && place[1] <= to) {
            place[0] -= wider;
            place[1] -= wider;
            continue;
        }
        const std::size_t at = place[1];
        const bool whole = place[0] == text.size() || counts.begins(place[0]);
        place[0] = counts.before(place[0]) - (whole ? 0U : 1U);
        place[1] = counts.before(at);
        if (at == text.size() || static_cast<unsigned char>(text[at]) >= 0x80) continue;
        from = at;
        to = ascii_end(text.substr(0, at + AHEAD), at);
        wider = static_cast<std::uint32_t>(at) - place[1];
    }
}
#if defined(MTKIT_AVX)
MTKIT_AVX2_CODE void convert_avx2(std::string_view text, std::span<std::uint32_t> places) {
    convert(text, places);
}
#endif

} // namespace

void to_characters(std::string_view text, std::span<std::uint32_t> places) {
    if (is_ascii(text)) return;
#if defined(MTKIT_AVX)
    if (simd() >= Simd::AVX2) return convert_avx2(text, places); // which counts bits in one step
#endif
    convert(text, places);
}

} // namespace mtkit
