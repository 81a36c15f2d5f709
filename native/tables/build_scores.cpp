#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "tables/build.hpp"

namespace mtkit {

namespace {

constexpr double UNKNOWN_PENALTY = 10;
constexpr double USER_DEFINED_BONUS = 0.1; // for each byte after the first
constexpr std::uint8_t ABSENT = 255;

void check(std::span<const double> scores) {
    // Counted, not searched for: the loop has no exit, and compares several at a time.
    if (std::ranges::count_if(scores, [](double score) { return std::isnan(score); }) > 0)
        throw UnsupportedError("the core compares numbers alone");
}

// Place of each in descending order, equal ones alike.
std::vector<std::uint32_t> sorted_places(std::span<const double> scores) {
    std::vector<double> order(scores.begin(), scores.end());
    std::ranges::sort(order, std::greater<>());
    order.erase(std::unique(order.begin(), order.end()), order.end());
    std::vector<std::uint32_t> places;
    places.reserve(scores.size());
    for (const double score : scores) {
        const auto at = std::ranges::lower_bound(order, score, std::greater<>());
        places.push_back(static_cast<std::uint32_t>(at - order.begin()));
    }
    return places;
}

// The same without sorting: trainers of merges number them, 0, -1, -2 ... A few may be lower than
// that, as Llama 2's -1e9. Nothing where a score is another number.
std::vector<std::uint32_t> counted_places(std::span<const double> scores) {
    constexpr std::size_t FEW = 64;
    const double most = 2.0 * static_cast<double>(scores.size());
    std::vector<std::uint32_t> places;
    places.reserve(scores.size());
    std::vector<std::uint32_t> found(2 * scores.size() + 2); // whether a number is there
    std::uint32_t highest = 0;
    std::vector<double> low;
    for (const double score : scores) {
        if (score < -most) {
            low.push_back(score);
            if (low.size() > FEW) return {};
            places.push_back(NONE);
            continue;
        }
        if (score > 0) return {};
        const auto number = static_cast<std::uint32_t>(-score);
        if (number != -score) return {};
        highest = std::max(highest, number);
        found[number] = 1;
        places.push_back(number);
    }
    found.resize(std::size_t{highest} + 2);
    std::exclusive_scan(found.begin(), found.end(), found.begin(), 0U);
    const auto lowest = sorted_places(low);
    std::size_t next = 0;
    for (auto &place : places) place = place == NONE ? found.back() + lowest[next++] : found[place];
    return places;
}

} // namespace

std::vector<std::uint32_t> build_ranks(std::span<const double> scores, const double *floor) {
    check(scores);
    auto places = counted_places(scores);
    if (places.empty()) places = sorted_places(scores);
    for (std::size_t id = 0; floor != nullptr && id < places.size(); ++id)
        if (!(scores[id] > *floor)) places[id] = NONE;
    return places;
}

std::vector<double> build_path_scores(const PieceTable &pieces, std::span<const double> scores,
                                      std::span<const std::uint8_t> types, int user_defined,
                                      bool any) {
    check(scores);
    std::vector<double> out(pieces.size());
    double lowest = std::numeric_limits<double>::infinity();
    const auto kind = [&](std::size_t id) { return id < types.size() ? types[id] : NORMAL; };
    for (std::size_t id = 0; id < out.size(); ++id) {
        out[id] = id < scores.size() ? scores[id] : 0;
        if (any ? kind(id) == ABSENT : kind(id) != NORMAL) continue;
        lowest = std::min(lowest, out[id]);
    }
    if (lowest == std::numeric_limits<double>::infinity())
        lowest = std::numeric_limits<float>::max();
    const double unknown = lowest - UNKNOWN_PENALTY;
    for (std::size_t id = 0; id < out.size() && user_defined != 0; ++id) {
        if (kind(id) != USER_DEFINED) continue;
        const double rest = static_cast<double>(pieces[id].size()) - 1;
        const double preferred = static_cast<float>(USER_DEFINED_BONUS * rest);
        out[id] = user_defined == 2 ? preferred : 0;
    }
    out.push_back(any ? unknown : static_cast<double>(static_cast<float>(unknown)));
    return out;
}

} // namespace mtkit
