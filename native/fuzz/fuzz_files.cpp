// Any bytes as the tables of a .mtok base file and as the strings of a GGUF.
#include <span>

#include "files/gguf_strings.hpp"
#include "files/mtok_tables.hpp"
#include "fuzz/answers.hpp"
#include "fuzz/packed.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    using namespace mtkit::fuzz;
    if (size < 4) return 0;
    const std::size_t count = data[0] | static_cast<std::size_t>(data[1]) << 8;
    const std::size_t offset = data[2];
    const bool first = (data[3] & 1) != 0;
    const bool second = (data[3] & 2) != 0;
    const std::vector<std::uint8_t> own(data + 4, data + size);
    const auto bytes = std::as_bytes(std::span(own));
    answers([&] {
        const auto vocab = mtkit::parse_mtok_vocab(bytes, offset, count, first);
        mtkit::parse_mtok_merges(bytes, vocab.end, count, {vocab.blob, vocab.ends}, vocab.hidden);
    });
    answers([&] {
        std::vector<std::uint64_t> marks;
        const auto end = mtkit::walk_strings(bytes, offset, count, {first, second}, 3, marks);
        require(end <= bytes.size());
        const auto packed = mtkit::pack_strings(bytes, offset, count, {first, second});
        require(packed.ends.size() == count);
    });
    return 0;
}
