// Short words that are merged side by side, from bytes: what takes longest in one alone is to wait
// for memory.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "models/ascii_ranks.hpp"
#include "models/models.hpp"

namespace mtkit {

// Whether that takes less than one by one.
bool merges_well_together(const PairTable &pairs);

// Those of `words` with these numbers: of ASCII, Model::TOGETHER at most. `byte_ids` are the
// symbols of bytes, `ranks` may be null.
void merge_together(std::span<const std::string_view> words, std::span<const std::uint8_t> numbers,
                    const PairTable &pairs, const std::uint32_t *byte_ids, const AsciiRanks *ranks,
                    const Model::PutIds &put);

} // namespace mtkit
