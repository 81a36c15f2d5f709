#include "files/rank_lines.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <unordered_set>

#include "text/alphabet.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

constexpr std::size_t HIGHEST_RANK = 1U << 24;
constexpr std::string_view DIGITS =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr unsigned NO_DIGIT = 64;

constexpr std::array<unsigned char, 256> VALUES = [] {
    std::array<unsigned char, 256> values{};
    values.fill(NO_DIGIT);
    for (std::size_t i = 0; i < DIGITS.size(); ++i)
        values[static_cast<unsigned char>(DIGITS[i])] = static_cast<unsigned char>(i);
    return values;
}();

// Decode base64 behind what `out` holds; whether it is some, with its padding.
bool decode_base64(std::string_view text, std::string &out) {
    if (text.empty() || text.size() % 4 != 0) return false;
    const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
    for (std::size_t at = 0; at < text.size(); at += 4) {
        const std::size_t digits = at + 4 == text.size() ? 4 - padding : 4;
        std::uint32_t value = 0;
        for (std::size_t i = 0; i < 4; ++i) {
            const unsigned digit =
                i < digits ? VALUES[static_cast<unsigned char>(text[at + i])] : 0U;
            if (digit == NO_DIGIT) return false;
            value = value << 6 | digit;
        }
        for (std::size_t i = 0; i + 1 < digits; ++i)
            out.push_back(static_cast<char>(value >> (16 - 8 * i) & 0xFF));
    }
    return true;
}

struct RankEntry {
    std::uint32_t rank;
    std::size_t start;
    std::size_t end;
};

// Read one line; whether it is a token and a rank.
bool read_line(std::string_view line, std::string &tokens, std::vector<RankEntry> &entries) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) return false;
    const auto number = line.substr(blank + 1);
    if (number.empty() || number.size() > 8) return false;
    std::uint32_t rank = 0;
    for (const char digit : number) {
        if (digit < '0' || digit > '9') return false;
        rank = rank * 10 + static_cast<std::uint32_t>(digit - '0');
    }
    const std::size_t start = tokens.size();
    if (rank > HIGHEST_RANK || !decode_base64(line.substr(0, blank), tokens)) return false;
    entries.push_back({rank, start, tokens.size()});
    return true;
}

} // namespace

std::optional<RankLines> RankLines::read(std::string_view file) {
    std::string tokens;
    std::vector<RankEntry> entries;
    while (!file.empty()) {
        const std::size_t end = std::min(file.find('\n'), file.size());
        if (!read_line(file.substr(0, end), tokens, entries)) return std::nullopt;
        file.remove_prefix(std::min(end + 1, file.size()));
    }
    const auto by_rank = [](const RankEntry &one, const RankEntry &other) {
        return one.rank < other.rank;
    };
    if (!std::is_sorted(entries.begin(), entries.end(), by_rank))
        std::sort(entries.begin(), entries.end(), by_rank);
    if (entries.empty() || entries.back().rank > 4 * entries.size() + 1024) return std::nullopt;
    RankLines out;
    std::unordered_set<std::string_view> seen(entries.size() * 2);
    std::bitset<256> bytes;
    for (const auto &[rank, start, end] : entries) {
        const auto token = std::string_view(tokens).substr(start, end - start);
        if (rank < out.ends.size() || !seen.insert(token).second) return std::nullopt;
        if (token.size() == 1) bytes.set(static_cast<unsigned char>(token[0]));
        out.ends.resize(rank, static_cast<std::uint32_t>(out.blob.size()));
        out.present.resize(rank);
        for (const char byte : token)
            append(out.blob, ALPHABET.letter[static_cast<unsigned char>(byte)]);
        out.ends.push_back(static_cast<std::uint32_t>(out.blob.size()));
        out.present.push_back('\1');
    }
    if (!bytes.all() || out.blob.size() >= 0xFFFFFFFF) return std::nullopt;
    return out;
}

} // namespace mtkit
