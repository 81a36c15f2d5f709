// Steps over the tokens of a sequence; each does what mtkit/pipeline/decoders.py or
// byte_decoders.py says of the component that it comes from.
#include "decode/decode_steps.hpp"

#include "base/reader.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

// A text for another one; on the first or the last token something else. An empty one is found
// around every character, or every byte.
class ReplaceStep final : public EachStep {
  public:
    explicit ReplaceStep(Reader &program)
        : from_(read_text(program, "from")), to_(read_text(program, "to")) {
        const auto edge = program.scalar<std::uint8_t>("edge");
        if (edge > 2) throw FormatError("is not a replacement", "step");
        edge_ = static_cast<Edge>(edge);
        at_edge_ = read_text(program, "at_edge");
        by_bytes_ = read_flag(program, "by_bytes");
    }
    [[nodiscard]] Kind kind() const override {
        const auto in_no_name = [](std::string_view text) {
            return text.find_first_not_of(IN_NAMES) != std::string_view::npos;
        };
        const bool alone = edge_ == Edge::NONE && in_no_name(from_) && in_no_name(to_);
        return alone ? Kind::ALONE : Kind::OTHER;
    }
    void append(std::string_view token, std::string &out) const override {
        // ALONE looks for a text. What becomes so long at once the pipeline counts.
        if (to_.size() > from_.size() &&
            token.size() / from_.size() > Arena::GROWTH_BYTES / (to_.size() - from_.size()))
            throw Deferred();
        append_replaced(token, from_, to_, out);
    }

  protected:
    void each(std::string_view token, bool first, bool last, TokenTexts &out) const override {
        const bool there = edge_ == Edge::FIRST ? first : edge_ == Edge::LAST && last;
        const auto to = there ? at_edge_ : to_;
        if (!from_.empty()) {
            require_replaced(token, to, out);
            append_replaced(token, from_, to, out.text);
            return;
        }
        out.require(out.text.size() + token.size() + (token.size() + 1) * to.size());
        for (std::size_t at = 0; at < token.size();) {
            const std::size_t size = by_bytes_ ? 1 : decode(token, at).size;
            out.text += to;
            out.text += token.substr(at, size);
            at += size;
        }
        out.text += to;
    }

  private:
    void require_replaced(std::string_view token, std::string_view to,
                          const TokenTexts &out) const {
        if (to.size() <= from_.size()) return;
        std::size_t size = out.text.size() + token.size();
        for (auto at = token.find(from_); at != std::string_view::npos;
             at = token.find(from_, at + from_.size())) {
            size += to.size() - from_.size();
            out.require(size);
        }
    }

    bool by_bytes_ = false;
    std::string_view from_;
    std::string_view to_;
    std::string_view at_edge_;
    Edge edge_ = Edge::NONE;
};

// A text for each match of a pattern.
class MatchesStep final : public EachStep {
  public:
    MatchesStep(Reader &program, Tables &tables)
        : matcher_(make_matcher(program, tables)), to_(read_text(program, "to")) {}

  protected:
    void each(std::string_view token, bool, bool, TokenTexts &out) const override {
        if (token.empty()) return;
        std::size_t done = 0;
        matcher_->find(token, [&](std::size_t first, std::size_t last) {
            out.text += token.substr(done, first - done);
            out.text += to_;
            out.require(out.text.size());
            done = last;
        });
        out.text += token.substr(done);
    }

  private:
    std::unique_ptr<Matcher> matcher_;
    std::string_view to_;
};

// Pieces that continue a word lose their prefix, others get a space in front.
class GlueStep final : public EachStep {
  public:
    explicit GlueStep(Reader &program)
        : prefix_(read_text(program, "prefix")), first_too_(read_flag(program, "first_too")) {}

  protected:
    void each(std::string_view token, bool first, bool, TokenTexts &out) const override {
        if (!prefix_.empty() && token.starts_with(prefix_) && (first_too_ || !first)) {
            token.remove_prefix(prefix_.size());
        } else if (!first) {
            out.text.push_back(' ');
        }
        out.text += token;
    }

  private:
    std::string_view prefix_;
    bool first_too_;
};

// Replacements one after the other, each of a text that begins with a space.
class CleanStep final : public EachStep {
  public:
    explicit CleanStep(Reader &program) {
        const auto count = program.count(program.scalar<std::uint32_t>("pairs"), 8, "pairs");
        for (std::size_t i = 0; i < count; ++i) {
            const auto from = read_text(program, "from");
            if (from.size() < 2 || from[0] != ' ') throw FormatError("has no space", "pairs");
            pairs_.emplace_back(from, read_text(program, "to"));
            second_[static_cast<unsigned char>(from[1])] = true;
        }
    }

