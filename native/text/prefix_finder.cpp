#include "text/prefix_finder.hpp"

#include <tuple>

namespace mtkit {

void PrefixFinder::build(std::vector<Entry> entries) {
    std::erase_if(entries, [](const Entry &e) { return e.text.empty(); });
    std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
        return std::tie(a.text, a.number) < std::tie(b.text, b.number);
    });
    entries_ = std::move(entries);
    for (const auto &e : entries_) first_[static_cast<unsigned char>(e.text[0])] = true;
    only_ = std::count(first_.begin(), first_.end(), true) == 1;
}

} // namespace mtkit
