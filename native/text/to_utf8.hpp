// Code points to UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mtkit {

// Bytes that a code point of such a unit may take.
template <typename Unit>
inline constexpr std::size_t UTF8_BYTES = sizeof(Unit) == 4 ? 4 : sizeof(Unit) + 1;

// Bytes behind those that are written over: there has to be room for them, too.
inline constexpr std::size_t UTF8_SLACK = 32;

// Write the UTF-8 of code points; returns its end. Null: there is a surrogate.
char *to_utf8(const std::uint8_t *from, std::size_t count, char *to);
char *to_utf8(const std::uint16_t *from, std::size_t count, char *to);
char *to_utf8(const std::uint32_t *from, std::size_t count, char *to);

} // namespace mtkit
