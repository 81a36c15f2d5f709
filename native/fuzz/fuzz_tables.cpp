// Any tables: an engine and a decoder refuse them or answer, within bounds.
#include "fuzz/answers.hpp"
#include "fuzz/packed.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace mtkit::fuzz;
    const Packed packed(data, size);
    answers([&] {
        const mtkit::Engine engine(packed.tables());
        std::vector<std::uint32_t> ids{0, 1, 2, 3, 1U << 20, ~0U};
        for (const std::string &text :
             {packed.text(), std::string("abc ab's 12 <x>\n\xE2\x96\x81 e\xCC\x81")}) {
            if (const auto found = ids_of(engine, text, {}))
                ids.insert(ids.end(), found->begin(), found->end());
            if (engine.aligns()) tokens_of(engine, text, {});
        }
        answers([&] {
            mtkit::Decoder decoder(packed.tables());
            std::string out;
            for (const bool flag : {false, true}) decoder.decode(ids, flag, flag, out);
        });
    });
    return 0;
}
