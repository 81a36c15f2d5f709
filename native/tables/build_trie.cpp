#include <algorithm>
#include <string_view>

#include "tables/trie.hpp"

namespace mtkit {

namespace {

struct Piece {
    std::uint64_t head; // its first eight bytes in their order, which are told apart at once
    std::string_view text;
    std::uint32_t id;

    Piece(std::string_view piece, std::uint32_t number) : head(0), text(piece), id(number) {
        for (std::size_t i = 0; i < sizeof head; ++i)
            head = head << 8 | (i < text.size() ? static_cast<unsigned char>(text[i]) : 0U);
    }
    bool operator<(const Piece &other) const {
        if (head != other.head) return head < other.head;
        const int order = text.compare(other.text);
        return order != 0 ? order < 0 : id < other.id;
    }
};

// Lays out the nodes of sorted pieces, parents before children, each at the first place that fits.
class Builder {
  public:
    explicit Builder(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {
        add_block();
        next_[0] = previous_[0] = 0;
        for (std::size_t place = 1; place < TrieTable::BLOCK; ++place) taken_[place] = true;
    }

    std::vector<std::uint64_t> build() {
        std::vector<Node> open{{0, 0, 0, pieces_.size()}};
        while (!open.empty()) {
            const Node node = open.back();
            open.pop_back();
            place_children(node, open);
        }
        return std::move(units_);
    }

  private:
    // The node at a unit, and the pieces that go through it: [first, last), equal up to `depth`.
    struct Node {
        std::size_t unit;
        std::size_t depth;
        std::size_t first;
        std::size_t last;
    };
    static constexpr std::size_t TRIES = 64; // then a new block is begun

    void place_children(Node node, std::vector<Node> &open) {
        if (node.first < node.last && pieces_[node.first].text.size() == node.depth) {
            auto &unit = units_[node.unit];
            unit = (unit & ~(TrieTable::NO_PIECE << TrieTable::ID_SHIFT)) |
                   static_cast<std::uint64_t>(pieces_[node.first].id) << TrieTable::ID_SHIFT;
            while (node.first < node.last && pieces_[node.first].text.size() == node.depth)
                ++node.first;
        }
        if (node.first == node.last) return;
        auto &bytes = bytes_;
        bytes.clear();
        const std::size_t children = open.size();
        for (std::size_t at = node.first; at < node.last; ++at) {
            const auto byte = static_cast<unsigned char>(pieces_[at].text[node.depth]);
            if (bytes.empty() || bytes.back() != byte) {
                bytes.push_back(byte);
                open.push_back({0, node.depth + 1, at, at});
            }
            open.back().last = at + 1;
        }
        const std::size_t base = free_base(bytes);
        used_[base] = true;
        units_[node.unit] |= static_cast<std::uint64_t>(base) << TrieTable::BASE_SHIFT;
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            const std::size_t unit = base ^ bytes[i];
            take(unit);
            units_[unit] = TrieTable::NO_PIECE << TrieTable::ID_SHIFT | bytes[i];
            open[children + i].unit = unit;
        }
    }

    std::size_t free_base(const std::vector<unsigned char> &bytes) {
        const auto fits = [&](std::size_t base) {
            return !used_[base] &&
                   std::none_of(bytes.begin(), bytes.end(),
                                [&](unsigned char byte) { return taken_[base ^ byte]; });
        };
        std::size_t tries = 0;
        for (std::size_t place = next_[0]; place != 0 && tries < TRIES; place = next_[place]) {
            const std::size_t base = place ^ bytes.front();
            if (fits(base)) return base;
            // What stands in the way of many is passed over from now on.
            if (++tries == TRIES) drop_before(place);
        }
        const std::size_t block = units_.size();
        add_block();
        return block;
    }

    void add_block() {
        const std::size_t size = units_.size();
        if (size + TrieTable::BLOCK > TrieTable::BASE_LIMIT)
            throw UnsupportedError("the native core takes tries of less than 2^28 units");
        units_.resize(size + TrieTable::BLOCK, TrieTable::FREE);
        taken_.resize(units_.size());
        used_.resize(units_.size());
        next_.resize(units_.size());
        previous_.resize(units_.size());
        if (size == 0) return;
        for (std::size_t place = size; place < units_.size(); ++place) append(place);
    }

    // The free places form a ring through place 0, the root's.
    void append(std::size_t place) {
        const std::size_t last = previous_[0];
        next_[last] = previous_[0] = static_cast<std::uint32_t>(place);
        previous_[place] = static_cast<std::uint32_t>(last);
        next_[place] = 0;
    }

    void unlink(std::size_t place) {
        if (next_[place] == place) return; // dropped before
        next_[previous_[place]] = next_[place];
        previous_[next_[place]] = previous_[place];
        next_[place] = static_cast<std::uint32_t>(place);
    }

    void take(std::size_t place) {
        taken_[place] = true;
        unlink(place);
    }

    void drop_before(std::size_t end) {
        while (next_[0] != end) unlink(next_[0]);
    }

    std::vector<Piece> pieces_;
    std::vector<unsigned char> bytes_; // of a node's children
    std::vector<std::uint64_t> units_;
    std::vector<bool> taken_;
    std::vector<bool> used_; // as a base
    std::vector<std::uint32_t> next_;
    std::vector<std::uint32_t> previous_;
};

} // namespace

std::vector<std::uint64_t> build_trie(const PieceTable &pieces, std::string_view listed) {
    if (pieces.size() >= TrieTable::NO_PIECE)
        throw UnsupportedError("the native core takes tries of less than 2^27 pieces");
    std::vector<Piece> sorted;
    for (std::size_t number = 0; number < pieces.size(); ++number)
        if (is_listed(listed, number) && !pieces[number].empty())
            sorted.emplace_back(pieces[number], static_cast<std::uint32_t>(number));
    std::sort(sorted.begin(), sorted.end());
    return Builder(std::move(sorted)).build();
}

} // namespace mtkit
