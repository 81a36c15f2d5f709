// Strings of an array in GGUF metadata: each a length and its bytes, without an index.
//
// Walking them proves that all of them lie in the file; packing copies them into one blob.
// Every length is checked against what is left, so no value of it can lead outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mtkit {

struct StringLayout {
    bool wide;       // lengths of 64 bits (since version 2), else of 32
    bool big_endian; // byte order of the lengths
};

struct PackedStrings {
    std::string blob;
    std::vector<std::uint32_t> ends; // where each string ends in the blob
};

// The offset behind `count` strings that begin at `offset`; the offset of every `every`-th string
// is appended to `marks`. Throws FormatError when one of them is not in the file.
std::uint64_t walk_strings(std::span<const std::byte> data, std::size_t offset, std::uint64_t count,
                           StringLayout layout, std::uint64_t every,
                           std::vector<std::uint64_t> &marks);

// The strings themselves. Throws FormatError as above, and for 4 GiB or more.
PackedStrings pack_strings(std::span<const std::byte> data, std::size_t offset, std::uint64_t count,
                           StringLayout layout);

} // namespace mtkit
