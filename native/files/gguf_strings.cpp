#include "files/gguf_strings.hpp"

#include <limits>

#include "base/errors.hpp"
#include "base/reader.hpp"

namespace mtkit {
namespace {

template <typename T> T swapped(T value) {
    T result = 0;
    for (std::size_t i = 0; i < sizeof value; ++i) {
        result = static_cast<T>(result << 8 | (value & 0xff));
        value = static_cast<T>(value >> 8);
    }
    return result;
}

std::uint64_t length_of(Reader &reader, StringLayout layout) {
    if (layout.wide) {
        const auto value = reader.scalar<std::uint64_t>("length");
        return layout.big_endian ? swapped(value) : value;
    }
    const auto value = reader.scalar<std::uint32_t>("length");
    return layout.big_endian ? swapped(value) : value;
}

} // namespace

std::uint64_t walk_strings(std::span<const std::byte> data, std::size_t offset, std::uint64_t count,
                           StringLayout layout, std::uint64_t every,
                           std::vector<std::uint64_t> &marks) {
    auto reader = reader_at(data, offset, "strings");
    for (std::uint64_t i = 0; i < count; ++i) {
        if (every != 0 && i % every == 0) marks.push_back(offset + reader.offset());
        reader.take(length_of(reader, layout), "string");
    }
    return offset + reader.offset();
}

PackedStrings pack_strings(std::span<const std::byte> data, std::size_t offset, std::uint64_t count,
                           StringLayout layout) {
    std::uint64_t total = 0;
    auto reader = reader_at(data, offset, "strings");
    for (std::uint64_t i = 0; i < count; ++i)
        total += reader.take(length_of(reader, layout), "string").size();
    if (total > std::numeric_limits<std::uint32_t>::max())
        throw FormatError("has strings of 4 GiB or more", "strings", offset);

    // Both sizes are bounded by the file now: each string took the bytes of its length there.
    PackedStrings packed;
    packed.blob.reserve(static_cast<std::size_t>(total));
    packed.ends.reserve(static_cast<std::size_t>(count));
    reader = reader_at(data, offset, "strings");
    for (std::uint64_t i = 0; i < count; ++i) {
        packed.blob += reader.text(length_of(reader, layout), "string");
        packed.ends.push_back(static_cast<std::uint32_t>(packed.blob.size()));
    }
    return packed;
}

} // namespace mtkit
