#include "files/merge_lines.hpp"

#include <unordered_map>
#include <unordered_set>

#include "base/errors.hpp"
#include "base/hash.hpp"

namespace mtkit {

namespace {

struct LineHash {
    std::size_t operator()(std::string_view text) const { return hash_bytes(text); }
    std::size_t operator()(std::uint64_t pair) const { return mix(pair * 0xE7037ED1A0B428DBULL); }
};

template <typename Take> void each_text(PackedTexts texts, const Take &take) {
    std::size_t start = 0;
    for (std::uint32_t number = 0; number < texts.ends.size(); ++number) {
        const std::size_t end = texts.ends[number];
        if (end < start || end > texts.blob.size())
            throw FormatError("ends outside the texts", "strings", number);
        take(number, texts.blob.substr(start, end - start));
        start = end;
    }
}

} // namespace

MergeLines read_merge_lines(PackedTexts lines, PackedTexts pieces) {
    std::unordered_map<std::string_view, std::uint32_t, LineHash> ids(2 * pieces.ends.size());
    each_text(pieces, [&](std::uint32_t id, std::string_view piece) { ids.emplace(piece, id); });
    const std::size_t listed = pieces.ends.size();
    std::size_t next = listed;
    MergeLines out;
    const auto id_of = [&](std::string_view part) {
        const auto [found, added] = ids.emplace(part, static_cast<std::uint32_t>(next));
        if (added) {
            ++next;
            out.unlisted += part;
            out.unlisted_ends.push_back(static_cast<std::uint32_t>(out.unlisted.size()));
        }
        return found->second;
    };
    std::unordered_set<std::uint64_t, LineHash> seen(2 * lines.ends.size());
    std::string made;
    each_text(lines, [&](std::uint32_t, std::string_view line) {
        line = line.substr(0, line.find('\0'));
        const std::size_t at = line.find(' ', 1);
        const bool two = at != std::string_view::npos;
        const auto left = two ? line.substr(0, at) : std::string_view();
        const auto right = two ? line.substr(at + 1) : std::string_view();
        const std::uint32_t one = id_of(left);
        const std::uint32_t other = id_of(right);
        if (!seen.insert(std::uint64_t{one} << 32 | other).second) return;
        out.pairs.push_back(one);
        out.pairs.push_back(other);
        made.assign(left).append(right);
        const auto found = ids.find(std::string_view(made));
        out.whole = out.whole && found != ids.end() && found->second < listed;
    });
    out.whole = out.whole && next == listed;
    return out;
}

} // namespace mtkit
