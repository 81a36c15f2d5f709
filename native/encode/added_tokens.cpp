#include "encode/added_tokens.hpp"

#include <algorithm>
#include <queue>
#include <tuple>

#include "text/utf8.hpp"

namespace mtkit {

namespace {

constexpr unsigned DEEPEST = 16; // groups of tokens in front of others
constexpr auto SINGLE_WORD = static_cast<std::uint8_t>(TokenFlag::SINGLE_WORD);
constexpr auto LSTRIP = static_cast<std::uint8_t>(TokenFlag::LSTRIP);
constexpr auto RSTRIP = static_cast<std::uint8_t>(TokenFlag::RSTRIP);
constexpr auto NORMALIZED = static_cast<std::uint8_t>(TokenFlag::NORMALIZED);
constexpr auto SPECIAL = static_cast<std::uint8_t>(TokenFlag::SPECIAL);
constexpr auto VANISHED = static_cast<std::uint8_t>(TokenFlag::VANISHED);

} // namespace

AddedTokens::AddedTokens(Reader &program, unsigned depth) {
    const auto match = program.scalar<std::uint8_t>("match");
    if (match > 2) throw FormatError("is " + std::to_string(match), "match");
    match_ = static_cast<Match>(match);
    parses_ = read_flag(program, "parse_special");
    space_ = CodePointSet(program);
    word_ = CodePointSet(program);
    const auto count = program.count(program.scalar<std::uint32_t>("tokens"), 9, "tokens");
    std::vector<PrefixFinder::Entry> raw;
    std::vector<PrefixFinder::Entry> late;
    for (std::size_t i = 0; i < count; ++i) {
        Token token{};
        token.id = program.scalar<std::uint32_t>("id");
        token.flags = program.scalar<std::uint8_t>("flags");
        token.text = read_text(program, "content");
        const PrefixFinder::Entry entry{token.text, static_cast<std::uint32_t>(i)};
        const bool normalized = (token.flags & NORMALIZED) != 0 && match_ != Match::LONGEST_FIRST;
        (normalized ? late : raw).push_back(entry);
        vanished_ = vanished_ || (token.flags & VANISHED) != 0;
        tokens_.push_back(token);
    }
    raw_.build(std::move(raw), match_ == Match::FIRST_LISTED);
    late_.build(std::move(late), match_ == Match::FIRST_LISTED);
    if (!read_flag(program, "first")) return;
    if (depth == DEEPEST) throw FormatError("are nested too deep", "tokens", program.offset());
    first_ = std::make_unique<AddedTokens>(program, depth + 1);
}

void AddedTokens::take_out(const Part &part, int parse_special,
                           std::vector<TextOrToken> &out) const {
    const bool parses = parse_special < 0 ? parses_ : parse_special > 0;
    const auto put = [&](const Part &piece) {
        if (match_ == Match::LONGEST_FIRST)
            one_by_one(piece, parses, out);
        else
            split(piece, raw_, parses, out);
    };
    if (!first_) {
        put(part);
        return;
    }
    std::vector<TextOrToken> pieces;
    first_->take_out(part, parse_special, pieces);
    for (const auto &piece : pieces) {
        if (piece.id != NONE)
            out.push_back(piece);
        else
            put(piece.part);
    }
}

void AddedTokens::take_out_late(const Part &part, int parse_special,
                                std::vector<TextOrToken> &out) const {
    if (vanished_ && !part.text.empty()) throw Deferred();
    if (match_ == Match::LEFTMOST_LONGEST && !late_.empty())
        split(part, late_, parse_special < 0 ? parses_ : parse_special > 0, out);
    else
        out.push_back({part.slice(0, part.text.size()), NONE});
}

bool AddedTokens::inside_word(std::string_view text, std::size_t first, std::size_t last) const {
    return (first > 0 && word_.has(decode(text, previous(text, first)).value)) ||
           (last < text.size() && word_.has(decode(text, last).value));
}

std::size_t AddedTokens::strip_left(std::string_view text, std::size_t first,
                                    std::size_t limit) const {
    while (first > limit) {
        const auto at = previous(text, first);
        if (at < limit || !space_.has(decode(text, at).value)) break;
        first = at;
    }
    return first;
}

std::size_t AddedTokens::strip_right(std::string_view text, std::size_t last,
                                     std::size_t limit) const {
    while (last < limit) {
        const auto c = decode(text, last);
        if (!space_.has(c.value)) break;
        last += c.size;
    }
    return last;
}

void AddedTokens::split(const Part &part, const PrefixFinder &finder, bool parses,
                        std::vector<TextOrToken> &out) const {
    const auto text = part.text;
    std::size_t done = 0;
    bool any = false;
    PrefixFinder::Places places(finder, text);
    std::size_t at = 0;
    while (const auto *const found = places.next(at)) {
        const Token *const best = &tokens_[found->entry->number];
        std::size_t first = found->place;
        std::size_t last = first + best->text.size();
        at = last;
        if (!parses && (best->flags & SPECIAL) != 0) continue;
        if ((best->flags & SINGLE_WORD) != 0 && inside_word(text, first, last)) continue;
        if ((best->flags & LSTRIP) != 0) first = std::max(strip_left(text, first, done), done);
        if ((best->flags & RSTRIP) != 0) last = strip_right(text, last, text.size());
        // The pipeline words the error: the token lies in space that belongs to the one before it.
        if (first > last) throw Deferred();
        if (done < first) out.push_back({part.slice(done, first), NONE});
        if (first < last) out.push_back({part.slice(first, last), best->id});
        done = last;
        any = true;
    }
    if (done < text.size() || !any) out.push_back({part.slice(done, text.size()), NONE});
}

// Each token, the longest first, is taken out of what those before it left.
void AddedTokens::one_by_one(const Part &part, bool parses, std::vector<TextOrToken> &out) const {
    const auto text = part.text;
    using Candidate = PrefixFinder::Found;
    const auto later = [](const Candidate &a, const Candidate &b) {
        if (a.entry->text.size() != b.entry->text.size())
            return a.entry->text.size() < b.entry->text.size();
        return std::tie(a.entry->number, a.place) > std::tie(b.entry->number, b.place);
    };
    // What may be taken next at each place where that is not known.
    std::priority_queue<Candidate, std::vector<Candidate>, decltype(later)> waiting(later);
    PrefixFinder::Places places(raw_, text);
    for (std::size_t at = 0; const auto *const next = places.next(at); at = next->place + 1)
        waiting.push(*next);
    std::vector<bool> taken(waiting.empty() ? 0 : text.size());
    struct Found {
        std::size_t first;
        std::size_t last;
        std::uint32_t id;
    };
    std::vector<Found> found;
    while (!waiting.empty()) {
        const auto [place, entry] = waiting.top();
        waiting.pop();
        if (taken[place]) continue;
        const auto &token = tokens_[entry->number];
        std::size_t first = place;
        std::size_t last = first + token.text.size();
        // What was taken is no shorter: it would reach over an end.
        if (taken[last - 1] || (!parses && (token.flags & SPECIAL) != 0)) {
            if (const auto *const shorter = raw_.shorter(*entry)) waiting.push({place, shorter});
            continue;
        }
        if ((token.flags & LSTRIP) != 0)
            while (first > 0) {
                const auto before = previous(text, first);
                if (taken[before] || !space_.has(decode(text, before).value)) break;
                first = before;
            }
        if ((token.flags & RSTRIP) != 0)
            while (last < text.size() && !taken[last]) {
                const auto c = decode(text, last);
                if (!space_.has(c.value)) break;
                last += c.size;
            }
        for (std::size_t i = first; i < last; ++i) taken[i] = true;
        found.push_back({first, last, token.id});
    }
    std::ranges::sort(found, {}, &Found::first);
    std::size_t done = 0;
    for (const auto &[first, last, id] : found) {
        if (done < first) out.push_back({part.slice(done, first), NONE});
        out.push_back({part.slice(first, last), id});
        done = last;
    }
    if (done < text.size() || found.empty()) out.push_back({part.slice(done, text.size()), NONE});
}

} // namespace mtkit
