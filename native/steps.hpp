// Steps on text: what normalizers and pre-tokenizers are compiled to.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reader.hpp"
#include "tables.hpp"

namespace mtkit {

// A stretch of text on its way to the model.
struct Part {
    std::string_view text;
    bool at_start = false;      // it was cut out of the very start of the input
    bool head_at_start = false; // its first character stands for the first one of the input

    // Bytes start to end as a part of their own.
    [[nodiscard]] Part cut(std::size_t start, std::size_t end) const {
        const bool first = head_at_start && start == 0;
        return {text.substr(start, end - start), first, first};
    }
    // The same place with new text.
    [[nodiscard]] Part with(std::string_view changed) const {
        return {changed, at_start, head_at_start};
    }
};

// Strings that live until the end of a call; their memory is reused by the next.
class Arena {
  public:
    std::string &fresh() {
        if (used_ == strings_.size()) strings_.push_back(std::make_unique<std::string>());
        auto &out = *strings_[used_++];
        out.clear();
        return out;
    }

    void reset() {
        for (std::size_t i = 0; i < used_; ++i)
            if (strings_[i]->capacity() > LARGE) std::string().swap(*strings_[i]);
        if (strings_.size() > MANY) strings_.resize(MANY);
        used_ = 0;
    }

  private:
    static constexpr std::size_t LARGE = 1U << 20;
    static constexpr std::size_t MANY = 1024;
    std::vector<std::unique_ptr<std::string>> strings_;
    std::size_t used_ = 0;
};

// Text to text.
class Normalizer {
  public:
    virtual ~Normalizer() = default;
    // Change the part; new text goes to `arena`.
    virtual void run(Part &part, Arena &arena) const = 0;
};

// Parts to parts.
class PreTokenizer {
  public:
    virtual ~PreTokenizer() = default;
    // Append what becomes of one part; empty parts are left out.
    virtual void run(const Part &part, Arena &arena, std::vector<Part> &out) const = 0;
};

std::unique_ptr<Normalizer> make_normalizer(Reader &program, Tables &tables);
std::unique_ptr<PreTokenizer> make_pre_tokenizer(Reader &program, Tables &tables);
std::unique_ptr<Normalizer> make_form(Reader &program);
std::unique_ptr<Normalizer> make_charsmap(Reader &program);
std::unique_ptr<Normalizer> make_spaces(Reader &program);

using Span = std::pair<std::size_t, std::size_t>;

// Finds matches in a text, left to right, not overlapping.
class Matcher {
  public:
    virtual ~Matcher() = default;
    virtual void find(std::string_view text, std::vector<Span> &out) const = 0;
};

std::unique_ptr<Matcher> make_matcher(Reader &program, Tables &tables);

} // namespace mtkit
