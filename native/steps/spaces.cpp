// The normalizer of trained subword models: character map and white-space rules in one pass over
// bytes, which says where what it writes comes from.
//
// Source: google/sentencepiece, normalizer.cc; ggml-org/llama.cpp,
// llm_tokenizer_ugm_session::normalize.
#include <array>

#include "base/errors.hpp"
#include "base/reader.hpp"
#include "steps/charsmap.hpp"
#include "steps/steps.hpp"
#include "text/alignment.hpp"
#include "text/prefix_finder.hpp"
#include "text/text_map.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

// An entry has far fewer bytes; the map is only asked for what may match.
constexpr std::size_t LONGEST_ENTRY = 256;
constexpr const char *SPACES_STEP = "Spaces";

class Spaces final : public Normalizer {
  public:
    explicit Spaces(Reader &program)
        : prefix_(read_flag(program, "add_dummy_prefix")),
          remove_(read_flag(program, "remove_extra_whitespaces")),
          space_(read_flag(program, "escape_whitespaces") ? MARK : " "),
          suffix_(read_flag(program, "suffix")), paths_(read_flag(program, "keep")),
          by_word_(read_flag(program, "prefix")) {
        const auto blob = read_text(program, "charsmap");
        if (!blob.empty()) map_ = Charsmap(blob);
        const auto count = program.count(program.scalar<std::uint32_t>("kept"), 4, "kept");
        std::vector<PrefixFinder::Entry> kept;
        for (std::uint32_t i = 0; i < count; ++i) kept.push_back({read_text(program, "kept"), i});
        inert_ = map_.inert();
        wide_ = map_.without_entries();
        for (const auto &entry : kept) {
            if (entry.text.empty()) continue;
            const auto first = static_cast<unsigned char>(entry.text[0]);
            inert_[first] = false;
            wide_.remove_row(first); // a beginning that is shared counts as well, see path()
            const bool whole = valid_prefix(entry.text) == entry.text.size();
            breaks_ = breaks_ || !whole || (paths_ && !is_ascii(entry.text));
        }
        if (paths_) {
            for (const auto &entry : kept) sorted_.push_back(entry.text);
            std::ranges::sort(sorted_);
        } else {
            kept_.build(std::move(kept));
        }
    }

    void run(Part &part, Arena &arena) const override {
        if (part.text.empty() && !by_word_) return;
        TextMap map;
        const auto text = write(part.text, arena, part.extents != nullptr ? &map : nullptr);
        if (part.extents != nullptr)
            align(part, text, map, arena);
        else
            part.text = text;
    }
    bool run_mapped(Part &part, Arena &arena, TextMap &map) const override {
        part.text = write(part.text, arena, &map);
        return true;
    }
    [[nodiscard]] bool aligns() const override { return true; }
    [[nodiscard]] bool may_break_characters() const override { return breaks_; }

  private:
    // What lies behind `before` was written by a step that began at `place`.
    static void note(TextMap *map, const std::string &out, std::size_t before, std::size_t place) {
        if (map != nullptr && out.size() > before) map->add_replacement(before, place);
    }

    // Return the new text; set `map`, if given, to where it comes from.
    std::string_view write(std::string_view text, Arena &arena, TextMap *map) const {
        // To this step surrogates are bytes; no file has it beside a rule that makes them.
        if (SurrogatesAsCharacters::now()) throw Deferred();
        auto &out = arena.fresh();
        if (map != nullptr) map->clear();
        if (text.empty() && !by_word_) return out;
        if (by_word_)
            word_rule(text, out, map, arena);
        else
            text_rule(text, out, map, arena);
        arena.grow(text.size(), out.size(), SPACES_STEP);
        if (map != nullptr && out.size() > TextMap::LONGEST)
            throw UsageError("the text is too long for the places of its tokens");
        return out;
    }

    // What came out of one step stands for where that step began, up to where the next begins.
    static void align(Part &part, std::string_view written, const TextMap &map, Arena &arena) {
        const auto size = part.text.size();
        const std::uint32_t end = size != 0 ? part.extents[size - 1].end : part.origin.start;
        const auto start = [&](std::size_t place) {
            return place < size ? part.extents[place].start : end;
        };
        auto &extents = arena.fresh_extents();
        extents.reserve(written.size());
        TextMap::Cursor place(map);
        std::uint32_t from = start(place(0));
        for (std::size_t at = 0; at < written.size();) {
            const std::size_t after = at + decode(written, at).size;
            const std::uint32_t to = start(place(static_cast<std::uint32_t>(after)));
            extents.resize(after, {from, to});
            from = to;
            at = after;
        }
        part.text = written;
        part.extents = Rewrite::given(extents);
    }

    struct Step {
        std::size_t size;
        std::string_view written;
    };

    // Whether the byte at `at` is a step of its own that changes nothing.
    [[nodiscard]] bool stays(std::string_view text, std::size_t at) const {
        return inert_[static_cast<unsigned char>(text[at])] &&
               (at + 1 == text.size() || static_cast<unsigned char>(text[at + 1]) < 0x80);
    }

    // The longest beginning that what is kept shares with a text.
    [[nodiscard]] std::size_t path(std::string_view text) const {
        const auto shared = [text](std::string_view kept) {
            return static_cast<std::size_t>(std::ranges::mismatch(text, kept).in1 - text.begin());
        };
        const auto behind = std::ranges::lower_bound(sorted_, text);
        return std::max(behind == sorted_.end() ? 0 : shared(*behind),
                        behind == sorted_.begin() ? 0 : shared(behind[-1]));
    }

