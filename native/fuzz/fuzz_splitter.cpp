// Any split pattern's tables over any text: matches lie in the text, one behind the other, and
// where arithmetic says that words start, they start.
#include <algorithm>
#include <bit>

#include "fuzz/answers.hpp"
#include "fuzz/packed.hpp"
#include "steps/pattern_walk.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace mtkit::fuzz;
    const Packed packed(data, size);
    answers([&] {
        mtkit::Tables tables = packed.tables();
        const mtkit::Pattern pattern(tables.numbers<std::uint32_t>("PT00"));
        const std::vector<char> text(packed.text().begin(), packed.text().end());
        std::vector<std::size_t> starts;
        std::size_t behind = 0;
        pattern.find({text.data(), text.size()}, [&](std::size_t start, std::size_t end) {
            require(behind <= start && start <= end && end <= text.size());
            behind = end;
            starts.push_back(start);
        });
        const auto word_starts = mtkit::word_starts(pattern.family());
        if (word_starts == nullptr) return;
        for (const auto start : starts) {
            unsigned char block[64] = {};
            const auto left = std::min(text.size() - start, sizeof block);
            std::copy_n(text.begin() + static_cast<std::ptrdiff_t>(start), left, block);
            auto bits = word_starts(block, left);
            auto expected = std::lower_bound(starts.begin(), starts.end(), start);
            for (; bits != 0; bits &= bits - 1, ++expected)
                require(expected != starts.end() &&
                        *expected == start + static_cast<std::size_t>(std::countr_zero(bits)));
        }
    });
    return 0;
}
