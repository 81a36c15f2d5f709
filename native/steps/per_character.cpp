// Normalizers that look at one character at a time: drop or surround a set, map single ones.
#include "base/reader.hpp"
#include "steps/seams.hpp"
#include "steps/steps.hpp"
#include "text/alignment.hpp"
#include "text/sets.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

// Each code point of a set is dropped, or set apart by a text on both sides.
class DropOrSurround final : public Normalizer {
  public:
    explicit DropOrSurround(Reader &program)
        : drop_(read_flag(program, "drop")), around_(read_text(program, "around")), set_(program) {}
    void run(Part &part, Arena &arena) const override {
        require_whole(part);
        Rewrite out(part, arena, "Bert");
        const auto text = part.text;
        for (std::size_t at = set_.next(text, 0); at < text.size();) {
            const std::size_t end = at + decode(text, at).size;
            if (drop_) {
                if (at == 0) part.head_at_start = false;
                out.replace(at, end, {}, {});
            } else {
                out.replace(at, at, around_, out.at(at));
                out.replace(end, end, around_, out.at(at));
            }
            at = set_.next(text, end);
        }
        out.give();
    }
    [[nodiscard]] bool aligns() const override { return true; }
    bool keeps(Seams &seams) const override {
        if (set_.has(decode(seams.blank, 0).value)) return false;
        if (!drop_ && around_ == " " && seams.blank == " " && !seams.together)
            seams.han = seams.han || set_.covers(Seams::HAN, Seams::LAST_HAN);
        if (drop_ && set_.meets(Seams::HAN, Seams::LAST_HAN)) {
            seams.han = false;
            seams.together = true;
        }
        seams.write(around_);
        seams.changes = true;
        return true;
    }

  private:
    bool drop_;
    std::string_view around_;
    CodePointSet set_;
};

class Map final : public Normalizer {
  public:
    explicit Map(Reader &program) : map_(program) {}
    void run(Part &part, Arena &arena) const override {
        require_whole(part);
        Rewrite out(part, arena, "CodePointTable");
        const auto text = part.text;
        for (std::size_t at = 0; at < text.size();) {
            const auto c = decode(text, at);
            std::string_view value;
            if (map_.find(c.value, value)) {
                if (value.empty() && at == 0) part.head_at_start = false;
                out.replace(at, at + c.size, value, out.at(at));
            }
            at += c.size;
        }
        out.give();
    }
    [[nodiscard]] bool aligns() const override { return true; }
    bool keeps(Seams &seams) const override {
        std::string_view value;
        if (map_.find(decode(seams.blank, 0).value, value) && value != seams.blank) return false;
        map_.each_key([&](std::uint32_t key) {
            if (!map_.find(key, value)) return;
            seams.write(value);
            seams.changes = seams.changes || key >= 0x80;
            seams.together = seams.together || (key >= Seams::HAN && key <= Seams::LAST_HAN);
        });
        return true;
    }

  private:
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
