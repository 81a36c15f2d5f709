// Places of tokens in bytes of a text as places in its characters.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace mtkit {

// Change start and end of each token: it stands for the characters that it has a byte of.
void to_characters(std::string_view text, std::span<std::uint32_t> places);

} // namespace mtkit
