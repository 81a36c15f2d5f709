#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <string_view>

#include "tables/trie.hpp"

namespace mtkit {

namespace {

// A piece, and its first bytes in their order, zero-filled, which tell most apart at once.
struct Key {
    std::uint64_t head;
    std::uint32_t id;
};
constexpr std::size_t HEAD = sizeof(std::uint64_t);

std::uint64_t head_of(std::string_view text) {
    std::uint64_t head = 0;
    for (std::size_t i = 0; i < HEAD; ++i)
        head = head << 8 | (i < text.size() ? static_cast<unsigned char>(text[i]) : 0U);
    return head;
}

// Sort by the heads, a byte at a time from the last one: pieces are many and short.
void sort_by_head(std::vector<Key> &keys) {
    std::vector<Key> sorted(keys.size());
    for (unsigned shift = 0; shift < 64; shift += 8) {
        const auto byte = [shift](const Key &key) { return key.head >> shift & 0xFF; };
        std::size_t places[256] = {};
        for (const auto &key : keys) ++places[byte(key)];
        std::exclusive_scan(std::begin(places), std::end(places), std::begin(places),
                            std::size_t{0});
        for (const auto &key : keys) sorted[places[byte(key)]++] = key;
        keys.swap(sorted);
    }
}

std::vector<Key> sorted_keys(const PieceTable &pieces, std::string_view listed) {
    std::vector<Key> keys;
    keys.reserve(pieces.size());
    const auto count = static_cast<std::uint32_t>(pieces.size());
    for (auto id = next_listed(listed, 0, count); id < count;
         id = next_listed(listed, id + 1, count))
        if (!pieces[id].empty()) keys.push_back({head_of(pieces[id]), id});
    sort_by_head(keys);
    const auto differs = [](const Key &left, const Key &right) { return left.head != right.head; };
    for (auto first = keys.begin(); first != keys.end();) {
        const auto found = std::adjacent_find(first, keys.end(), differs);
        const auto last = found == keys.end() ? found : found + 1;
        std::sort(first, last, [&pieces](const Key &left, const Key &right) {
            const int order = pieces[left.id].compare(pieces[right.id]);
            return order != 0 ? order < 0 : left.id < right.id;
        });
        first = last;
    }
    return keys;
}

// A bit for each place.
class Bits {
  public:
    void resize(std::size_t count) { words_.resize((count + 63) / 64); }
    void set(std::size_t at) { words_[at / 64] |= std::uint64_t{1} << (at % 64); }
    void clear(std::size_t at) { words_[at / 64] &= ~(std::uint64_t{1} << (at % 64)); }

    [[nodiscard]] std::size_t words() const { return words_.size(); }
    [[nodiscard]] std::uint64_t word(std::size_t at) const { return words_[at]; }
    // The bits of the 64 places `place ^ by` in the order of the places of a word.
    [[nodiscard]] std::uint64_t word(std::size_t at, unsigned by) const {
        std::uint64_t bits = words_[at ^ by / 64];
        constexpr std::uint64_t LOWER[] = {0x5555555555555555, 0x3333333333333333,
                                           0x0F0F0F0F0F0F0F0F, 0x00FF00FF00FF00FF,
                                           0x0000FFFF0000FFFF, 0x00000000FFFFFFFF};
        for (unsigned i = 0; i < 6; ++i) {
            // Neighbors of so many places change theirs, or do not, without a branch.
            const unsigned size = 1U << i;
            const std::uint64_t wanted = std::uint64_t{0} - (by >> i & 1U);
            const std::uint64_t differ = (bits >> size ^ bits) & LOWER[i] & wanted;
            bits ^= differ | differ << size;
        }
        return bits;
    }

  private:
    std::vector<std::uint64_t> words_;
};

// Lays out the nodes of sorted pieces, parents before children, each at the first place that fits.
class Builder {
  public:
    Builder(const PieceTable &pieces, std::vector<Key> keys)
        : pieces_(pieces), keys_(std::move(keys)) {
        add_block();
        // The root's alone: no unit is reached from a base of 0.
        for (std::size_t place = 0; place < TrieTable::BLOCK; ++place) free_.clear(place);
    }

    std::vector<std::uint64_t> build() {
        std::vector<Node> open{{0, 0, 0, keys_.size()}};
        while (!open.empty()) {
            const Node node = open.back();
            open.pop_back();
            place_children(node, open);
        }
        return std::move(units_);
    }

  private:
    // The node at a unit, and the keys that go through it: [first, last), equal up to `depth`.
    struct Node {
        std::size_t unit;
        std::size_t depth;
        std::size_t first;
        std::size_t last;
    };
    // Of 64 places each: how many with free ones are tried before a new block is begun, and how far
    // they may be apart.
    static constexpr std::size_t TRIES = 4;
    static constexpr std::size_t WINDOW = 64;

