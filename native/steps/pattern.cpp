#include "steps/pattern_walk.hpp"

#include <cstring>

#include "base/hash.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

constexpr std::uint32_t MAGIC = 0x504B544D; // "MTKP"
constexpr std::uint32_t IGNORE_EMPTY = 1;
constexpr std::size_t BLOCKS = 4352;
constexpr std::uint32_t MOST_ORACLES = 8;
constexpr std::uint32_t MOST_ROWS = 128;    // 2 KB each
constexpr std::uint32_t MOST_COMPARED = 40; // states of a pattern that may be a published one

// Digests of the published patterns; tests/patterns/test_pattern_family.py has their spellings.
struct Published {
    std::uint64_t digest;
    PatternFamily family;
};
constexpr Published PUBLISHED[] = {
    {0xBFB8478F07E5498A, PatternFamily::GPT2},   // GPT-2
    {0xC18BBE496C7A645F, PatternFamily::GPT2},   // r50k_base
    {0x46AABD80CAB7E6C6, PatternFamily::CL100K}, // Llama 3
    {0x16C793A86D3ABAA8, PatternFamily::CL100K}, // cl100k_base
    {0xC5DBE7D39AAFE320, PatternFamily::QWEN},   // Qwen 2
    {0x1F5668D356671D4A, PatternFamily::QWEN},   // Qwen 3.5
    {0x24B82EC855C5ECF8, PatternFamily::O200K},  // o200k_base
    {0x08A00F1C0BB2D34E, PatternFamily::O200K},  // llama.cpp's gpt-4o
    {0x39B630DE99931493, PatternFamily::TEKKEN}, // tekken
    {0x6CAB28D5CD3DBDC3, PatternFamily::TEKKEN}, // llama.cpp's tekken
};

} // namespace

template <typename T>
std::span<const T> Pattern::part(std::size_t at, std::size_t count, const char *field) const {
    if (at % sizeof(T) != 0 || at > bytes_.size() || count > (bytes_.size() - at) / sizeof(T))
        throw FormatError("is outside the tables", field, at);
    return {reinterpret_cast<const T *>(bytes_.data() + at), count};
}

Pattern::Automaton Pattern::automaton(std::size_t at) const {
    const auto head = part<std::uint32_t>(at, 4, "automaton");
    const std::size_t symbols = classes_ + 1;
    Automaton out;
    out.states = head[0];
    out.stride = head[1];
    out.backward = head[3] != 0;
    out.starts = part<std::uint16_t>(at + 16, symbols, "starts");
    const std::size_t cells = static_cast<std::size_t>(out.states) * out.stride;
    out.table = part<std::uint32_t>(at + 16 + 2 * (symbols + symbols % 2), cells, "states");
    if (out.stride < symbols) throw FormatError("is " + std::to_string(out.stride), "stride", at);
    return out;
}

Pattern::Pattern(std::span<const std::uint32_t> tables) : bytes_(std::as_bytes(tables)) {
    const auto head = part<std::uint32_t>(0, 4, "pattern");
    if (head[0] != MAGIC) throw FormatError("is not a pattern", "pattern");
    classes_ = head[1];
    ignore_empty_ = (head[2] & IGNORE_EMPTY) != 0;
    if (classes_ >= ROW - BY_CLASS || head[3] > MOST_ORACLES)
        throw FormatError("has " + std::to_string(classes_) + " classes", "pattern");
    const auto offsets = part<std::uint32_t>(16, 3 + head[3], "pattern");
    numbers_ = part<std::uint16_t>(offsets[0], BLOCKS, "block numbers");
    std::size_t blocks = 0;
    for (const auto number : numbers_) blocks = std::max<std::size_t>(blocks, number + 1U);
    blocks_ = part<std::uint8_t>(offsets[1], 256 * blocks, "blocks");
    for (std::size_t i = 0; i < head[3]; ++i) oracles_.push_back(automaton(offsets[2 + i]));
    main_ = automaton(offsets[2 + head[3]]);
    for (char32_t c = 0; c < 128; ++c) ascii_[c] = symbol(c);
    make_rows();
}