  protected:
    void each(std::string_view token, bool, bool, TokenTexts &out) const override {
        if (!concerned(token)) {
            out.text += token;
            return;
        }
        std::string text(token);
        std::string changed;
        for (const auto &[from, to] : pairs_) {
            if (text.find(from) == std::string::npos) continue;
            changed.clear();
            append_replaced(text, from, to, changed);
            std::swap(text, changed);
        }
        out.text += text;
    }

  private:
    // Where no space stands before a second character of any rule, no rule can begin.
    [[nodiscard]] bool concerned(std::string_view token) const {
        for (std::size_t at = 0; at + 1 < token.size(); ++at) {
            at = token.find(' ', at);
            if (at == std::string_view::npos || at + 1 == token.size()) return false;
            if (second_[static_cast<unsigned char>(token[at + 1])]) return true;
        }
        return false;
    }

    std::vector<std::pair<std::string_view, std::string_view>> pairs_;
    bool second_[256] = {};
};

// One token of all, with something between.
class JoinStep final : public DecodeStep {
  public:
    explicit JoinStep(Reader &program) : separator_(read_text(program, "separator")) {}
    [[nodiscard]] Kind kind() const override {
        return separator_.empty() ? Kind::JOIN : Kind::OTHER;
    }

    void run(const TokenTexts &in, bool, TokenTexts &out) const override {
        if (separator_.empty()) {
            out.text = in.text;
        } else {
            out.require(in.text.size() + separator_.size() * in.ends.size());
            in.each([&](std::string_view token, std::size_t i) {
                if (i != 0) out.text += separator_;
                out.text += token;
            });
        }
        out.close();
    }

  private:
    std::string_view separator_;
};

// A character off both ends; where the reference fails the pipeline says so.
class StripStep final : public EachStep {
  public:
    explicit StripStep(Reader &program)
        : content_(read_text(program, "content")), start_(program.scalar<std::uint32_t>("start")),
          stop_(program.scalar<std::uint32_t>("stop")) {}

  protected:
    void each(std::string_view token, bool, bool, TokenTexts &out) const override {
        if (content_.empty()) { // none is found
            if (token.empty() && stop_ != 0) throw Deferred();
            out.text += token;
            return;
        }
        std::size_t first = 0;
        for (std::uint32_t i = 0; i < start_ && token.substr(first).starts_with(content_); ++i)
            first += content_.size();
        std::size_t last = token.size();
        for (std::uint32_t i = 0; i < stop_; ++i) {
            if (last == 0) throw Deferred();
            if (!token.substr(0, last).ends_with(content_)) break;
            last -= content_.size();
        }
        if (first > last) throw Deferred();
        out.text += token.substr(first, last - first);
    }

  private:
    std::string_view content_;
    std::uint32_t start_;
    std::uint32_t stop_;
};

// Tokens that equal the one before are left out, or those that are empty.
template <bool EMPTY> class DropStep final : public DecodeStep {
  public:
    void run(const TokenTexts &in, bool, TokenTexts &out) const override {
        std::string_view before;
        in.each([&](std::string_view token, std::size_t i) {
            const bool dropped = EMPTY ? token.empty() : i != 0 && token == before;
            before = token;
            if (dropped) return;
            out.text += token;
            out.close();
        });
    }
};

} // namespace

std::unique_ptr<DecodeStep> make_decode_step(Reader &program, Tables &tables) {
    const auto kind = program.scalar<std::uint8_t>("step");
    switch (static_cast<DecoderKind>(kind)) {
    case DecoderKind::REPLACE:
        return std::make_unique<ReplaceStep>(program);
    case DecoderKind::MATCHES:
        return std::make_unique<MatchesStep>(program, tables);
    case DecoderKind::GLUE:
        return std::make_unique<GlueStep>(program);
    case DecoderKind::CLEAN:
        return std::make_unique<CleanStep>(program);
    case DecoderKind::JOIN:
        return std::make_unique<JoinStep>(program);
    case DecoderKind::STRIP:
        return std::make_unique<StripStep>(program);
    case DecoderKind::DIFFERENT:
        return std::make_unique<DropStep<false>>();
    case DecoderKind::NOT_EMPTY:
        return std::make_unique<DropStep<true>>();
    default:
        return make_byte_step(kind, program);
    }
}

} // namespace mtkit
