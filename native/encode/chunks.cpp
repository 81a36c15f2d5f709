// Which seams a program has: its steps say whether there are any, a look at what they do to each
// character of ASCII says the rest.
#include "encode/chunks.hpp"

#include <vector>

#include "base/scratch_lease.hpp"
#include "steps/seams.hpp"
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
    words_of({text, nullptr, {0, 0}, true, true}, arena, scratch,
             [&](std::string_view word, const Extent *) { words.emplace_back(word); });
    arena.reset();
    return words;
}

Chunks::Image Engine::find_image(std::string_view character, const Chunks &how,
                                 Scratch &scratch) const {
    const char32_t value = decode(character, 0).value;
    Chunks::Image image;
    if (!how.removed || (normalizer_ && !normalizer_->takes_alone(value)) ||
        (pre_tokenizer_ && !pre_tokenizer_->takes_alone()))
        return image;
    // Between letters, at both ends of a word, and as one.
    const std::string here(character);
    const auto words = ask_steps("x x" + here + "x " + here + "x x" + here + " " + here + " x",
                                 scratch.arena_of_chunk, scratch);
    if (words.size() != 6) return image;
    const auto front = how.before + "x";
    if (std::all_of(words.begin() + 1, words.end(), [&](const auto &w) { return w == front; }))
        return Chunks::IS_BLANK;
    if (!words[1].starts_with(front) || !words[1].ends_with('x')) return image;
    const auto spelled = words[1].substr(front.size(), words[1].size() - front.size() - 1);
    const std::vector expected{front + spelled + "x", how.before + spelled + "x", front + spelled,
                               how.before + spelled, front};
    if (!std::equal(expected.begin(), expected.end(), words.begin() + 1)) return image;
    if (spelled.size() > sizeof image.bytes) return image;
    image.size = static_cast<std::uint8_t>(spelled.size());
    std::ranges::copy(spelled, image.bytes);
    return image;
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

        auto made = std::make_unique<Chunks>();
        made->removed = seams.removed;
        made->first = seams.first;
        made->last = seams.last;
        made->clusters = seams.clusters;
        made->head = seams.removed ? "x " : "x";
        made->tail = " x";
        made->before = seams.removed ? twice[1].substr(0, twice[1].size() - 1) : std::string();
        made->images = seams.known && (!seams.marked || seams.removed);
        if (made->images && seams.removed) {
            made->kept = ALL_PAGES;
            if (normalizer_) normalizer_->keep_pages(made->kept);
            if (pre_tokenizer_) pre_tokenizer_->keep_pages(made->kept);
            for (unsigned byte = 0xE0; byte < 0xF0; ++byte)
                made->kept_row[byte] = made->kept.has_row(static_cast<unsigned char>(byte));
        }
        const auto front = alone[0].substr(0, alone[0].size() - 1);
        // Whether a character beside a blank is what it is between letters.
        const auto alike = [&](Chunks::Kind kind, const Chunks::Image &image, unsigned c) {
            const std::string here(1, static_cast<char>(c));
            const std::string spelled(image.bytes, image.size);
            const std::string own = made->before + spelled;
            switch (kind) {
            case Chunks::BLANK:
                return ask("x " + here + "x" + here + " x") ==
                       std::vector{twice[0], twice[1], twice[1]};
            case Chunks::SOLO:
                return ask("x " + here + " x " + here + "x" + here + " x") ==
                       std::vector{twice[0], own, twice[1], own, twice[1], own, twice[1]};
            case Chunks::WORD:
                return ask("x " + here + " x " + here + "x x" + here + " x") ==
                       std::vector{twice[0],           own,     twice[1], own + letter,
                                   twice[1] + spelled, twice[1]};
            default:
                return true;
            }
        };
        for (unsigned c = 1; c < 0x80; ++c) {
            if (!seams.free[c]) {
                made->left[c] = seams.left[c] && seams.removed;
                continue;
            }
            const auto words = ask(letter + static_cast<char>(c) + letter);
            auto &image = made->image[c];
            const auto set_image = [&](std::string_view text) {
                image.size = static_cast<std::uint8_t>(text.size());
                if (text.empty() || text.size() > sizeof image.bytes) image.size = 0;
                std::copy_n(text.begin(), image.size, image.bytes);
            };
            const bool framed = !words.empty() && words[0].starts_with(front + letter);
            if (words.size() == 1 && framed && is_ours(words[0])) {
                const std::size_t from = front.size() + 1;
                const std::size_t size = words[0].size() - from;
                if (size > 0) set_image(std::string_view(words[0]).substr(from, size - 1));
                if (image.size != 0) made->kind[c] = Chunks::WORD;
            } else if (seams.removed && words.size() == 2 && words == twice) {
                made->kind[c] = Chunks::BLANK;
            } else if (seams.removed && words.size() == 3 && seams.alone && seams.known &&
                       words[0] == twice[0] && words[2] == twice[1] &&
                       words[1].starts_with(made->before)) {
                set_image(std::string_view(words[1]).substr(made->before.size()));
                if (image.size != 0) made->kind[c] = Chunks::SOLO;
            } else if (!seams.removed && c == ' ' && words.size() == 2 && words[0] == twice[0]) {
                set_image(std::string_view(words[1]).substr(0, words[1].size() - 1));
                if (image.size != 0) made->kind[c] = Chunks::BLANK;
            }
            // A mark may make a word's character of what cuts words; a step in between may add to
            // what stands beside a blank: such a character asks for its neighbours.
            const bool cuts = made->kind[c] == Chunks::SOLO || made->kind[c] == Chunks::BLANK;
            if ((cuts && seams.joins[c]) || (seams.removed && !alike(made->kind[c], image, c))) {
                made->kind[c] = Chunks::OTHER;
                image.size = 0;
            }
            const bool known = made->kind[c] != Chunks::OTHER || (!seams.known && !words.empty());
            made->left[c] = seams.left[c] && known;
            if (seams.removed) continue;
            const bool itself = image.size == 1 && image.bytes[0] == static_cast<char>(c);
            made->left[c] = made->left[c] && itself && c > ' ' &&
                            !(at_marks && split_points_.crossed(static_cast<unsigned char>(c)));
        }
        if (made->kind[' '] != Chunks::BLANK) return nullptr;
        for (unsigned c = 0; c < 0x80 && seams.removed; ++c)
            if (made->kind[c] == Chunks::BLANK) made->image[c] = Chunks::IS_BLANK;
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
