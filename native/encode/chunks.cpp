// Which seams a program has: its steps say whether there are any, a look at what they do to each
// character of ASCII says the rest.
#include "encode/chunks.hpp"

#include <algorithm>
#include <vector>

#include "base/scratch_lease.hpp"
#include "steps/seams.hpp"
#include "text/alignment.hpp"
#include "walk.hpp"

namespace mtkit {

namespace {

constexpr std::array<bool, 256> every(std::size_t first, std::size_t last, bool value) {
    std::array<bool, 256> out{};
    for (std::size_t i = first; i <= last; ++i) out[i] = value;
    return out;
}

// First bytes of characters that are letters or ideographs all through: nothing that joins what is
// beside it, no blank, no control (U+00C0 to U+02FF, U+0380 to U+047F, U+5000 to U+9FFF).
std::array<bool, 256> plain() {
    auto out = every(0xC3, 0xCB, true);
    for (std::size_t byte = 0xCE; byte <= 0xD1; ++byte) out[byte] = true;
    for (std::size_t byte = 0xE5; byte <= 0xE9; ++byte) out[byte] = true;
    return out;
}

} // namespace

std::vector<std::string> Engine::ask_steps(std::string_view text, Arena &arena,
                                           const Scratch &scratch) const {
    std::vector<std::string> words;
    arena.begin(text.size());
    try {
        words_of({text, nullptr, {0, 0}, true, true}, arena, scratch,
                 [&](std::string_view word, const Extent *) { words.emplace_back(word); });
    } catch (const NeedsExtents &) {
        words.clear();
    }
    arena.reset();
    return words;
}

Chunks::Fate Engine::find_fate(std::string_view character, const Chunks &how, Arena &arena,
                               const Scratch &scratch) const {
    // Between letters, at both ends of a word, and alone: "x xcx cx xc c x" becomes the words
    // ▁x ▁xcx ▁cx ▁xc ▁c ▁x where `c` is a letter. U+2581 has no fate where a word that begins with
    // it gets no other mark in front.
    const std::string here(character);
    const auto words =
        ask_steps("x x" + here + "x " + here + "x x" + here + " " + here + " x", arena, scratch);
    const auto follow = [&words](const std::vector<std::string> &expected) {
        return std::equal(words.begin() + 1, words.end(), expected.begin(), expected.end());
    };
    if (words.size() < 3) return {};
    const auto front = how.before + "x";
    if (follow({front, front, front, front, front})) return {Chunks::BLANK, Chunks::Image::blank()};
    const auto own = words[words.size() - 2];
    const auto spelled = own.starts_with(how.before) ? own.substr(how.before.size()) : "";
    const Chunks::Image image{std::string_view(spelled)};
    if (image.is_none()) return {};
    if (follow({front + spelled + "x", own + "x", front + spelled, own, front}))
        return {Chunks::WORD, image};
    if (follow({front, own, front, own, front, front, own, own, front}))
        return {Chunks::SOLO, image};
    return {};
}

Chunks::Image Engine::find_image(std::string_view character, const Chunks &how,
                                 Scratch &scratch) const {
    const char32_t value = decode(character, 0).value;
    if (!how.removed || (normalizer_ && !normalizer_->takes_alone(value)) ||
        (pre_tokenizer_ && !pre_tokenizer_->takes_alone()))
        return {};
    const auto fate = find_fate(character, how, scratch.arena_of_chunk, scratch);
    return fate.kind == Chunks::SOLO ? Chunks::Image() : fate.image;
}

std::vector<Engine::PlacedWord> Engine::ask_places(std::string_view text, Arena &arena,
                                                   const Scratch &scratch) const {
    std::vector<PlacedWord> words;
    arena.begin(text.size());
    try {
        Part part{text, own_bytes(text, 0, arena.fresh_extents()), {0, 0}, true, true};
        part.origin = {0, static_cast<std::uint32_t>(text.size())};
        words_of(part, arena, scratch, [&](std::string_view word, const Extent *extents) {
            words.push_back({std::string(word), {extents, extents + word.size()}});
        });
    } catch (const Deferred &) {
        words.clear();
    }
    arena.reset();
    return words;
}

Chunks::Image Engine::find_placed_image(std::string_view character, const Chunks &how,
                                        Scratch &scratch) const {
    const auto byte = static_cast<unsigned char>(character[0]);
    const auto image = byte < 0x80 ? how.image[byte] : find_image(character, how, scratch);
    if (image.is_none()) return {};
    // Between letters, at both ends of a word, and alone.
    const std::string here(character);
    const std::string text = "x x" + here + "x  " + here + "x x" + here + " " + here + " x";
    std::vector<PlacedWord> wanted(1);
    const auto end_word = [&] {
        if (!wanted.back().text.empty()) wanted.emplace_back();
    };
    for (std::size_t at = 0; at < text.size();) {
        const bool asked = text.compare(at, here.size(), here) == 0;
        const std::size_t size = asked ? here.size() : 1;
        const bool solo = asked && how.kind[byte] == Chunks::SOLO;
        if (solo) end_word();
        if (asked ? image.is_blank() : text[at] == ' ') {
            end_word();
        } else {
            auto &[word, places] = wanted.back();
            if (word.empty()) word = how.before;
            word += asked ? image.text() : "x";
            places.resize(word.size(),
                          {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + size)});
        }
        if (solo) end_word();
        at += size;
    }
    const auto words = ask_places(text, scratch.arena_of_chunk, scratch);
    // The first word stands at the start of the text, where other rules may hold.
    const bool same = !words.empty() &&
                      std::equal(words.begin() + 1, words.end(), wanted.begin() + 1, wanted.end());
    return same ? image : Chunks::Image();
}

