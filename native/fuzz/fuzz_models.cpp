// A tokenizer, any text: what the cache has seen and what offsets cost never change an id.
//
// MTKIT_FUZZ_TABLES names the file of its tables.
#include <fstream>
#include <iterator>
#include <memory>

#include "fuzz/answers.hpp"
#include "fuzz/packed.hpp"

namespace {

using namespace mtkit;
using fuzz::require;

std::unique_ptr<fuzz::Packed> packed;
std::unique_ptr<Engine> warm;
std::unique_ptr<Engine> narrow; // remembers little
std::unique_ptr<Decoder> decoder;

constexpr std::uint8_t SOME = 32;

void load(const char *path) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    require(!bytes.empty());
    packed = std::make_unique<fuzz::Packed>(reinterpret_cast<const std::uint8_t *>(bytes.data()),
                                            bytes.size());
    warm = std::make_unique<Engine>(packed->tables(), WordCache::USUAL_BYTES, true);
    narrow = std::make_unique<Engine>(packed->tables(), std::size_t{1} << 16);
    decoder = std::make_unique<Decoder>(packed->tables());
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
    const char *path = std::getenv("MTKIT_FUZZ_TABLES");
    require(path != nullptr);
    load(path);
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    if (size == 0) return 0;
    const EncodeOptions options{false, data[0] % 3 - 1, false};
    // Memory of its own: a read behind the text is seen.
    const std::vector<char> bytes(data + 1, data + size);
    const std::string_view text(bytes.data(), bytes.size());
    const auto ids = fuzz::ids_of(*warm, text, options);
    require(fuzz::ids_of(*warm, text, options) == ids);
    require(fuzz::ids_of(*narrow, text, options) == ids);
    if (data[0] < SOME) { // making an engine takes longer than the text
        const Engine cold(packed->tables());
        require(fuzz::ids_of(cold, text, options) == ids);
    }
    if (!ids) return 0;
    if (warm->aligns()) {
        // The pipeline may have to say where tokens are.
        const auto tokens = fuzz::tokens_of(*warm, text, options);
        require(!tokens || tokens->ids == *ids);
        for (int time = 0; time < 2; ++time) { // the second from what is remembered
            const auto places = fuzz::places_of(*warm, text, options);
            require(!places || places->ids == *ids);
            require(!places || !tokens || places->places == tokens->places);
        }
    }
    for (const bool flag : {false, true})
        fuzz::answers([&] {
            std::string out;
            decoder->decode(*ids, flag, flag, out);
        });
    return 0;
}
