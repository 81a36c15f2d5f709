// Normalizers with a precompiled character map: cluster by cluster, and as one pass over bytes.
//
// Source: huggingface/tokenizers, normalizers/precompiled.rs; google/sentencepiece, normalizer.cc;
// ggml-org/llama.cpp, llm_tokenizer_ugm_session::normalize.
#include "charsmap.hpp"

#include "added_tokens.hpp"
#include "graphemes.hpp"
#include "models.hpp"
#include "steps.hpp"
#include "utf8.hpp"

namespace mtkit {

namespace {

constexpr std::string_view MARK = "\xE2\x96\x81";
constexpr std::string_view REPLACEMENT = "\xEF\xBF\xBD";
constexpr std::size_t SHORT_CLUSTER = 6;
// An entry has far fewer bytes; the map is only asked for what may match.
constexpr std::size_t LONGEST_ENTRY = 256;

class Precompiled final : public Normalizer {
  public:
    explicit Precompiled(Reader &program)
        : graphemes_(program), map_(read_text(program, "charsmap")) {}

    void run(Part &part, Arena &arena) const override {
        const auto text = part.text;
        auto &out = arena.fresh();
        bool changed = false;
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t end = graphemes_.end(text, at);
            if (end - at >= SHORT_CLUSTER || !replace(text.substr(at, end - at), out)) {
                for (std::size_t c = at; c < end;) {
                    const std::size_t size = decode(text, c).size;
                    const auto character = text.substr(c, size);
                    if (replace(character, out))
                        changed = true;
                    else
                        out += character;
                    c += size;
                }
            } else {
                changed = true;
            }
            at = end;
        }
        if (changed) part.text = out;
    }

  private:
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
};

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
        kept_.build(std::move(kept));
    }

    void run(Part &part, Arena &arena) const override {
        if (part.text.empty() && !by_word_) return;
        auto &out = arena.fresh();
        if (by_word_)
            word_rule(part.text, out);
        else
            text_rule(part.text, out);
        part.text = out;
    }

  private:
    struct Step {
        std::size_t size;
        std::string_view written;
    };

    [[nodiscard]] Step step(std::string_view text, std::size_t at) const {
        std::size_t size = 0;
        if (!kept_.empty()) {
            if (paths_)
                size = kept_.path(text, at);
            else
                kept_.at(text, at, [&](const PrefixFinder::Entry &e) { size = e.text.size(); });
            if (size != 0) return {size, text.substr(at, size)};
        }
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

    void text_rule(std::string_view text, std::string &out) const {
        std::size_t at = 0;
        while (remove_ && at < text.size()) {
            const auto next = step(text, at);
            if (next.written != " ") break;
            at += next.size;
        }
        if (remove_ && at == text.size()) return;
        if (prefix_ && !suffix_) out += space_;
        bool after_space = remove_;
        while (at < text.size()) {
            const auto next = step(text, at);
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
            after_space = remove_ && piece.ends_with(' ');
        }
        while (remove_ && out.ends_with(space_)) out.resize(out.size() - space_.size());
        if (prefix_ && suffix_) out += space_;
    }

    void word_rule(std::string_view text, std::string &out) const {
        bool prefixed = !prefix_ || suffix_;
        bool inside = false;
        for (std::size_t at = 0; at < text.size();) {
            const auto next = step(text, at);
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
        }
        if (prefix_ && suffix_) out += space_;
    }

    bool prefix_;
    bool remove_;
    std::string_view space_;
    bool suffix_;
    bool paths_;
    bool by_word_;
    Charsmap map_;
    PrefixFinder kept_;
};

} // namespace

std::unique_ptr<Normalizer> make_charsmap(Reader &program) {
    return std::make_unique<Precompiled>(program);
}

std::unique_ptr<Normalizer> make_spaces(Reader &program) {
    return std::make_unique<Spaces>(program);
}

} // namespace mtkit
