// Short words that are merged from bytes together: in lanes of AVX-512, or in turn, one of which
// waits for memory while others go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "models/ascii_ranks.hpp"
#include "models/models.hpp"

namespace mtkit {

// How long a text is for whose new words that takes less than one by one, in bytes.
std::size_t worth_merging_together(const PairTable &pairs);

// Those of `words` with these numbers: short, of ASCII, none empty, Model::TOGETHER at most.
// `byte_ids` are the symbols of bytes. `ranks`: null, not made yet, and in turn.
void merge_together(std::span<const std::string_view> words, std::span<const std::uint8_t> numbers,
                    const PairTable &pairs, const std::uint32_t *byte_ids, const AsciiRanks *ranks,
                    const Model::PutIds &put);

} // namespace mtkit
