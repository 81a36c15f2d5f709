// The rows of an int8 table that are nearest to one by cosine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mtkit {

struct NearRow {
    std::uint32_t row;
    float cosine;
};

// A table of int8 rows of one width, and the length of each.
struct ByteRows {
    std::span<const std::int8_t> values;
    std::span<const float> lengths;
    std::size_t width;
};

// The nearest first, of equals the lowest row; rows of length 0 and `skip` are left out. The
// products are whole numbers, so the cosines do not depend on the order of adding.
[[nodiscard]] std::vector<NearRow> nearest_rows(const ByteRows &table,
                                                std::span<const std::int8_t> wanted,
                                                float wanted_length, std::size_t skip,
                                                std::size_t most, float least);

} // namespace mtkit
