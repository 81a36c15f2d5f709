// Normalizers that look at one character at a time: drop or surround a set, map single ones.
#include "alignment.hpp"
#include "models.hpp"
#include "sets.hpp"
#include "steps.hpp"
#include "utf8.hpp"

namespace mtkit {

namespace {

// Each code point of a set is dropped, or set apart by a text on both sides.
class DropOrSurround final : public Normalizer {
  public:
    explicit DropOrSurround(Reader &program)
        : drop_(read_flag(program, "drop")), around_(read_text(program, "around")), set_(program) {}
    void run(Part &part, Arena &arena) const override {
        if (part.extents != nullptr) {
            write_aligned(part, arena);
            return;
        }
        std::string *out = nullptr;
        const auto text = part.text;
        for (std::size_t at = 0; at < text.size();) {
            const auto c = decode(text, at);
            if (set_.has(c.value)) {
                if (out == nullptr) {
                    out = &arena.fresh();
                    *out += text.substr(0, at);
                }
                if (drop_) {
                    if (at == 0) part.head_at_start = false;
                } else {
                    *out += around_;
                    *out += text.substr(at, c.size);
                    *out += around_;
                }
            } else if (out != nullptr) {
                *out += text.substr(at, c.size);
            }
            at += c.size;
        }
        if (out != nullptr) part.text = *out;
    }
    [[nodiscard]] bool aligns() const override { return true; }

  private:
    void write_aligned(Part &part, Arena &arena) const {
        require_whole(part);
        AlignedText out(arena);
        const auto text = part.text;
        std::size_t done = 0;
        for (std::size_t at = 0; at < text.size();) {
            const auto c = decode(text, at);
            const std::size_t end = at + c.size;
            if (set_.has(c.value)) {
                out.copy(part, done, at);
                if (drop_) {
                    if (at == 0) part.head_at_start = false;
                } else {
                    out.add(around_, part.extents[at]);
                    out.copy(part, at, end);
                    out.add(around_, part.extents[at]);
                }
                done = end;
            }
            at = end;
        }
        if (done == 0) return;
        out.copy(part, done, text.size());
        out.give(part);
    }

    bool drop_;
    std::string_view around_;
    CodePointSet set_;
};

class Map final : public Normalizer {
  public:
    explicit Map(Reader &program) : map_(program) {}
    void run(Part &part, Arena &arena) const override {
        if (part.extents != nullptr) {
            write_aligned(part, arena);
            return;
        }
        std::string *out = nullptr;
        const auto text = part.text;
        for (std::size_t at = 0; at < text.size();) {
            const auto c = decode(text, at);
            std::string_view value;
            if (map_.find(c.value, value)) {
                if (out == nullptr) {
                    out = &arena.fresh();
                    *out += text.substr(0, at);
                }
                if (value.empty() && at == 0) part.head_at_start = false;
                *out += value;
            } else if (out != nullptr) {
                *out += text.substr(at, c.size);
            }
            at += c.size;
        }
        if (out != nullptr) part.text = *out;
    }
    [[nodiscard]] bool aligns() const override { return true; }

  private:
    void write_aligned(Part &part, Arena &arena) const {
        require_whole(part);
        AlignedText out(arena);
        std::size_t done = 0;
        for (std::size_t at = 0; at < part.text.size();) {
            const auto c = decode(part.text, at);
            std::string_view value;
            if (map_.find(c.value, value)) {
                out.copy(part, done, at);
                if (value.empty() && at == 0) part.head_at_start = false;
                out.add(value, part.extents[at]);
                done = at + c.size;
            }
            at += c.size;
        }
        if (done == 0) return;
        out.copy(part, done, part.text.size());
        out.give(part);
    }

    CodePointMap map_;
};

} // namespace

std::unique_ptr<Normalizer> make_drop(Reader &program) {
    return std::make_unique<DropOrSurround>(program);
}

std::unique_ptr<Normalizer> make_map(Reader &program) {
    return std::make_unique<Map>(program);
}

} // namespace mtkit
