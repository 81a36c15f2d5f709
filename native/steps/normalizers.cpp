// Normalizers that need no data of their own beyond sets and maps of code points.
#include "base/errors.hpp"
#include "base/reader.hpp"
#include "steps/seams.hpp"
#include "steps/steps.hpp"
#include "text/alignment.hpp"
#include "text/alphabet.hpp"
#include "text/sets.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

class Prepend final : public Normalizer {
  public:
    explicit Prepend(Reader &program)
        : text_(read_text(program, "text")), empty_(read_flag(program, "empty")) {}
    void run(Part &part, Arena &arena) const override {
        if (part.text.empty() && !empty_) return;
        Rewrite out(part, arena, "Prepend");
        const auto text = part.text;
        // It belongs to the first character; the reference loses that where it writes nothing.
        const std::size_t head = text_.empty() && !text.empty() ? decode(text, 0).size : 0;
        if (head != 0)
            out.replace(0, head, text.substr(0, head), nowhere(part));
        else
            out.replace(0, 0, text_, text.empty() ? nowhere(part) : out.at(0));
        out.give();
    }
    [[nodiscard]] bool aligns() const override { return true; }
    bool keeps(Seams &seams) const override {
        seams.first = false;
        seams.write(text_);
        return true;
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
        if (part.text.empty()) return;
        Rewrite out(part, arena, "Replace");
        bool head = part.head_at_start;
        matcher_->find(part.text, [&](std::size_t start, std::size_t end) {
            // What stands in front of the text belongs to none of its characters: the reference
            // fails on it in many later steps.
            if (end == 0 && !content_.empty() && part.extents == nullptr) throw NeedsExtents();
            // What stands for a match belongs to the last character of it; or nothing does.
            if (start == 0 && end > 0 && (content_.empty() || end > decode(part.text, 0).size))
                head = false;
            out.replace(start, end, content_, end == 0 ? nowhere(part) : out.at(end - 1));
        });
        out.give();
        part.head_at_start = head;
    }
    [[nodiscard]] bool aligns() const override { return true; }
    bool keeps(Seams &seams) const override {
        const auto text = matcher_->literal();
        if (text.empty()) return false;
        if (text == seams.blank) {
            if (content_ != " " && content_ != MARK) return false;
            seams.blank = content_;
            return true;
        }
        seams.write(content_);
        const bool ascii = ascii_end(content_, 0) == content_.size();
        return (ascii || content_ == MARK) && seams.look_for(text);
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
        const Part whole = part;
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
        if (part.extents == nullptr || text.size() == whole.text.size()) return;
        require_whole(whole);
        part.extents += text.data() - whole.text.data();
    }
    [[nodiscard]] bool aligns() const override { return true; }
    bool keeps(Seams &seams) const override {
        seams.first = seams.first && !left_;
        seams.last = seams.last && !right_;
        return true;
    }

  private:
    bool left_;
    bool right_;
    CodePointSet space_;
};

class ByteLevel final : public Normalizer {
  public:
    void run(Part &part, Arena &arena) const override { write_letters(part, arena); }
    [[nodiscard]] bool aligns() const override { return true; }
};

class NormalizerSequence final : public Normalizer {
  public:
    NormalizerSequence(Reader &program, Tables &tables) {
        const auto count = program.count(program.scalar<std::uint32_t>("steps"), 1, "steps");
        for (std::size_t i = 0; i < count; ++i) {
            require_step<NormalizerKind>(program);
            steps_.push_back(make_normalizer(program, tables));
        }
    }
    void run(Part &part, Arena &arena) const override {
        // What is left of a first character that became several, and lost the first of these, is
        // still the first one of the input: only extents say so.
        const auto head = part.text.substr(0, HEAD);
        const bool asks = part.head_at_start && part.extents == nullptr;
        for (const auto &step : steps_) {
            const bool changed = part.text.substr(0, HEAD) != head;
            step->run(part, arena);
            if (asks && changed && !part.head_at_start) throw NeedsExtents();
        }
    }
    [[nodiscard]] bool aligns() const override {
        return std::all_of(steps_.begin(), steps_.end(), [](const auto &s) { return s->aligns(); });
    }
    [[nodiscard]] bool may_break_characters() const override {
        return std::any_of(steps_.begin(), steps_.end(),
                           [](const auto &s) { return s->may_break_characters(); });
    }
    bool keeps(Seams &seams) const override {
        return std::all_of(steps_.begin(), steps_.end(),
                           [&](const auto &s) { return s->keeps(seams); });
    }

  private:
    static constexpr std::size_t HEAD = 16; // bytes of a text's beginning
    std::vector<std::unique_ptr<Normalizer>> steps_;
};

} // namespace

void write_letters(Part &part, Arena &arena) {
    require_whole(part);
    Rewrite out(part, arena, "ByteLevel");
    std::string letter;
    for (std::size_t at = 0; at < part.text.size(); ++at) {
        letter.clear();
        append(letter, ALPHABET.letter[static_cast<unsigned char>(part.text[at])]);
        out.replace(at, at + 1, letter, out.at(at));
    }
    out.give();
}

std::unique_ptr<Normalizer> make_normalizer(Reader &program, Tables &tables) {
    const auto kind = program.scalar<std::uint8_t>("normalizer");
    switch (static_cast<NormalizerKind>(kind)) {
    case NormalizerKind::NOTHING:
        return nullptr;
    case NormalizerKind::SEQUENCE:
        return std::make_unique<NormalizerSequence>(program, tables);
    case NormalizerKind::PREPEND:
        return std::make_unique<Prepend>(program);
    case NormalizerKind::REPLACE:
        return std::make_unique<Replace>(program, tables);
    case NormalizerKind::STRIP:
        return std::make_unique<Strip>(program);
    case NormalizerKind::DROP:
        return make_drop(program);
    case NormalizerKind::MAP:
        return make_map(program);
    case NormalizerKind::BYTE_LEVEL:
        return std::make_unique<ByteLevel>();
    case NormalizerKind::FORM:
        return make_form(program);
    case NormalizerKind::CHARSMAP:
        return make_charsmap(program);
    case NormalizerKind::SPACES:
        return make_spaces(program);
    default:
        throw FormatError("is " + std::to_string(kind) + ", no step has that number", "normalizer");
    }
}

} // namespace mtkit