    [[nodiscard]] Step step(std::string_view text, std::size_t at,
                            PrefixFinder::Places &kept) const {
        if (stays(text, at)) return {1, text.substr(at, 1)};
        if (const auto *const whole = kept.at(at)) return {whole->text.size(), whole->text};
        if (const std::size_t size = path(text.substr(at)); size != 0)
            return {size, text.substr(at, size)};
        Step found{0, {}};
        if (!map_.empty())
            map_.matches(text.substr(at, LONGEST_ENTRY),
                         [&](std::size_t length, std::string_view value) {
                             found = {length, value};
                             return true;
                         });
        if (found.size != 0) return found;
        const auto c = decode(text, at);
        if (is_stray(c.value)) return {1, REPLACEMENT};
        return {c.size, text.substr(at, c.size)};
    }

    // How many bytes from `at` on are characters that nothing is done to.
    [[nodiscard]] std::size_t unchanged(std::string_view text, std::size_t at) const {
        const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
        std::size_t end = at;
        while (true) {
            end = wide_end(text, end);
            const std::size_t start = end;
            while (end < text.size() && inert_[byte(end)] && byte(end) != ' ') ++end;
            if (end == start || end == text.size()) return end - at;
            // An entry of the map may begin with the last one and a mark behind it.
            if (!map_.empty()) return end - at - (byte(end) >= 0x80 ? 1 : 0);
        }
    }
    // The end of characters of three bytes, from `at` on, that stay as they are.
    [[nodiscard]] std::size_t wide_end(std::string_view text, std::size_t at) const {
        while (wide_.has(page_at(text, at))) at += 3;
        return at;
    }

    void text_rule(std::string_view text, std::string &out, TextMap *map,
                   const Arena &arena) const {
        PrefixFinder::Places kept(kept_, text);
        std::size_t at = 0;
        while (remove_ && at < text.size()) {
            const auto next = step(text, at, kept);
            if (next.written != " ") break;
            at += next.size;
        }
        if (remove_ && at == text.size()) return;
        if (prefix_ && !suffix_) out += space_;
        note(map, out, 0, at);
        bool after_space = remove_;
        while (at < text.size()) {
            const std::size_t place = at;
            const std::size_t before = out.size();
            if (const auto size = unchanged(text, at); size != 0) {
                if (map != nullptr) map->add_copy(before, place);
                out += text.substr(at, size);
                at += size;
                after_space = false;
                continue;
            }
            if (text[at] == ' ' && stays(text, at)) {
                ++at;
                if (after_space) continue;
                out += space_;
                note(map, out, before, place);
                after_space = remove_;
                continue;
            }
            const auto next = step(text, at, kept);
            at += next.size;
            auto piece = next.written;
            while (after_space && piece.starts_with(' ')) piece.remove_prefix(1);
            if (piece.empty()) continue;
            for (const char c : piece) {
                if (c == ' ')
                    out += space_;
                else
                    out.push_back(c);
            }
            note(map, out, before, place);
            arena.check(text.size(), out.size(), SPACES_STEP);
            after_space = remove_ && piece.ends_with(' ');
        }
        std::size_t end = text.size();
        while (remove_ && out.ends_with(space_)) {
            out.resize(out.size() - space_.size());
            if (map == nullptr) continue;
            end = (*map)[out.size()];
            map->truncate(out.size());
        }
        const std::size_t before = out.size();
        if (prefix_ && suffix_) out += space_;
        note(map, out, before, end);
        if (map != nullptr) map->add_replacement(out.size(), end);
    }

    void word_rule(std::string_view text, std::string &out, TextMap *map,
                   const Arena &arena) const {
        bool prefixed = !prefix_ || suffix_;
        bool inside = false;
        PrefixFinder::Places kept(kept_, text);
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t place = at;
            const std::size_t before = out.size();
            const auto next = step(text, at, kept);
            at += next.size;
            for (const char c : next.written) {
                if (c == ' ') {
                    inside = false;
                    if (!remove_) out += space_;
                    continue;
                }
                if (!inside) {
                    inside = true;
                    if (!prefixed || remove_) {
                        out += space_;
                        prefixed = true;
                    }
                }
                out.push_back(c);
            }
            note(map, out, before, place);
            arena.check(text.size(), out.size(), SPACES_STEP);
        }
        const std::size_t before = out.size();
        if (prefix_ && suffix_) out += space_;
        note(map, out, before, text.size());
        if (map != nullptr) map->add_replacement(out.size(), text.size());
    }

    bool prefix_;
    bool remove_;
    std::string_view space_;
    bool suffix_;
    bool paths_;
    bool by_word_;
    Charsmap map_;
    std::array<bool, 256> inert_; // in front of ASCII
    PageSet wide_;                // pages of characters of three bytes that stay as they are
    PrefixFinder kept_;
    std::vector<std::string_view> sorted_; // what is kept where its beginnings are, too
    bool breaks_ = false;                  // what is kept may be less than a character
};

} // namespace

std::unique_ptr<Normalizer> make_spaces(Reader &program) {
    return std::make_unique<Spaces>(program);
}

} // namespace mtkit
