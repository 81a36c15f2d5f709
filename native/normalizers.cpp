// Normalizers that need no data of their own beyond sets and maps of code points.
#include "alphabet.hpp"
#include "errors.hpp"
#include "models.hpp"
#include "sets.hpp"
#include "steps.hpp"
#include "utf8.hpp"

namespace mtkit {

namespace {

class Prepend final : public Normalizer {
  public:
    explicit Prepend(Reader &program)
        : text_(read_text(program, "text")), empty_(read_flag(program, "empty")) {}
    void run(Part &part, Arena &arena) const override {
        if (part.text.empty() && !empty_) return;
        auto &out = arena.fresh();
        out.reserve(text_.size() + part.text.size());
        out += text_;
        out += part.text;
        part.text = out;
    }

  private:
    std::string_view text_;
    bool empty_;
};

class Replace final : public Normalizer {
  public:
    Replace(Reader &program, Tables &tables)
        : matcher_(make_matcher(program, tables)), content_(read_text(program, "content")) {}
    void run(Part &part, Arena &arena) const override {
        std::vector<Span> matches;
        matcher_->find(part.text, matches);
        if (matches.empty()) return;
        // What stands in front of the text belongs to none of its characters: the reference fails
        // on it in many later steps, which the pipeline knows.
        if (matches[0].second == 0 && !content_.empty()) throw Deferred();
        auto &out = arena.fresh();
        std::size_t done = 0;
        for (const auto &[start, end] : matches) {
            out += part.text.substr(done, start - done);
            out += content_;
            done = end;
        }
        out += part.text.substr(done);
        // What stands for a match belongs to the last character of it; or nothing stands for it.
        const auto [start, end] = matches[0];
        if (start == 0 && end > 0 && (content_.empty() || end > decode(part.text, 0).size))
            part.head_at_start = false;
        part.text = out;
    }

  private:
    std::unique_ptr<Matcher> matcher_;
    std::string_view content_;
};

class Strip final : public Normalizer {
  public:
    explicit Strip(Reader &program)
        : left_(read_flag(program, "left")), right_(read_flag(program, "right")), space_(program) {}
    void run(Part &part, Arena &) const override {
        auto &text = part.text;
        while (left_ && !text.empty()) {
            const auto c = decode(text, 0);
            if (!space_.has(c.value)) break;
            text.remove_prefix(c.size);
            part.head_at_start = false;
        }
        while (right_ && !text.empty()) {
            const auto at = previous(text, text.size());
            if (!space_.has(decode(text, at).value)) break;
            text = text.substr(0, at);
        }
    }

  private:
    bool left_;
    bool right_;
    CodePointSet space_;
};

// Each code point of a set is dropped, or set apart by a text on both sides.
class DropOrSurround final : public Normalizer {
  public:
    explicit DropOrSurround(Reader &program)
        : drop_(read_flag(program, "drop")), around_(read_text(program, "around")), set_(program) {}
    void run(Part &part, Arena &arena) const override {
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

  private:
    bool drop_;
    std::string_view around_;
    CodePointSet set_;
};

class Map final : public Normalizer {
  public:
    explicit Map(Reader &program) : map_(program) {}
    void run(Part &part, Arena &arena) const override {
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

  private:
    CodePointMap map_;
};

class ByteLevel final : public Normalizer {
  public:
    void run(Part &part, Arena &arena) const override {
        auto &out = arena.fresh();
        for (const char c : part.text) append(out, ALPHABET.letter[static_cast<unsigned char>(c)]);
        part.text = out;
    }
};

class Sequence final : public Normalizer {
  public:
    Sequence(Reader &program, Tables &tables) {
        const auto count = program.count(program.scalar<std::uint32_t>("steps"), 1, "steps");
        for (std::size_t i = 0; i < count; ++i) steps_.push_back(make_normalizer(program, tables));
    }
    void run(Part &part, Arena &arena) const override {
        for (const auto &step : steps_) step->run(part, arena);
    }

  private:
    std::vector<std::unique_ptr<Normalizer>> steps_;
};

} // namespace

std::unique_ptr<Normalizer> make_normalizer(Reader &program, Tables &tables) {
    // program.py has the same numbers.
    const auto kind = program.scalar<std::uint8_t>("normalizer");
    switch (kind) {
    case 0:
        return nullptr;
    case 2:
        return std::make_unique<Sequence>(program, tables);
    case 3:
        return std::make_unique<Prepend>(program);
    case 4:
        return std::make_unique<Replace>(program, tables);
    case 5:
        return std::make_unique<Strip>(program);
    case 6:
        return std::make_unique<DropOrSurround>(program);
    case 7:
        return std::make_unique<Map>(program);
    case 8:
        return std::make_unique<ByteLevel>();
    case 9:
        return make_form(program);
    case 10:
        return make_charsmap(program);
    case 11:
        return make_spaces(program);
    default:
        throw FormatError("is " + std::to_string(kind) + ", no step has that number", "normalizer");
    }
}

} // namespace mtkit
