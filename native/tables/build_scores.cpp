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
    // A sum tells of most vocabularies, soon.
    const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
    if (std::isnan(sum) && std::ranges::any_of(scores, [](double s) { return std::isnan(s); }))
        throw UnsupportedError("the core compares numbers alone");
}

// Highest first. Pieces mostly are in this order, but for a few: runs of them are merged.
void sort(std::vector<double> &scores) {
    constexpr std::size_t FEW = 64;
    std::vector<std::size_t> starts{0};
    for (std::size_t i = 1; i < scores.size() && starts.size() <= FEW; ++i)
        if (scores[i] > scores[i - 1]) starts.push_back(i);
    if (starts.size() > FEW) {
        std::sort(scores.begin(), scores.end(), std::greater<>());
        return;
    }
    const auto place = [&](std::size_t run) {
        const auto at = run < starts.size() ? starts[run] : scores.size();
        return scores.begin() + static_cast<std::ptrdiff_t>(at);
    };
    for (std::size_t width = 1; width < starts.size(); width *= 2)
        for (std::size_t run = 0; run + width < starts.size(); run += 2 * width)
            std::inplace_merge(place(run), place(run + width), place(run + 2 * width),
                               std::greater<>());
}

} // namespace

std::vector<std::uint32_t> build_ranks(std::span<const double> scores, const double *floor) {
    check(scores);
    std::vector<double> order(scores.begin(), scores.end());
    sort(order);
    order.erase(std::unique(order.begin(), order.end()), order.end());
    std::vector<std::uint32_t> out;
    out.reserve(scores.size());
    auto at = order.begin();
    for (const double score : scores) {
        if (at != order.end() && *at > score) ++at;
        if (at == order.end() || *at != score)
            at = std::lower_bound(order.begin(), order.end(), score, std::greater<>());
        const bool made = floor == nullptr || score > *floor;
        out.push_back(made ? static_cast<std::uint32_t>(at - order.begin()) : NONE);
    }
    return out;
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
