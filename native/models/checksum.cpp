// A stand-in for a vocabulary in tests: every five bytes are one id, their checksum.
//
// Source: ggml-org/llama.cpp, llama-vocab.cpp, llm_tokenizer_test.
#include <algorithm>

#include "models/models.hpp"

namespace mtkit {

namespace {

constexpr std::size_t CHUNK_BYTES = 5;
constexpr std::uint64_t FACTOR = 31;

class Checksum final : public Model {
  public:
    explicit Checksum(const Vocabulary &vocabulary) : size_(vocabulary.pieces.size()) {
        if (size_ == 0) throw FormatError("is empty", "vocabulary");
    }

    void encode(std::string_view word, ModelScratch &, std::vector<Token> &out) const override {
        for (std::size_t at = 0; at < word.size(); at += CHUNK_BYTES) {
            const std::size_t end = std::min(at + CHUNK_BYTES, word.size());
            std::uint64_t number = 0;
            for (const char c : word.substr(at, end - at))
                number = number * FACTOR + static_cast<unsigned char>(c);
            out.push_back({static_cast<std::uint32_t>(number % size_),
                           static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(end)});
        }
    }

  private:
    std::uint64_t size_;
};

} // namespace

std::unique_ptr<Model> make_checksum(const Vocabulary &vocabulary) {
    return std::make_unique<Checksum>(vocabulary);
}

} // namespace mtkit
