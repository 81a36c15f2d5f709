#include <algorithm>
#include <limits>

#include "tables/build.hpp"

namespace mtkit {

namespace {

constexpr double UNKNOWN_PENALTY = 10;
constexpr double USER_DEFINED_BONUS = 0.1; // for each byte after the first
constexpr std::uint8_t ABSENT = 255;

} // namespace

std::vector<std::uint32_t> build_ranks(std::span<const double> scores, const double *floor) {
    std::vector<double> order(scores.begin(), scores.end());
    // Pieces mostly are in the order of their scores.
    if (!std::is_sorted(order.begin(), order.end(), std::greater<>()))
        std::sort(order.begin(), order.end(), std::greater<>());
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
