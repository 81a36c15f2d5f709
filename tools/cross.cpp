// Answers of the core on texts: ids, places and decoded text, a line each; tools/cross.py says why.
//
// Arguments: a file of tables as native/fuzz/packed.hpp reads them, a file of texts, each behind
// its u32 size.
#include <cstdio>
#include <fstream>
#include <iterator>

#include "fuzz/answers.hpp"
#include "fuzz/packed.hpp"

namespace {

std::string content(const char *path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

void print(const std::vector<std::uint32_t> &numbers) {
    for (const auto number : numbers) std::printf(" %u", static_cast<unsigned>(number));
}

} // namespace

int main(int, char **arguments) {
    using namespace mtkit;
    const std::string bytes = content(arguments[1]);
    const fuzz::Packed packed(reinterpret_cast<const std::uint8_t *>(bytes.data()), bytes.size());
    const Engine engine(packed.tables());
    const Decoder decoder(packed.tables());
    const std::string texts = content(arguments[2]);
    std::uint32_t size = 0;
    for (std::size_t at = 0; at < texts.size(); at += size) {
        std::memcpy(&size, texts.data() + at, sizeof size);
        at += sizeof size;
        const auto text = std::string_view(texts).substr(at, size);
        const auto ids = fuzz::ids_of(engine, text, {});
        if (ids) print(*ids);
        std::printf("\t");
        const auto places = fuzz::places_of(engine, text, {});
        if (places) print(places->places);
        std::printf("\t");
        std::string out;
        if (ids && fuzz::answers([&] { decoder.decode(*ids, false, false, out); }))
            for (const char byte : out)
                std::printf("%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
        std::printf("\n");
    }
    return 0;
}
