// Which of some texts stand at a place of another.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace mtkit {

// Finds which of many texts begin at each place, in time that is linear in the other text, whatever
// they are: by the automaton of Aho and Corasick, made of the texts from their ends to their
// starts. So is the other text read, and where the start of one is reached, it begins.
class PrefixFinder {
    static constexpr std::uint32_t NOTHING = std::numeric_limits<std::uint32_t>::max();

  public:
    struct Entry {
        std::string_view text;
        std::uint32_t number;
        std::uint32_t shorter = NOTHING; // the longest other entry that begins wherever it does
    };
    struct Found {
        std::size_t place;
        const Entry *entry;
    };
    class Places;

    // Found are the longest, of equal ones the first, or `first_listed`: the least numbers.
    void build(std::vector<Entry> entries, bool first_listed = false);
    [[nodiscard]] bool empty() const { return entries_.empty(); }

    // The first place from `at` on where a text may begin.
    [[nodiscard]] std::size_t next(std::string_view text, std::size_t at) const {
        if (entries_.empty()) return text.size();
        for (;; ++at) {
            if (only_)
                at = std::min(text.find(entries_[0].text[0], at), text.size());
            else
                while (at < text.size() && !first_[static_cast<unsigned char>(text[at])]) ++at;
            if (text.size() - at < 2 || pairs_[pair(text[at], text[at + 1])]) return at;
        }
    }
    // The longest entry that begins where that one does, after it; null: there is none.
    [[nodiscard]] const Entry *shorter(const Entry &entry) const {
        return entry.shorter == NOTHING ? nullptr : &entries_[entry.shorter];
    }

  private:
    // What some entries end with. Nodes lie level by level, those behind one node side by side.
    struct Node {
        std::uint32_t longer; // the first node behind it
        std::uint32_t fail;   // of the longest other beginning of it that is a node; the root: 0
        std::uint32_t entry;
        char byte;
    };

    static std::size_t pair(char first, char second) {
        return static_cast<std::size_t>(static_cast<unsigned char>(first)) << 8 |
               static_cast<unsigned char>(second);
    }
    [[nodiscard]] std::uint32_t step(std::uint32_t node, char byte) const {
        while (node != 0) {
            const auto first = nodes_.begin() + nodes_[node].longer;
            const auto last = nodes_.begin() + nodes_[node + 1].longer;
            const auto at = std::ranges::lower_bound(first, last, byte, {}, &Node::byte);
            if (at != last && at->byte == byte)
                return static_cast<std::uint32_t>(at - nodes_.begin());
            node = nodes_[node].fail;
        }
        return from_root_[static_cast<unsigned char>(byte)];
    }
    // Call `found(place, entry)` for each place where one begins, the last place first.
    template <typename Call> void each(std::string_view text, const Call &found) const {
        std::uint32_t node = 0;
        for (std::size_t at = text.size(); at-- > 0;) {
            node = step(node, text[at]);
            if (nodes_[node].entry != NOTHING) found(at, entries_[nodes_[node].entry]);
        }
    }

    std::vector<Entry> entries_;
    std::vector<Node> nodes_; // the root, all others, and an end
    std::array<std::uint32_t, 256> from_root_{};
    std::array<bool, 256> first_{}; // bytes that one begins with
    std::bitset<1U << 16> pairs_;   // the same of two bytes, the second of any text behind one
    std::size_t longest_ = 0;
    bool only_ = false; // they all begin with the same byte
};

// What is found in a text, asked for from its start to its end; it is looked through in windows.
class PrefixFinder::Places {
  public:
    Places(const PrefixFinder &finder, std::string_view text) : finder_(finder), text_(text) {}

    // What is found at `at` or first behind it; null: nothing is.
    const Found *next(std::size_t at) {
        while (true) {
            while (!found_.empty() && found_.back().place < at) found_.pop_back();
            if (!found_.empty()) return &found_.back();
            at = finder_.next(text_, std::max(at, end_));
            if (at == text_.size()) return nullptr;
            look(at);
        }
    }
    // What is found at a place, or null.
    const Entry *at(std::size_t place) {
        const auto *const found = next(place);
        return found != nullptr && found->place == place ? found->entry : nullptr;
    }

  private:
    static constexpr std::size_t WINDOW = 64;

    // What begins in a window may end behind it.
    void look(std::size_t start) {
        const std::size_t longest = finder_.longest_;
        end_ = std::min(text_.size(), start + std::max(WINDOW, longest));
        finder_.each(text_.substr(start, end_ - start + longest),
                     [&](std::size_t at, const Entry &entry) {
                         if (start + at < end_) found_.push_back({start + at, &entry});
                     });
    }

    const PrefixFinder &finder_;
    std::string_view text_;
    std::size_t end_ = 0;      // of the window
    std::vector<Found> found_; // in it, the last one first
};

} // namespace mtkit
