// Steps that make bytes of tokens: byte tokens, letters of the byte alphabet; and what looks at
// the first or the last token.
#include "base/reader.hpp"
#include "decode/decode_steps.hpp"
#include "text/alphabet.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

// Runs of byte tokens as the characters they spell.
class ByteRunsStep final : public DecodeStep {
  public:
    [[nodiscard]] Kind kind() const override { return Kind::BYTE_RUNS; }
    void run(const TokenTexts &in, bool lossy, TokenTexts &out) const override {
        std::string bytes;
        in.each([&](std::string_view token, std::size_t) {
            const int byte = named_byte(token, true);
            if (byte >= 0) {
                bytes.push_back(static_cast<char>(byte));
                return;
            }
            spelled(bytes, lossy, out);
            out.text += token;
            out.close();
        });
        spelled(bytes, lossy, out);
    }

  private:
    static void spelled(std::string &bytes, bool lossy, TokenTexts &out) {
        if (bytes.empty()) return;
        if (lossy && valid_prefix(bytes) != bytes.size()) {
            for (std::size_t i = 0; i < bytes.size(); ++i) {
                out.text += REPLACEMENT;
                out.close();
            }
        } else {
            out.text += bytes;
            out.close();
        }
        bytes.clear();
    }
};

// Letters of the byte alphabet as bytes: whole tokens, then joined; or letter by letter.
void map_letters(std::string_view token, bool whole, std::string &out) {
    const std::size_t start = out.size();
    for (std::size_t at = 0; at < token.size();) {
        const auto c = decode(token, at);
        const int byte = ALPHABET.byte_of(c.value);
        if (byte >= 0) {
            out.push_back(static_cast<char>(byte));
        } else if (whole) {
            out.resize(start);
            out += token;
            return;
        } else {
            out += token.substr(at, c.size);
        }
        at += c.size;
    }
}

template <bool WHOLE> class LettersStep final : public EachStep {
  protected:
    void each(std::string_view token, bool, bool, TokenTexts &out) const override {
        map_letters(token, WHOLE, out.text);
    }
};

class EachByteStep final : public EachStep {
  protected:
    void each(std::string_view token, bool, bool, TokenTexts &out) const override {
        const int byte = named_byte(token, false);
        if (byte < 0)
            out.text += token;
        else
            out.text.push_back(static_cast<char>(byte));
    }
};

// The first token loses a space in front.
class FirstSpaceStep final : public EachStep {
  protected:
    void each(std::string_view token, bool first, bool, TokenTexts &out) const override {
        out.text += first && token.starts_with(' ') ? token.substr(1) : token;
    }
};

class FirstMarkStep final : public EachStep {
  protected:
    void each(std::string_view token, bool, bool, TokenTexts &out) const override {
        const std::size_t at = token.find(MARK);
        out.text += token.substr(0, at);
        if (at == std::string_view::npos) return;
        out.text.push_back(' ');
        out.text += token.substr(at + MARK.size());
    }
};

// What goes on by characters cannot join parts of one that the pipeline keeps apart.
class WholeStep final : public EachStep {
  protected:
    void each(std::string_view token, bool, bool, TokenTexts &out) const override {
        if (valid_prefix(token) != token.size()) throw Deferred();
        out.text += token;
    }
};

// Bytes as text, where characters are wanted.
class TextStep final : public DecodeStep {
  public:
    void run(const TokenTexts &in, bool lossy, TokenTexts &out) const override {
        in.each([&](std::string_view token, std::size_t) {
            if (lossy)
                append_text(token, out.text);
            else
                out.text += token;
            out.close();
        });
    }
};

// A text once off the start of the first and the end of the last token.
class EndsStep final : public EachStep {
  public:
    explicit EndsStep(Reader &program)
        : content_(read_text(program, "content")), start_(read_flag(program, "start")),
          stop_(read_flag(program, "stop")) {}

  protected:
    void each(std::string_view token, bool first, bool last, TokenTexts &out) const override {
        if (first && start_ && token.starts_with(content_)) token.remove_prefix(content_.size());
        if (last && stop_ && token.ends_with(content_)) token.remove_suffix(content_.size());
        out.text += token;
    }

  private:
    std::string_view content_;
    bool start_;
    bool stop_;
};

} // namespace

std::unique_ptr<DecodeStep> make_byte_step(std::uint8_t kind, Reader &program) {
    switch (static_cast<DecoderKind>(kind)) {
    case DecoderKind::BYTE_RUNS:
        return std::make_unique<ByteRunsStep>();
    case DecoderKind::BYTES:
        return std::make_unique<LettersStep<true>>();
    case DecoderKind::EACH_LETTER:
        return std::make_unique<LettersStep<false>>();
    case DecoderKind::EACH_BYTE:
        return std::make_unique<EachByteStep>();
    case DecoderKind::FIRST_SPACE:
        return std::make_unique<FirstSpaceStep>();
    case DecoderKind::FIRST_MARK:
        return std::make_unique<FirstMarkStep>();
    case DecoderKind::ENDS:
        return std::make_unique<EndsStep>(program);
    case DecoderKind::WHOLE:
        return std::make_unique<WholeStep>();
    case DecoderKind::TEXT:
        return std::make_unique<TextStep>();
    default:
        throw FormatError("is " + std::to_string(kind), "step");
    }
}

} // namespace mtkit