void Pattern::make_rows() {
    const auto start = main_.starts.front();
    const bool looks_back = std::any_of(main_.starts.begin(), main_.starts.end(),
                                        [start](auto other) { return other != start; });
    if (!oracles_.empty() || looks_back || start >= main_.states || main_.states > MOST_ROWS)
        return;
    // Plain rows, those that go on with blanks, those with letters; state 0 stays in front.
    auto &order = rows_.states;
    for (std::uint32_t state = 0; state < main_.states; ++state) order.push_back(state);
    std::stable_sort(order.begin() + 1, order.end(),
                     [&](auto left, auto right) { return kind(left) < kind(right); });
    std::vector<std::uint32_t> places(main_.states);
    for (std::uint32_t row = 0; row < main_.states; ++row) places[order[row]] = row * ROW;
    const auto from = [&](Kind wanted) {
        const auto first = std::find_if(order.begin() + 1, order.end(),
                                        [&](auto state) { return kind(state) >= wanted; });
        return static_cast<std::uint32_t>(first - order.begin()) * ROW;
    };
    rows_.blanks = from(Kind::BLANKS);
    rows_.letters = from(Kind::LETTERS);
    rows_.start = places[start];
    rows_.cells.resize(order.size() * ROW);
    for (const auto state : order) {
        auto *row = rows_.cells.data() + places[state];
        for (std::uint32_t column = 0; column <= classes_; ++column) {
            const std::uint32_t step = main_.step(state, column);
            const std::uint32_t next = step >> 1 < main_.states ? step >> 1 : 0;
            row[BY_CLASS + column] = next != 0 ? places[next] : step & 1;
        }
        for (std::uint32_t byte = 0; byte < 128; ++byte) row[byte] = row[BY_CLASS + ascii_[byte]];
    }
    const auto *const first = rows_.cells.data() + rows_.start;
    rows_.empty = std::find(first, first + ROW, MATCH) != first + ROW;
    for (const auto digested = digest(); const auto &[known, family] : PUBLISHED)
        if (digested == known) family_ = family;
    for (std::size_t page = 0; page < pages_.size(); ++page) {
        const auto *const of =
            blocks_.data() + (std::size_t{numbers_[page / 4]} << 8 | page % 4 << 6);
        const bool one = std::memcmp(of, of + 1, 63) == 0;
        pages_[page] = one ? std::min(of[0], MIXED) : MIXED;
    }
}

// A number that two patterns share where they do the same with every text, whichever characters
// beyond ASCII they put together: states are told apart by what can be seen of them in as many
// steps as there are states. 0: not worth comparing.
std::uint64_t Pattern::digest() const {
    if (main_.states > MOST_COMPARED) return 0;
    // Columns that differ: of bytes, and of the end, in their order; then those of other characters
    // alone, which have none.
    std::vector<std::uint32_t> columns;
    const auto number = [&](std::uint32_t column) {
        const auto same = [&](std::uint32_t other) {
            for (std::uint32_t state = 0; state < main_.states && other != column; ++state)
                if (main_.step(state, other) != main_.step(state, column)) return false;
            return true;
        };
        const auto found = static_cast<std::size_t>(
            std::find_if(columns.begin(), columns.end(), same) - columns.begin());
        if (found == columns.size()) columns.push_back(column);
        return std::uint64_t{found};
    };
    std::uint64_t kinds = number(classes_);
    for (const auto column : ascii_)
        kinds = mix(kinds * 0xA0761D6478BD642FULL + number(column) + 1);
    const std::size_t ordered = columns.size();
    for (std::uint32_t column = 0; column < classes_; ++column) number(column);
    std::vector<std::uint64_t> seen(main_.states, 1);
    for (std::uint32_t round = 0; round < main_.states; ++round) {
        const auto before = seen;
        for (std::uint32_t state = 1; state < main_.states; ++state) {
            std::uint64_t all = kinds;
            std::uint64_t others = 0;
            for (std::size_t i = 0; i < columns.size(); ++i) {
                const std::uint32_t step = main_.step(state, columns[i]);
                const std::uint32_t next = step >> 1;
                const auto then = next == 0 || next >= main_.states ? 0 : before[next];
                const auto one = then * 0xE7037ED1A0B428DBULL + (step & 1);
                if (i < ordered)
                    all = mix(all * 0xA0761D6478BD642FULL + one);
                else
                    others += mix(one);
            }
            seen[state] = mix(all ^ others);
        }
    }
    return seen[main_.starts.front()];
}

