// Vocabulary and merges of a tokenizer.json, which are nearly all of it, and the document without
// them.
//
// mtkit/formats/hf/model_reader.py says what they mean. This takes the ordinary file alone:
// whatever is odd about one (damage above all) makes it give up, and the readable code reads the
// whole file and says what is wrong. It never takes what that refuses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mtkit {

class JsonModel {
  public:
    // Nothing where it gives up.
    static std::optional<JsonModel> read(std::string_view document);

    // The document with {} or [] for the vocabulary, and for merges that there are [""] or [[]], as
    // they are written, [] for none. It was looked at no more than to find its parts.
    [[nodiscard]] const std::string &rest() const { return rest_; }
    // Tokens by id; nothing at an id that none has.
    [[nodiscard]] const std::string &blob() const { return blob_; }
    [[nodiscard]] const std::vector<std::uint32_t> &ends() const { return ends_; }
    [[nodiscard]] std::size_t count() const { return tokens_; }
    // u8 each: whether there is one.
    [[nodiscard]] const std::string &present() const { return present_; }
    // Left and right in turn; nothing where the document has no list of merges.
    [[nodiscard]] const std::optional<std::vector<std::uint32_t>> &merges() const {
        return merges_;
    }
    // By id, where the vocabulary is a list of tokens with scores; then nothing can be found in it.
    [[nodiscard]] const std::optional<std::vector<double>> &scores() const { return scores_; }
    [[nodiscard]] std::optional<std::uint32_t> find(std::string_view token) const;

  private:
    class Reader;
    // A token behind the others, the end of which may lie in `blob_` already.
    void add(std::string_view token, bool present);

    std::string rest_;
    std::string blob_;
    std::vector<std::uint32_t> ends_;
    std::string present_;
    std::vector<std::uint64_t> slots_; // of a WordTable; it finds no empty token
    std::optional<std::uint32_t> empty_;
    std::size_t tokens_ = 0;
    std::optional<std::vector<std::uint32_t>> merges_;
    std::optional<std::vector<double>> scores_;
};

} // namespace mtkit
