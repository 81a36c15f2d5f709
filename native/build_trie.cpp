#include "trie.hpp"

namespace mtkit {

namespace {

constexpr std::size_t NODE_LIMIT = 1U << 24;

class Builder {
  public:
    Builder() : slots_(1U << 12) {}

    std::uint32_t child(std::uint32_t node, char byte) {
        const std::uint64_t key =
            (static_cast<std::uint64_t>(node) << 8) | static_cast<unsigned char>(byte);
        const std::size_t mask = slots_.size() - 1;
        std::size_t at = TrieTable::place(key) & mask;
        for (; static_cast<std::uint32_t>(slots_[at]) != 0; at = (at + 1) & mask)
            if (slots_[at] >> 32 == key) return static_cast<std::uint32_t>(slots_[at]) - 1;
        if (nodes_ == NODE_LIMIT)
            throw UnsupportedError("the native core takes tries of less than 2^24 nodes");
        const auto made = static_cast<std::uint32_t>(nodes_++);
        slots_[at] = (key << 32) | (made + 1);
        if (2 * nodes_ > slots_.size()) grow();
        return made;
    }

    std::vector<std::uint64_t> slots_;
    std::size_t nodes_ = 1;

  private:
    void grow() {
        std::vector<std::uint64_t> old(2 * slots_.size());
        old.swap(slots_);
        const std::size_t mask = slots_.size() - 1;
        for (const auto slot : old) {
            if (static_cast<std::uint32_t>(slot) == 0) continue;
            std::size_t at = TrieTable::place(slot >> 32) & mask;
            while (slots_[at] != 0) at = (at + 1) & mask;
            slots_[at] = slot;
        }
    }
};

} // namespace

TrieSlots build_trie(const PieceTable &pieces, const std::vector<bool> &listed) {
    Builder builder;
    TrieSlots out;
    out.ids.push_back(NONE);
    for (std::size_t number = 0; number < pieces.size(); ++number) {
        if (!listed.empty() && !listed[number]) continue;
        const auto piece = pieces[number];
        if (piece.empty()) continue;
        std::uint32_t node = 0;
        for (const char byte : piece) node = builder.child(node, byte);
        out.ids.resize(builder.nodes_, NONE);
        if (out.ids[node] == NONE) out.ids[node] = static_cast<std::uint32_t>(number);
    }
    out.slots = std::move(builder.slots_);
    return out;
}

} // namespace mtkit