Pattern::Kind Pattern::kind(std::uint32_t state) const {
    if (state == 0) return Kind::PLAIN;
    const auto stays = [&](std::uint32_t column) {
        return main_.step(state, column) >> 1 == state;
    };
    bool letters = true;
    for (std::uint32_t byte = 'a'; byte <= 'z'; ++byte)
        letters = letters && stays(ascii_[byte]) && stays(ascii_[byte - 'a' + 'A']);
    for (std::uint32_t column = 0; column <= classes_; ++column)
        letters = letters && (stays(column) || main_.step(state, column) == 1);
    if (letters) return Kind::LETTERS;
    return stays(ascii_[unsigned{' '}]) ? Kind::BLANKS : Kind::PLAIN;
}

// The last match on the way of a look that stopped without one.
std::size_t Pattern::last_match(std::string_view text, std::size_t place, std::size_t end) const {
    std::uint32_t state = main_.starts.front();
    std::size_t last = place;
    for (std::size_t at = place; at < end;) {
        const auto c = decode(text, at);
        const std::uint32_t step = main_.step(state, symbol(c.value));
        if ((step & 1) != 0) last = at;
        state = step >> 1;
        at += c.size;
    }
    return end - last > LONG_LOOK ? place : last;
}

Pattern::Prepared Pattern::prepared(std::string_view text) const {
    std::vector<std::uint32_t> symbols;
    std::vector<std::uint32_t> bytes;
    for (std::size_t at = 0; at < text.size();) {
        const auto c = decode(text, at);
        symbols.push_back(symbol(c.value));
        bytes.push_back(static_cast<std::uint32_t>(at));
        at += c.size;
    }
    symbols.push_back(classes_);
    bytes.push_back(static_cast<std::uint32_t>(text.size()));
    auto columns = symbols;
    const std::uint32_t unit = classes_ + 1;
    for (std::uint32_t i = 0; i < oracles_.size(); ++i)
        run(oracles_[i], unit, unit << i, columns, symbols);
    return {std::move(columns), std::move(bytes)};
}

// Add the answers of an oracle to the columns. A backward run meets the character before a place,
// with the answers at the place.
void Pattern::run(const Automaton &oracle, std::uint32_t unit, std::uint32_t bit,
                  std::vector<std::uint32_t> &columns, const std::vector<std::uint32_t> &symbols) {
    const std::size_t length = symbols.size();
    std::vector<bool> answers(length);
    std::uint32_t state = oracle.starts[symbols.back()];
    for (std::size_t i = 0; i < length; ++i) {
        const std::size_t place = oracle.backward ? length - 1 - i : i;
        const std::size_t met = oracle.backward ? (place == 0 ? length - 1 : place - 1) : place;
        const std::uint32_t column = (columns[place] / unit * unit + symbols[met]) % oracle.stride;
        const std::uint32_t step = oracle.step(state, column);
        answers[place] = (step & 1) != 0;
        state = step >> 1;
    }
    for (std::size_t place = 0; place < length; ++place)
        if (answers[place]) columns[place] += bit;
}

} // namespace mtkit
