// What the steps of decoders share.
#pragma once

#include "decode/decoder.hpp"
#include "tables/opcodes.hpp"

namespace mtkit {

// A step that makes one text of each token.
class EachStep : public DecodeStep {
  public:
    void run(const TokenTexts &in, bool, TokenTexts &out) const override {
        out.text.reserve(in.text.size() + in.ends.size());
        out.ends.reserve(in.ends.size());
        in.each([&](std::string_view token, std::size_t i) {
            each(token, i == 0, i + 1 == in.ends.size(), out);
            out.close();
        });
    }

  protected:
    virtual void each(std::string_view token, bool first, bool last, TokenTexts &out) const = 0;
};

// The steps that turn tokens into bytes or look at their ends.
std::unique_ptr<DecodeStep> make_byte_step(std::uint8_t kind, Reader &program);

} // namespace mtkit
