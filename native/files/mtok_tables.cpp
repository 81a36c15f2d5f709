#include "files/mtok_tables.hpp"

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_set>

#include "base/errors.hpp"
#include "base/reader.hpp"

namespace mtkit {
namespace {

constexpr std::uint32_t RANK_LIMIT = 1'000'000'000;
constexpr std::size_t MERGE_BYTES = 12;
constexpr std::uint32_t ABSENT = std::numeric_limits<std::uint32_t>::max();

// For each place, whether bisection for what stands there ends at that place.
template <typename Key> std::vector<bool> found_places(const std::vector<Key> &keys) {
    bool sorted = true;
    for (std::size_t i = 1; i < keys.size() && sorted; ++i) sorted = keys[i - 1] < keys[i];
    std::vector<bool> found(keys.size(), sorted);
    if (sorted) return found;
    for (const auto &key : keys) {
        std::size_t low = 0;
        std::size_t left = keys.size();
        while (left > 0) {
            const std::size_t half = left / 2;
            if (keys[low + half] < key) {
                low += half + 1;
                left -= half + 1;
            } else {
                left = half;
            }
        }
        if (low < keys.size() && keys[low] == key) found[low] = true;
    }
    return found;
}

[[noreturn]] void ends_early(const char *field, std::size_t entry, std::uint64_t count,
                             std::size_t at) {
    throw FormatError("the file ends in entry " + std::to_string(entry) + " of " +
                          std::to_string(count),
                      field, at);
}

} // namespace

MtokVocab parse_mtok_vocab(std::span<const std::byte> data, std::size_t offset, std::uint64_t count,
                           bool with_score) {
    auto reader = reader_at(data, offset, "vocabulary");
    const std::size_t behind = with_score ? 12 : 4;
    if (count > reader.left() / (2 + behind)) ends_early("vocabulary", 0, count, offset);
    const auto size = static_cast<std::size_t>(count);
    std::vector<std::string_view> tokens;
    std::vector<std::uint32_t> ids;
    std::vector<std::uint32_t> place_of(size, ABSENT);
    std::vector<double> scores;
    tokens.reserve(size);
    ids.reserve(size);
    if (with_score) scores.reserve(size);
    std::size_t total = 0;
    for (std::size_t entry = 0; entry < size; ++entry) {
        const std::size_t at = offset + reader.offset();
        if (reader.left() < 2) ends_early("vocabulary", entry, count, at);
        const auto length = reader.scalar<std::uint16_t>("vocabulary");
        if (reader.left() < length + behind) ends_early("vocabulary", entry, count, at);
        tokens.push_back(reader.text(length, "vocabulary"));
        ids.push_back(reader.scalar<std::uint32_t>("vocabulary"));
        if (with_score) scores.push_back(reader.scalar<double>("vocabulary"));
        const std::uint32_t id = ids.back();
        if (id >= size)
            throw FormatError(std::to_string(id) + " is outside the " + std::to_string(count) +
                                  " ids of the vocabulary",
                              "token id", at);
        if (place_of[id] != ABSENT)
            throw FormatError(std::to_string(id) + " is given twice", "token id", at);
        place_of[id] = static_cast<std::uint32_t>(entry);
        total += length;
    }
    MtokVocab vocab;
    vocab.end = offset + reader.offset();
    if (total > std::numeric_limits<std::uint32_t>::max())
        throw FormatError("has pieces of 4 GiB or more", "vocabulary", offset);
    vocab.blob.reserve(total);
    vocab.ends.reserve(size);
    if (with_score) vocab.scores.reserve(size);
    for (const std::uint32_t place : place_of) {
        vocab.blob += tokens[place];
        vocab.ends.push_back(static_cast<std::uint32_t>(vocab.blob.size()));
        if (with_score) vocab.scores.push_back(scores[place]);
    }
    const auto found = found_places(tokens);
    for (std::size_t place = 0; place < size; ++place)
        if (!found[place]) vocab.hidden.push_back(ids[place]);
    std::sort(vocab.hidden.begin(), vocab.hidden.end());
    return vocab;
}

MtokMerges parse_mtok_merges(std::span<const std::byte> data, std::size_t offset,
                             std::uint64_t count, const PieceTable &pieces,
                             std::span<const std::uint32_t> hidden) {
    auto reader = reader_at(data, offset, "merges");
    if (count > reader.left() / MERGE_BYTES) ends_early("merges", 0, count, offset);
    std::vector<std::uint64_t> keys;
    std::vector<std::uint32_t> ranks;
    keys.reserve(static_cast<std::size_t>(count));
    ranks.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) {
        const auto left = reader.scalar<std::uint32_t>("merges");
        const auto right = reader.scalar<std::uint32_t>("merges");
        keys.push_back(std::uint64_t{left} << 32 | right);
        ranks.push_back(reader.scalar<std::uint32_t>("merges"));
    }
    const auto found = found_places(keys);
    std::vector<std::size_t> kept;
    for (std::size_t place = 0; place < keys.size(); ++place)
        if (found[place] && ranks[place] < RANK_LIMIT) kept.push_back(place);
    std::stable_sort(kept.begin(), kept.end(),
                     [&](std::size_t a, std::size_t b) { return ranks[a] < ranks[b]; });
    pieces.require_inside();
    std::vector<bool> listed(pieces.size(), true);
    for (const std::uint32_t id : hidden)
        if (id < listed.size()) listed[id] = false;
    std::unordered_set<std::string_view> known;
    known.reserve(pieces.size());
    for (std::size_t id = 0; id < pieces.size(); ++id)
        if (listed[id]) known.insert(pieces[id]);

    MtokMerges merges;
    merges.regular = true;
    std::string joined;
    for (const std::size_t place : kept) {
        const auto left = static_cast<std::uint32_t>(keys[place] >> 32);
        const auto right = static_cast<std::uint32_t>(keys[place]);
        if (!merges.ranks.empty() && merges.ranks.back() == ranks[place]) merges.regular = false;
        merges.pairs.push_back(left);
        merges.pairs.push_back(right);
        merges.ranks.push_back(ranks[place]);
        if (left >= pieces.size() || right >= pieces.size()) {
            merges.regular = false;
        } else if (merges.regular) {
            joined.assign(pieces[left]);
            joined += pieces[right];
            if (!known.contains(joined)) merges.regular = false;
        }
    }
    return merges;
}

} // namespace mtkit
