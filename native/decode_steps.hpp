// What the steps of decoders share.
#pragma once

#include "decoder.hpp"

namespace mtkit {

// Numbers of the steps; decode_program.py has the same.
enum class StepKind : std::uint8_t {
    REPLACE = 1,
    GLUE = 2,
    CLEAN = 3,
    BYTE_RUNS = 4,
    JOIN = 5,
    STRIP = 6,
    DIFFERENT = 7,
    NOT_EMPTY = 8,
    BYTES = 9,
    EACH_LETTER = 10,
    EACH_BYTE = 11,
    FIRST_SPACE = 12,
    FIRST_MARK = 13,
    ENDS = 14,
    MATCHES = 15,
    WHOLE = 16,
    TEXT = 17,
};

// A step that makes one text of each token.
class EachStep : public DecodeStep {
  public:
    void run(const TokenTexts &in, bool, TokenTexts &out) const override {
        out.text.reserve(in.text.size() + in.ends.size());
        out.ends.reserve(in.ends.size());
        std::size_t start = 0;
        for (std::size_t i = 0; i < in.ends.size(); ++i) {
            const auto token = std::string_view(in.text).substr(start, in.ends[i] - start);
            each(token, i == 0, i + 1 == in.ends.size(), out.text);
            out.close();
            start = in.ends[i];
        }
    }

  protected:
    virtual void each(std::string_view token, bool first, bool last, std::string &out) const = 0;
};

// The steps that turn tokens into bytes or look at their ends.
std::unique_ptr<DecodeStep> make_byte_step(std::uint8_t kind, Reader &program);

} // namespace mtkit
