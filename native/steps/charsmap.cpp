// The normalizer with a precompiled character map alone: cluster by cluster.
//
// Source: huggingface/tokenizers, normalizers/precompiled.rs.
#include "steps/charsmap.hpp"

#include "models/models.hpp"
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
        : graphemes_(program), map_(read_text(program, "charsmap")), inert_(map_.inert()),
          wide_(map_.without_entries()) {
        for (char32_t c = 0; c < 0x80; ++c) inert_[c] = inert_[c] && graphemes_.stands_alone(c);
        graphemes_.keep_alone(wide_);
    }

    void run(Part &part, Arena &arena) const override {
        auto &out = arena.fresh();
        if (part.extents == nullptr) {
            const auto check = [&](std::string_view, bool) {
                arena.check(part.text.size(), out.size(), PRECOMPILED);
            };
            if (!walk(part.text, out, check)) return;
            arena.grow(part.text.size(), out.size(), PRECOMPILED);
            part.text = out;
            return;
        }
        std::vector<Change> changes;
        std::size_t done = 0;
        const auto note = [&](std::string_view old, bool replaced) {
            arena.check(part.text.size(), out.size(), PRECOMPILED);
            const std::string_view written = std::string_view(out).substr(done);
            done = out.size();
            if (replaced)
                write_over(count(old), written, changes);
            else
                changes.push_back({written.size(), 0});
        };
        if (!walk(part.text, out, note)) return;
        arena.grow(part.text.size(), out.size(), PRECOMPILED);
        Transform aligned(part, arena);
        std::size_t at = 0;
        for (const auto &change : changes) {
            aligned.put(std::string_view(out).substr(at, change.size), change.change);
            at += change.size;
        }
        aligned.give(part);
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

  private:
    struct Change {
        std::size_t size; // of the new character
        int change;       // see Transform
    };

    // Write the text; call `note` with each stretch and whether it was replaced. Whether any was.
    template <typename Note>
    bool walk(std::string_view text, std::string &out, const Note &note) const {
        bool changed = false;
        for (std::size_t at = 0; at < text.size();) {
            for (std::size_t size = inert_size(text, at); size != 0;) {
                const std::size_t next = inert_size(text, at + size);
                // What follows the last of a run may join it.
                if (next == 0 && at + size < text.size()) break;
                out.append(text, at, size);
                note(text.substr(at, size), false);
                at += size;
                size = next;
            }
            if (at == text.size()) break;
            const std::size_t end = graphemes_.end(text, at);
            const auto cluster = text.substr(at, end - at);
            if (end - at < SHORT_CLUSTER && replace(cluster, out)) {
                note(cluster, true);
                changed = true;
                at = end;
                continue;
            }
            while (at < end) {
                const auto character = text.substr(at, decode(text, at).size);
                const bool replaced = replace(character, out);
                if (!replaced) out += character;
                note(character, replaced);
                changed = changed || replaced;
                at += character.size();
            }
        }
        return changed;
    }

    // Bytes of a character that is a cluster by itself and stays as it is; 0: another one.
    [[nodiscard]] std::size_t inert_size(std::string_view text, std::size_t at) const {
        if (at >= text.size()) return 0;
        const auto first = static_cast<unsigned char>(text[at]);
        if (first < 0x80) return inert_[first] ? 1 : 0;
        if (first < 0xE0 || first > 0xEF || text.size() - at < 3) return 0;
        const auto second = static_cast<unsigned char>(text[at + 1]);
        const auto third = static_cast<unsigned char>(text[at + 2]);
        const bool plain = (second & 0xC0) == 0x80 && (third & 0xC0) == 0x80 &&
                           (wide_[first & 15] >> (second & 63) & 1) != 0;
        return plain ? 3 : 0;
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
    WideBytes wide_; // the same of characters of three bytes, by the two that they begin with
};

} // namespace

std::unique_ptr<Normalizer> make_charsmap(Reader &program) {
    return std::make_unique<Precompiled>(program);
}

} // namespace mtkit
