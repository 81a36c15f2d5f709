// Any split pattern's tables over any text: matches lie in the text, one behind the other.
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
        std::size_t behind = 0;
        pattern.find({text.data(), text.size()}, [&](std::size_t start, std::size_t end) {
            require(behind <= start && start <= end && end <= text.size());
            behind = end;
        });
    });
    return 0;
}
