#include "files/merge_lines.hpp"

#include <unordered_map>

#include "base/hash.hpp"
#include "files/pair_set.hpp"

namespace mtkit {

namespace {

struct TextHash {
    std::size_t operator()(std::string_view text) const { return hash_bytes(text); }
};

} // namespace

MergeLines read_merge_lines(const PieceTable &lines, const PieceTable &pieces) {
    lines.require_inside();
    pieces.require_inside();
    const std::size_t listed = pieces.size();
    std::unordered_map<std::string_view, std::size_t, TextHash> ids(2 * listed);
    for (std::size_t id = 0; id < listed; ++id) ids.emplace(pieces[id], id);
    std::size_t next = listed;
    MergeLines out;
    const auto id_of = [&](std::string_view part) {
        const auto [found, added] = ids.emplace(part, next);
        if (added) {
            ++next;
            out.unlisted += part;
            out.unlisted_ends.push_back(static_cast<std::uint32_t>(out.unlisted.size()));
        }
        return static_cast<std::uint32_t>(found->second);
    };
    PairSet seen(lines.size());
    std::string made;
    for (std::size_t number = 0; number < lines.size(); ++number) {
        const auto line = lines[number].substr(0, lines[number].find('\0'));
        const std::size_t at = line.find(' ', 1);
        const bool two = at != std::string_view::npos;
        const auto left = two ? line.substr(0, at) : std::string_view();
        const auto right = two ? line.substr(at + 1) : std::string_view();
        const std::uint32_t one = id_of(left);
        const std::uint32_t other = id_of(right);
        if (!seen.add(one, other)) continue;
        out.pairs.insert(out.pairs.end(), {one, other});
        made.assign(left).append(right);
        const auto found = ids.find(std::string_view(made));
        out.whole = out.whole && found != ids.end() && found->second < listed;
    }
    out.whole = out.whole && next == listed;
    return out;
}

} // namespace mtkit
