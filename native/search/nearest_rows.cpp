#include "search/nearest_rows.hpp"

#include <algorithm>

#include "base/compiler.hpp"

namespace mtkit {

namespace {

// Of all rows of a table; products of up to 2^16 columns fit 32 bits.
MTKIT_FOR_EACH_CPU void multiply(const std::int8_t *rows, const std::int16_t *wanted,
                                 std::size_t width, std::int32_t *products, std::size_t count) {
    for (std::size_t row = 0; row < count; ++row) {
        const std::int8_t *values = rows + row * width;
        std::int32_t sum = 0;
        for (std::size_t at = 0; at < width; ++at) sum += std::int16_t{values[at]} * wanted[at];
        products[row] = sum;
    }
}

constexpr std::size_t CHUNK = 1024;

} // namespace

std::vector<NearRow> nearest_rows(const ByteRows &table, std::span<const std::int8_t> wanted,
                                  float wanted_length, std::size_t skip, std::size_t most,
                                  float least) {
    std::vector<NearRow> found;
    const std::vector<std::int16_t> wide(wanted.begin(), wanted.end());
    std::int32_t products[CHUNK];
    const std::size_t count = table.lengths.size();
    for (std::size_t first = 0; first < count; first += CHUNK) {
        const std::size_t size = std::min(CHUNK, count - first);
        multiply(table.values.data() + first * table.width, wide.data(), table.width, products,
                 size);
        for (std::size_t at = 0; at < size; ++at) {
            const std::size_t row = first + at;
            const float length = table.lengths[row];
            if (!(length > 0.0F) || row == skip) continue;
            const float cosine = static_cast<float>(products[at]) / (length * wanted_length);
            if (cosine >= least) found.push_back({static_cast<std::uint32_t>(row), cosine});
        }
    }
    const auto nearer = [](const NearRow &a, const NearRow &b) {
        return a.cosine != b.cosine ? a.cosine > b.cosine : a.row < b.row;
    };
    most = std::min(most, found.size());
    std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(most), found.end(),
                      nearer);
    found.resize(most);
    return found;
}

} // namespace mtkit
