// Chunks: a text cut at seams, where every step does to the parts what it does to the whole.
//
// The ids of a chunk are then remembered by its bytes as they stand in the text, before any step
// (see seams.hpp): what was seen before is cut, looked up and written in one loop, without a
// normalized text. Which characters of ASCII do what is found by asking the steps once.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/hash.hpp"
#include "steps/byte_sets.hpp"
#include "text/paged.hpp"

namespace mtkit {

struct Chunks {
    // A chunk of words of ASCII ends in front of every kind behind WORD.
    enum Kind : std::uint8_t {
        OTHER, // asks for its neighbors
        WORD,  // is part of a word, as its image
        HAN,   // first byte of a character that stands alone
        SOLO,  // is a word
        BLANK, // is removed
    };
    // What becomes of a character wherever it stands: a few bytes of a word.
    class Image {
      public:
        static constexpr std::size_t MOST = 3;
        static constexpr Image blank() { return Image(BLANKS); }    // it is removed as blanks are
        static constexpr Image unasked() { return Image(UNASKED); } // that is not known yet

        constexpr Image() = default; // none: it asks for its neighbors
        // None, too, where the text is empty or has more bytes.
        explicit Image(std::string_view text) {
            if (text.size() > MOST) return;
            size_ = static_cast<std::uint8_t>(text.size());
            std::ranges::copy(text, bytes_);
        }
        [[nodiscard]] bool is_none() const { return size_ == 0; }
        [[nodiscard]] bool is_blank() const { return size_ == BLANKS; }
        [[nodiscard]] bool is_unasked() const { return size_ == UNASKED; }
        [[nodiscard]] std::string_view text() const {
            return {bytes_, size_ <= MOST ? size_ : std::size_t{0}};
        }
        // Write it, of which there is room for MOST, where it is a text; the place behind it.
        [[nodiscard]] char *write(char *to) const {
            std::memcpy(to, bytes_, MOST);
            return to + size_;
        }

      private:
        static constexpr std::uint8_t BLANKS = 0xFE;
        static constexpr std::uint8_t UNASKED = 0xFF;
        constexpr explicit Image(std::uint8_t size) : size_(size) {}
        std::uint8_t size_ = 0;
        char bytes_[MOST]{};
    };
    static constexpr std::size_t SETS = 3; // WORD, SOLO and BLANK
    struct Fate {
        Kind kind = OTHER;
        Image image;
    };

    bool removed = false;   // blanks are removed, as BERT and T5 do
    bool whole = false;     // they become U+2581, and no step cuts words, as in Llama 2's .json
    bool unchanged = false; // `whole`, and no step changes a character that is not ASCII
    bool letters = true;    // each letter of ASCII is WORD
    bool images = false;    // the model gets the images of a word's characters, and nothing else
    bool first = true;      // steps do at the beginning of a text what they do behind a seam
    bool last = true;       // and at its end what they do in front of one
    bool clusters = false;  // a step takes an accent together with its letter, as T5's does
    std::array<Kind, 256> kind{};
    std::array<bool, 256> left{}; // behind which bytes of ASCII a seam may lie
    std::array<bool, 256> wide{}; // behind characters with which first bytes
    std::array<Image, 256> image{};
    PageSet kept;                     // pages of characters that are their images, where `images`
    std::array<bool, 256> kept_row{}; // whether those beginning with a byte are on them
    SetMasks<SETS> (*masks)(const ByteSets<SETS> &,
                            const unsigned char *) = nullptr; // of a text of these
    ByteSets<SETS> sets;
    std::string before; // what stands in front of a word of images
    std::string head;   // a word and its end, in front of a chunk
    std::string tail;   // the same behind it

    // Whether there may be a seam in front of the blank at `at`.
    [[nodiscard]] bool seam(std::string_view text, std::size_t at) const {
        if (at == 0) return false;
        const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
        if (byte(at - 1) < 0x80) return left[byte(at - 1)];
        std::size_t start = at - 1;
        while (start > 0 && (byte(start) & 0xC0) == 0x80) --start;
        return wide[byte(start)];
    }
    // Whether there is one behind a character that no end of a text is rid of.
    [[nodiscard]] bool firm_seam(std::string_view text, std::size_t at) const {
        const auto byte = static_cast<unsigned char>(text[at - 1]);
        return kind[static_cast<unsigned char>(text[at])] == BLANK && byte > ' ' && left[byte] &&
               (kind[byte] == WORD || kind[byte] == SOLO);
    }
    // Whether the character at `at` may be taken together with the one in front of it.
    [[nodiscard]] bool may_join(std::string_view text, std::size_t at) const {
        return clusters && static_cast<unsigned char>(text[at]) >= 0x80 &&
               !kept.has(page_at(text, at));
    }
    // Where characters on `kept` pages end, from `at` on.
    [[nodiscard]] std::size_t end_of_kept(std::string_view text, std::size_t at) const {
        while (at < text.size() &&
               (kept_row[static_cast<unsigned char>(text[at])] || kept.has(page_at(text, at))))
            at += 3;
        return at;
    }
    // Set `text` to the chunk, of characters that are their images, that becomes a word of the
    // model; false where it is none.
    bool text_of(std::string_view word, std::string &text) const {
        const auto &blank = image[' '];
        const std::string_view front = removed ? before : blank.text();
        if (!word.starts_with(front)) return false;
        word.remove_prefix(front.size());
        text.assign(removed ? 0 : 1, ' ');
        text += word;
        const bool solo = removed && word.size() == 1;
        return !word.empty() && std::ranges::all_of(word, [&](char c) {
            const auto byte = static_cast<unsigned char>(c);
            const auto what = kind[byte];
            return (what == WORD || (solo && what == SOLO)) &&
                   image[byte].text() == std::string_view(&c, 1);
        });
    }
    // Where the chunk at `start` ends that asks for its neighbors.
    [[nodiscard]] std::size_t end(std::string_view text, std::size_t start) const {
        // No byte that is not ASCII is BLANK; these are HAN or none is.
        const bool cuts_han = kind[0xE5] == HAN;
        std::size_t at = start + 1;
        for (; at < text.size(); ++at) {
            while (!cuts_han && text.size() - at > 8) {
                const auto ascii = ~load64(text.data() + at) & HIGH_BITS;
                if (ascii != 0) {
                    at += static_cast<std::size_t>(std::countr_zero(ascii)) / 8;
                    break;
                }
                at += 8;
            }
            const auto what = kind[static_cast<unsigned char>(text[at])];
            if (what == HAN || (what == BLANK && seam(text, at))) break;
        }
        return at;
    }
};

} // namespace mtkit
