// Code points to UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mtkit {

// What has to be there to be written: bytes for each code point, and some more.
template <typename Unit>
inline constexpr std::size_t UTF8_BYTES = sizeof(Unit) == 4 ? 4 : sizeof(Unit) + 1;
inline constexpr std::size_t UTF8_MORE = 32;

// Write the UTF-8 of code points; returns its end. Null: there is a surrogate.
char *to_utf8(const std::uint8_t *from, std::size_t count, char *to);
char *to_utf8(const std::uint16_t *from, std::size_t count, char *to);
char *to_utf8(const std::uint32_t *from, std::size_t count, char *to);

} // namespace mtkit