    [[nodiscard]] unsigned char byte_of(const Key &key, std::size_t depth) const {
        if (depth < HEAD) return static_cast<unsigned char>(key.head >> (8 * (HEAD - 1 - depth)));
        return static_cast<unsigned char>(pieces_[key.id][depth]);
    }
    [[nodiscard]] bool ends_at(std::size_t key, std::size_t depth) const {
        return pieces_[keys_[key].id].size() == depth;
    }

    void place_children(Node node, std::vector<Node> &open) {
        if (node.first < node.last && ends_at(node.first, node.depth)) {
            end_piece(node.unit, keys_[node.first].id);
            while (node.first < node.last && ends_at(node.first, node.depth)) ++node.first;
        }
        if (node.last - node.first <= 1) {
            if (node.first < node.last) place_rest(node);
            return;
        }
        bytes_.clear();
        const std::size_t children = open.size();
        for (std::size_t at = node.first; at < node.last; ++at) {
            const auto byte = byte_of(keys_[at], node.depth);
            if (bytes_.empty() || bytes_.back() != byte) {
                bytes_.push_back(byte);
                open.push_back({0, node.depth + 1, at, at});
            }
            open.back().last = at + 1;
        }
        const std::size_t base = place_base(node.unit);
        for (std::size_t i = 0; i < bytes_.size(); ++i)
            open[children + i].unit = place_child(base, bytes_[i]);
    }

    // The rest of the one piece that goes through a node.
    void place_rest(const Node &node) {
        const Key key = keys_[node.first];
        const std::size_t size = pieces_[key.id].size();
        std::size_t unit = node.unit;
        for (std::size_t depth = node.depth; depth < size; ++depth) {
            bytes_.assign(1, byte_of(key, depth));
            unit = place_child(place_base(unit), bytes_.front());
        }
        end_piece(unit, key.id);
    }

    void end_piece(std::size_t unit, std::uint64_t id) {
        units_[unit] = (units_[unit] & ~(TrieTable::NO_PIECE << TrieTable::ID_SHIFT)) |
                       id << TrieTable::ID_SHIFT;
    }

    // A base for children by `bytes_`.
    std::size_t place_base(std::size_t unit) {
        const std::size_t base = free_base();
        used_.set(base);
        units_[unit] |= static_cast<std::uint64_t>(base) << TrieTable::BASE_SHIFT;
        return base;
    }

    std::size_t place_child(std::size_t base, unsigned char byte) {
        const std::size_t unit = base ^ byte;
        free_.clear(unit);
        units_[unit] = TrieTable::NO_PIECE << TrieTable::ID_SHIFT | byte;
        return unit;
    }

    std::size_t free_base() {
        const unsigned first = bytes_.front();
        while (first_ < free_.words() && free_.word(first_) == 0) ++first_;
        std::size_t tries = 0;
        const std::size_t end = std::min(first_ + WINDOW, free_.words());
        for (std::size_t at = first_; at < end; ++at) {
            std::uint64_t fits = free_.word(at); // places of the first child
            if (fits == 0) continue;
            fits &= ~used_.word(at, first);
            for (std::size_t i = 1; i < bytes_.size() && fits != 0; ++i)
                fits &= free_.word(at, first ^ bytes_[i]);
            if (fits != 0)
                return (64 * at + static_cast<std::size_t>(std::countr_zero(fits))) ^ first;
            if (++tries == TRIES) break;
        }
        // What stands in the way of many is passed over from now on.
        if (tries == TRIES || end < free_.words()) ++first_;
        const std::size_t block = units_.size();
        add_block();
        return block;
    }

    void add_block() {
        const std::size_t size = units_.size();
        if (size + TrieTable::BLOCK > TrieTable::BASE_LIMIT)
            throw UnsupportedError("the native core takes tries of less than 2^28 units");
        units_.resize(size + TrieTable::BLOCK, TrieTable::FREE);
        used_.resize(units_.size());
        free_.resize(units_.size());
        for (std::size_t place = size; place < units_.size(); ++place) free_.set(place);
    }

    const PieceTable &pieces_;
    std::vector<Key> keys_;
    std::vector<unsigned char> bytes_; // of a node's children
    std::vector<std::uint64_t> units_;
    Bits free_;             // units that are no node
    Bits used_;             // as a base
    std::size_t first_ = 0; // word of `free_` from which on units are looked for
};

} // namespace

std::vector<std::uint64_t> build_trie(const PieceTable &pieces, std::string_view listed) {
    if (pieces.size() >= TrieTable::NO_PIECE)
        throw UnsupportedError("the native core takes tries of less than 2^27 pieces");
    return Builder(pieces, sorted_keys(pieces, listed)).build();
}

} // namespace mtkit
