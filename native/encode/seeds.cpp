#include "encode/seeds.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace mtkit {

void SeedCounter::add(std::string_view text) {
    engine_.each_word(text, [this](std::string_view word, bool part) {
        if (word.empty() || word.size() > WordCache::SHORT) return;
        key_ = word;
        key_ += static_cast<char>(part);
        ++counts_[key_];
        if (counts_.size() > MOST_COUNTED) forget_the_rare();
    });
}

void SeedCounter::forget_the_rare() {
    for (std::uint32_t count = 1; counts_.size() > MOST_COUNTED / 2; ++count)
        std::erase_if(counts_, [count](const auto &entry) { return entry.second == count; });
}

WordCache SeedCounter::most_frequent() const {
    using Entry = std::pair<std::uint32_t, std::string_view>;
    std::vector<Entry> words;
    for (const auto &[key, count] : counts_)
        if (count > 1) words.emplace_back(count, key);
    // Of equals, always the same.
    std::sort(words.begin(), words.end(), [](const Entry &left, const Entry &right) {
        return left.first != right.first ? left.first > right.first : left.second < right.second;
    });
    words.resize(std::min(words.size(), MOST_KEPT));
    WordCache out(TABLE_BYTES);
    std::vector<std::uint32_t> ids;
    for (const auto &[count, key] : words) {
        const auto word = key.substr(0, key.size() - 1);
        const bool part = key.back() != 0;
        engine_.encode_one(word, part, ids);
        if (!ids.empty() && ids.size() <= WordCache::FEW)
            out.put({word, part}, ids.data(), ids.size());
    }
    return out;
}

} // namespace mtkit
