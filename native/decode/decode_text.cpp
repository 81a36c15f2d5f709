// Spellings of single pieces and runs of bytes on the way back to text.
#include "decode/decoder.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

// How many of the bytes at a place that begins no character could begin one, at least one.
std::size_t broken_size(std::string_view text) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    const unsigned char first = byte(0);
    if (first < 0xC2 || first > 0xF4) return 1;
    const std::size_t whole = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (text.size() < 2 || byte(1) < low || byte(1) > high) return 1;
    std::size_t size = 2;
    while (size < whole && size < text.size() && is_continuation(text[size])) ++size;
    return size;
}

} // namespace

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

void append_replaced(std::string_view text, std::string_view from, std::string_view to,
                     std::string &out) {
    std::size_t done = 0;
    // As pieces mostly do that have it at all.
    if (!text.empty() && text[0] == from[0] && text.starts_with(from)) {
        out += to;
        done = from.size();
    }
    while (done < text.size() && text.size() > from.size()) {
        const std::size_t at = text.find(from, done);
        if (at == std::string_view::npos) break;
        out += text.substr(done, at - done);
        out += to;
        done = at + from.size();
    }
    if (done < text.size()) out += text.substr(done);
}

void append_text(std::string_view bytes, std::string &out) {
    for (std::size_t at = 0; at < bytes.size();) {
        const auto rest = bytes.substr(at);
        const std::size_t good = valid_prefix(rest);
        out += rest.substr(0, good);
        at += good;
        if (at == bytes.size()) return;
        out += REPLACEMENT;
        at += broken_size(bytes.substr(at));
    }
}

void spell_byte_run(std::string_view run, std::string &out) {
    for (std::size_t at = 0; at < run.size();) {
        const auto part = run.substr(at, character_size(run[at]));
        if (valid_prefix(part) == part.size()) {
            out += part;
            at += part.size();
        } else {
            out += REPLACEMENT;
            ++at;
        }
    }
}

void scan_byte(std::string_view piece, std::string &out) {
    const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
    std::string_view rest = piece;
    if (rest.starts_with("<0x")) {
        rest.remove_prefix(3);
        while (!rest.empty() && is_space(rest.front())) rest.remove_prefix(1);
        const int first = rest.empty() ? -1 : hex_digit(rest[0]);
        const int second = rest.size() < 2 ? -1 : hex_digit(rest[1]);
        if (first >= 0) {
            const int byte = second < 0 ? first : 16 * first + second;
            // It is printed as a C string: byte 0 gives nothing.
            if (byte != 0) out.push_back(static_cast<char>(byte));
            return;
        }
    }
    out += piece;
}

} // namespace mtkit
