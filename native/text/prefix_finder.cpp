#include "text/prefix_finder.hpp"

namespace mtkit {

void PrefixFinder::build(std::vector<Entry> entries, bool first_listed) {
    std::erase_if(entries, [](const Entry &e) { return e.text.empty(); });
    std::stable_sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
        return std::lexicographical_compare(a.text.rbegin(), a.text.rend(), b.text.rbegin(),
                                            b.text.rend());
    });
    entries_ = std::move(entries);
    for (const auto &e : entries_) {
        first_[static_cast<unsigned char>(e.text[0])] = true;
        if (e.text.size() > 1)
            pairs_.set(pair(e.text[0], e.text[1]));
        else
            for (std::size_t i = 0; i < 256; ++i) pairs_.set(pair(e.text[0], static_cast<char>(i)));
        longest_ = std::max(longest_, e.text.size());
    }
    only_ = std::count(first_.begin(), first_.end(), true) == 1;

    struct Behind { // the entries that end with what a node has
        std::uint32_t first;
        std::uint32_t last;
    };
    std::vector<Behind> level{{0, static_cast<std::uint32_t>(entries_.size())}};
    std::vector<Behind> next;
    const auto size = [this] { return static_cast<std::uint32_t>(nodes_.size()); };
    nodes_.assign(1, {0, 0, NOTHING, 0});
    std::uint32_t node = 0;
    for (std::size_t depth = 0; !level.empty(); ++depth, level.swap(next), next.clear()) {
        for (auto [first, last] : level) {
            const std::uint32_t fail = nodes_[node].fail;
            std::uint32_t found = nodes_[fail].entry; // of a level that is complete
            std::uint32_t rest = first;
            while (rest < last && entries_[rest].text.size() == depth) ++rest;
            for (std::uint32_t own = rest; own-- > first;) {
                entries_[own].shorter = found;
                if (!first_listed || found == NOTHING ||
                    entries_[own].number < entries_[found].number)
                    found = own;
            }
            nodes_[node].entry = found;
            nodes_[node].longer = size();
            while (rest < last) {
                const auto byte_of = [&](std::uint32_t at) {
                    return entries_[at].text.rbegin()[static_cast<std::ptrdiff_t>(depth)];
                };
                const char byte = byte_of(rest);
                Behind child{rest, rest};
                while (child.last < last && byte_of(child.last) == byte) ++child.last;
                next.push_back(child);
                rest = child.last;
                const std::uint32_t shorter = node == 0 ? 0 : step(fail, byte);
                if (node == 0) from_root_[static_cast<unsigned char>(byte)] = size();
                nodes_.push_back({0, shorter, NOTHING, byte});
            }
            ++node;
        }
    }
    nodes_.push_back({size(), 0, NOTHING, 0});
}

} // namespace mtkit