const Chunks *Engine::make_chunks() const {
    return chunks_.make([this]() -> std::unique_ptr<Chunks> {
        Seams seams;
        if (normalizer_ && !normalizer_->keeps(seams)) return nullptr;
        if (pre_tokenizer_ && !pre_tokenizer_->keeps(seams)) return nullptr;
        const bool at_marks = !seams.removed && !seams.marked;
        if (at_marks && (!cut_at_marks_ || seams.blank != MARK)) return nullptr;

        ScratchLease lease(*this);
        Scratch &scratch = *lease;
        scratch.model.whole_characters = true;
        Arena arena;
        const auto ask = [&](std::string_view text) { return ask_steps(text, arena, scratch); };
        // A letter that ends a word in front of a blank.
        const std::string letter = "x";
        if (at_marks && split_points_.crossed('x')) return nullptr;
        const auto alone = ask(letter);
        const auto twice = ask("x x");
        const auto is_ours = [&](const std::string &word) { return word.ends_with(letter); };
        if (alone.size() != 1 || twice.size() != 2 || twice[0] != alone[0] || !is_ours(twice[0]) ||
            !is_ours(twice[1]))
            return nullptr;
        // It stays itself beside another: characters are asked about between such letters.
        if (ask("xx x") != std::vector{alone[0] + letter, twice[1]} ||
            ask("x xx") != std::vector{alone[0], twice[1] + letter})
            return nullptr;

        auto made = std::make_unique<Chunks>();
        made->removed = seams.removed;
        made->first = seams.first;
        made->last = seams.last;
        made->clusters = seams.clusters;
        made->head = seams.removed ? "x " : "x";
        made->tail = " x";
        made->before = seams.removed ? twice[1].substr(0, twice[1].size() - 1) : std::string();
        made->images = seams.known && (!seams.marked || seams.removed);
        made->placed = made->images && seams.removed && aligns();
        if (made->images && seams.removed) {
            made->kept = ALL_PAGES;
            if (normalizer_) normalizer_->keep_pages(made->kept);
            if (pre_tokenizer_) pre_tokenizer_->keep_pages(made->kept);
            for (unsigned byte = 0xE0; byte < 0xF0; ++byte)
                made->kept_row[byte] = made->kept.has_row(static_cast<unsigned char>(byte));
        }
        for (unsigned c = 1; c < 0x80; ++c) {
            if (!seams.free[c]) {
                made->left[c] = seams.left[c] && seams.removed;
                continue;
            }
            const char here = static_cast<char>(c);
            auto &kind = made->kind[c];
            auto &image = made->image[c];
            if (seams.removed) {
                const auto fate = find_fate({&here, 1}, *made, arena, scratch);
                const bool cuts = fate.kind == Chunks::SOLO || fate.kind == Chunks::BLANK;
                const bool allowed = fate.kind != Chunks::SOLO || (seams.alone && seams.known);
                // A mark may make a word's character of what cuts words; where a step in between
                // adds to what stands beside a blank, it has no fate.
                if (allowed && !(cuts && seams.joins[c])) {
                    kind = fate.kind;
                    image = fate.image;
                }
                made->left[c] = seams.left[c] && (kind != Chunks::OTHER || !seams.known);
                continue;
            }
            const auto words = ask(letter + here + letter);
            const auto &front = alone[0];
            if (words.size() == 1 && words[0].starts_with(front) && is_ours(words[0])) {
                const std::size_t size = words[0].size() - front.size();
                if (size > 0) image = Chunks::Image(words[0].substr(front.size(), size - 1));
                if (!image.is_none()) kind = Chunks::WORD;
            } else if (c == ' ' && !seams.joins[c] && words.size() == 2 && words[0] == twice[0]) {
                image = Chunks::Image(words[1].substr(0, words[1].size() - 1));
                if (!image.is_none()) kind = Chunks::BLANK;
            }
            const bool itself = image.text() == std::string_view(&here, 1);
            made->left[c] = seams.left[c] && itself && c > ' ' &&
                            !(at_marks && split_points_.crossed(static_cast<unsigned char>(c)));
        }
        if (made->kind[' '] != Chunks::BLANK) return nullptr;
        bool crossed = false;
        for (unsigned byte = 0x80; byte < 0x100; ++byte)
            crossed = crossed || split_points_.crossed(static_cast<unsigned char>(byte));
        if (seams.removed && !seams.clusters)
            made->wide = every(0xC2, 0xF4, true);
        else if (seams.wide && (seams.removed || !(seams.changes || (at_marks && crossed))))
            made->wide = plain();
        for (unsigned byte = 0xE5; byte <= 0xE9 && seams.han && seams.removed; ++byte)
            made->kind[byte] = Chunks::HAN;
        for (unsigned c = 'a'; c <= 'z'; ++c)
            made->letters = made->letters && made->kind[c] == Chunks::WORD &&
                            made->kind[c - 'a' + 'A'] == Chunks::WORD;
        if (seams.removed) made->masks = set_masks();
        constexpr Chunks::Kind IN_SETS[BYTE_SETS] = {Chunks::WORD, Chunks::SOLO, Chunks::BLANK};
        for (unsigned c = 0; c < 0x80; ++c)
            for (std::size_t set = 0; set < BYTE_SETS; ++set)
                if (made->kind[c] == IN_SETS[set])
                    made->sets.put(set, static_cast<unsigned char>(c));
        return made;
    });
}

const Chunks *Engine::find_chunks(std::size_t size, Scratch &scratch) const {
    if (!in_chunks_ || !scratch.model.whole_characters) return nullptr;
    if (const auto *ready = chunks_.get()) return ready;
    scratch.seen += size + 64;
    return scratch.seen < SOME ? nullptr : make_chunks();
}

} // namespace mtkit
