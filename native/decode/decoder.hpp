// Ids back to bytes: pieces by id, what is special about some ids, then steps over the tokens.
//
// Needs the sections PCSB, PCSE, DECO and PT00, PT01 ... of tables.hpp; decode_program.py writes
// the last one. What depends on more than a regular piece (added tokens, roles) is listed there by
// id, so that the rest is a copy out of the pieces. Rare input is `Deferred` to the pipeline.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/reader.hpp"
#include "steps/steps.hpp"
#include "tables/opcodes.hpp"
#include "tables/tables.hpp"

namespace mtkit {

// The tokens of a sequence: all their bytes, and where each ends.
struct TokenTexts {
    std::string text;
    std::vector<std::size_t> ends;
    std::size_t given = 0; // bytes that the ids stand for, and one for each

    // Bytes that may become of them, as in mtkit/pipeline/growth.py.
    [[nodiscard]] std::size_t most() const {
        return given + std::max(Arena::GROWTH_BYTES, Arena::GROWTH_FACTOR * given);
    }
    void require(std::size_t bytes) const {
        if (bytes > most())
            throw ResourceError("the text becomes longer than " + std::to_string(most()) + " bytes",
                                "decoder");
    }
    void clear() {
        text.clear();
        ends.clear();
    }
    void close() { ends.push_back(text.size()); }
    // Take each token, with its number.
    template <typename Take> void each(const Take &take) const {
        std::size_t start = 0;
        for (std::size_t i = 0; i < ends.size(); ++i) {
            take(std::string_view(text).substr(start, ends[i] - start), i);
            start = ends[i];
        }
    }
};

// Tokens to tokens.
class DecodeStep {
  public:
    virtual ~DecodeStep() = default;
    // `lossy`: characters are wanted, U+FFFD for bytes that are none.
    virtual void run(const TokenTexts &in, bool lossy, TokenTexts &out) const = 0;

    // What Decoder::join does itself. ALONE: it does the same to each token, wherever that stands;
    // no token is <0xHH> before and another one behind it, or the other way round.
    enum class Kind { OTHER, ALONE, BYTE_RUNS, JOIN };
    [[nodiscard]] virtual Kind kind() const { return Kind::OTHER; }
    // ALONE: append what it makes of a token.
    virtual void append(std::string_view /*token*/, std::string & /*out*/) const {}
};

std::unique_ptr<DecodeStep> make_decode_step(Reader &program, Tables &tables);

class Decoder {
  public:
    explicit Decoder(Tables tables);

    // Number of ids of vocabulary and added tokens.
    [[nodiscard]] std::uint32_t vocab_size() const { return vocab_size_; }

    void decode(std::span<const std::uint32_t> ids, bool skip_special_tokens, bool lossy,
                std::string &out) const;

  private:
    struct Found {
        std::string_view text;
        std::uint8_t flags;
        bool listed;
    };

    [[nodiscard]] Found find(std::uint32_t id) const;
    [[nodiscard]] Found find_listed(std::uint32_t id) const;
    void spell(std::string_view piece, std::string &out) const;
    void gather(std::span<const std::uint32_t> ids, bool skip, bool joined, TokenTexts &out) const;
    void join(std::span<const std::uint32_t> ids, bool skip, bool lossy, TokenTexts &out) const;
    void subwords(std::span<const std::uint32_t> ids, std::string &out) const;
    void after_bos(std::span<const std::uint32_t> ids, bool skip, std::string &out) const;

    Tables tables_;
    PieceTable pieces_;
    std::uint32_t vocab_size_ = 0;
    Family family_ = Family::CHAIN;
    Spelling spelling_ = Spelling::AS_IS;
    bool known_ = false; // an id without a piece stands for `unknown_`
    std::string_view unknown_;
    bool drops_ = false;       // subwords: marks at the start are dropped
    bool drops_all_ = false;   // all of them
    std::uint32_t bos_ = NONE; // after_bos
    std::vector<bool> marked_; // ids that are listed
    std::vector<std::uint32_t> listed_;
    PieceTable texts_;
    std::vector<std::uint32_t> ends_;
    std::string_view flags_;
    std::vector<std::unique_ptr<DecodeStep>> steps_;
    std::size_t joined_ = 0;                 // join() does so many of them
    const DecodeStep *alone_ = nullptr;      // the first of those, if it is ALONE
    bool byte_runs_ = false;                 // one of those
    std::unique_ptr<Normalizer> normalizer_; // subwords: of the joined text
};

// Append a run of bytes as SentencePiece does: characters, U+FFFD for each byte that is none.
void spell_byte_run(std::string_view run, std::string &out);

// Value of a hexadecimal digit, -1: it is none.
int hex_digit(char c);

// The characters that names of bytes, <0xHH>, are made of.
inline constexpr std::string_view IN_NAMES = "<0x123456789abcdefABCDEF+>";
// The byte that <0xHH> spells, or -1; a sign as the first digit where `sign`.
inline int named_byte(std::string_view token, bool sign) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
    const int high = sign && token[3] == '+' ? 0 : hex_digit(token[3]);
    const int low = hex_digit(token[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

// Append what karpathy/llama2.c prints for a piece: `<0xHH` as its byte.
void scan_byte(std::string_view piece, std::string &out);

// Append bytes as text: U+FFFD for each stretch that is the beginning of no character.
void append_text(std::string_view bytes, std::string &out);

// Append bytes with each `from` as `to`; `from` is not empty.
void append_replaced(std::string_view text, std::string_view from, std::string_view to,
                     std::string &out);

} // namespace mtkit
