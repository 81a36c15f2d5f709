// The normalizer with a precompiled character map alone: cluster by cluster.
//
// Source: huggingface/tokenizers, normalizers/precompiled.rs.
#include "steps/charsmap.hpp"

#include "base/reader.hpp"
#include "steps/seams.hpp"
#include "steps/steps.hpp"
#include "text/alignment.hpp"
#include "text/graphemes.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

constexpr std::size_t SHORT_CLUSTER = 6;
constexpr const char *PRECOMPILED = "Precompiled";

class Precompiled final : public Normalizer {
  public:
    explicit Precompiled(Reader &program)
        : graphemes_(program), map_(read_text(program, "charsmap")), inert_(map_.inert()) {
        for (char32_t c = 0; c < 0x80; ++c) inert_[c] = inert_[c] && graphemes_.stands_alone(c);
        wide_ = pages_that([this, kept = map_.without_entries()](unsigned page) {
            return kept.has(page) && graphemes_.page_stands_alone(page);
        });
    }

    void run(Part &part, Arena &arena) const override {
        auto &out = arena.fresh();
        std::vector<Change> changes;
        std::size_t done = 0;
        const auto note = [&](std::string_view old) {
            arena.check(part.text.size(), out.size(), PRECOMPILED);
            if (part.extents == nullptr) return;
            write_over(count(old), std::string_view(out).substr(done), changes);
            done = out.size();
        };
        if (!walk(part.text, out, note)) return;
        if (part.extents == nullptr) {
            arena.grow(part.text.size(), out.size(), PRECOMPILED);
            part.text = out;
            return;
        }
        require_whole(part);
        Rewrite aligned(part, arena, PRECOMPILED);
        std::size_t at = 0;
        for (const auto &change : changes) {
            aligned.put(std::string_view(out).substr(at, change.size), change.change);
            at += change.size;
        }
        aligned.drop_rest();
        aligned.give();
    }
    [[nodiscard]] bool aligns() const override { return true; }
    bool keeps(Seams &seams) const override {
        if (seams.blank != " " || !inert_[' ']) return false;
        for (char32_t c = 0; c < 0x80; ++c) {
            // Controls are clusters of their own, but for a line's end of two.
            const bool control = (c < 0x20 || c == 0x7F) && c != '\r' && c != '\n';
            const bool newline = c == '\n';
            seams.free[c] = seams.free[c] && (inert_[c] || control || newline);
            seams.left[c] = seams.left[c] && c != '\r';
            seams.joins[c] = seams.joins[c] || c > ' ';
        }
        seams.wide = seams.wide && !seams.changes;
        seams.changes = seams.clusters = seams.together = true;
        return true;
    }
    void keep_pages(PageSet &pages) const override { pages.keep(wide_); }
    [[nodiscard]] bool takes_alone(char32_t c) const override { return graphemes_.stands_alone(c); }

  private:
    struct Change {
        std::size_t size; // of the new character
        int change;       // see Rewrite::put
    };

    // Write the text; call `note` with each stretch of the old one. Whether any was replaced.
    template <typename Note>
    bool walk(std::string_view text, std::string &out, const Note &note) const {
        bool changed = false;
        for (std::size_t at = 0; at < text.size();) {
            if (const std::size_t end = inert_end(text, at); end != at) {
                const auto kept = text.substr(at, end - at);
                out += kept;
                note(kept);
                at = end;
            }
            if (at == text.size()) break;
            const std::size_t end = cluster_end(text, at);
            const auto cluster = text.substr(at, end - at);
            if (end - at < SHORT_CLUSTER && replace(cluster, out)) {
                note(cluster);
                changed = true;
                at = end;
                continue;
            }
            while (at < end) {
                const auto character = text.substr(at, decode(text, at).size);
                const bool replaced = replace(character, out);
                if (!replaced) out += character;
                note(character);
                changed = changed || replaced;
                at += character.size();
            }
        }
        return changed;
    }

    // Where the cluster ends that begins at `at`.
    [[nodiscard]] std::size_t cluster_end(std::string_view text, std::size_t at) const {
        const auto c = decode_usual(text, at);
        const std::size_t next = at + c.size;
        // Most are followed by what is known to be a cluster by itself.
        return inert_size(text, next) != 0 && graphemes_.stands_alone(c.value)
                   ? next
                   : graphemes_.end(text, at);
    }
    // Where characters end, from `at` on, that are clusters by themselves and stay as they are.
    [[nodiscard]] std::size_t inert_end(std::string_view text, std::size_t at) const {
        std::size_t before = at; // where the last one begins
        while (const std::size_t size = inert_size(text, at)) {
            before = at;
            at += size;
        }
        // What follows it may join it.
        const bool ends = at == text.size() || graphemes_.stands_alone(decode(text, at).value);
        return ends ? at : before;
    }
    // Bytes of such a character; 0: it is another one.
    [[nodiscard]] std::size_t inert_size(std::string_view text, std::size_t at) const {
        if (at >= text.size()) return 0;
        const auto first = static_cast<unsigned char>(text[at]);
        if (first < 0x80) return inert_[first] ? 1 : 0;
        return wide_.has(page_at(text, at)) ? 3 : 0;
    }

    static int count(std::string_view text) {
        int characters = 0;
        for (std::size_t at = 0; at < text.size(); at += decode(text, at).size) ++characters;
        return characters;
    }

    // The surplus of new characters at their end is inserted; missing ones are taken by the
    // character before, and forgotten where there is none.
    static void write_over(int old, std::string_view written, std::vector<Change> &changes) {
        int left = old;
        for (std::size_t at = 0; at < written.size();) {
            const std::size_t size = decode(written, at).size;
            changes.push_back({size, left-- > 0 ? 0 : 1});
            at += size;
        }
        if (left > 0 && !changes.empty()) changes.back().change -= left;
    }

    // The shortest entry that the key begins with replaces all of it.
    bool replace(std::string_view key, std::string &out) const {
        bool any = false;
        map_.matches(key, [&](std::size_t, std::string_view value) {
            out += value;
            any = true;
            return false;
        });
        return any;
    }

    Graphemes graphemes_;
    Charsmap map_;
    std::array<bool, 256> inert_;
    PageSet wide_; // the same of characters of three bytes
};

} // namespace

std::unique_ptr<Normalizer> make_charsmap(Reader &program) {
    return std::make_unique<Precompiled>(program);
}

} // namespace mtkit
