#include "steps/pattern.hpp"

#include <unordered_set>

#include "text/utf8.hpp"

namespace mtkit {

namespace {

constexpr std::uint32_t MAGIC = 0x504B544D; // "MTKP"
constexpr std::uint32_t IGNORE_EMPTY = 1;
constexpr std::size_t PAGES = 4352;
constexpr std::size_t LONG_LOOK = 64;
constexpr std::uint32_t MOST_ORACLES = 8;

// Places and states from which no match comes, remembered after a long look that came to nothing.
// Mostly there is one state a place, in a flat array; the others go into a set.
class Failed {
  public:
    [[nodiscard]] bool empty() const { return first_.empty(); }
    [[nodiscard]] bool has(std::size_t place, std::uint32_t state) const {
        if (first_[place] == state) return true;
        return !more_.empty() && more_.contains(key(place, state));
    }
    void add(std::size_t place, std::uint32_t state, std::size_t length) {
        if (first_.empty()) first_.resize(length + 1);
        if (first_[place] == 0)
            first_[place] = state;
        else if (first_[place] != state)
            more_.insert(key(place, state));
    }

  private:
    static std::uint64_t key(std::size_t place, std::uint32_t state) {
        return (static_cast<std::uint64_t>(place) << 24) ^ state;
    }
    std::vector<std::uint32_t> first_; // 0: none; nothing comes from state 0 anyhow
    std::unordered_set<std::uint64_t> more_;
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
    if (classes_ > 256 || head[3] > MOST_ORACLES)
        throw FormatError("has " + std::to_string(classes_) + " classes", "pattern");
    const auto offsets = part<std::uint32_t>(16, 3 + head[3], "pattern");
    numbers_ = part<std::uint16_t>(offsets[0], PAGES, "block numbers");
    std::size_t blocks = 0;
    for (const auto number : numbers_) blocks = std::max<std::size_t>(blocks, number + 1U);
    blocks_ = part<std::uint8_t>(offsets[1], 256 * blocks, "blocks");
    for (std::size_t i = 0; i < head[3]; ++i) oracles_.push_back(automaton(offsets[2 + i]));
    main_ = automaton(offsets[2 + head[3]]);
    for (char32_t c = 0; c < 128; ++c) ascii_[c] = symbol(c);
}

std::uint32_t Pattern::symbol(char32_t c) const {
    return std::min<std::uint32_t>(
        blocks_[(static_cast<std::size_t>(numbers_[c >> 8]) << 8) | (c & 255)], classes_);
}

// Columns read off the text on the way: places are bytes.
class Pattern::Direct {
  public:
    Direct(const Pattern &pattern, std::string_view text) : pattern_(pattern), text_(text) {}
    Step at(std::size_t place) const {
        if (place == text_.size()) return {pattern_.classes_, 1};
        const auto byte = static_cast<unsigned char>(text_[place]);
        if (byte < 128) return {pattern_.ascii_[byte], 1};
        const auto c = decode(text_, place);
        return {pattern_.symbol(c.value), c.size};
    }
    [[nodiscard]] std::size_t byte(std::size_t place) const { return place; }

  private:
    const Pattern &pattern_;
    std::string_view text_;
};

// Columns prepared for every character: places are characters.
class Pattern::Prepared {
  public:
    Prepared(std::vector<std::uint32_t> columns, std::vector<std::uint32_t> bytes)
        : columns_(std::move(columns)), bytes_(std::move(bytes)) {}
    Step at(std::size_t place) const { return {columns_[place], 1}; }
    [[nodiscard]] std::size_t byte(std::size_t place) const { return bytes_[place]; }

  private:
    std::vector<std::uint32_t> columns_;
    std::vector<std::uint32_t> bytes_;
};

// The search of pattern.py; a place is what `columns` counts in.
template <typename Columns>
void Pattern::walk(const Columns &columns, std::size_t length,
                   const FunctionRef<std::size_t, std::size_t> &put) const {
    constexpr auto NOWHERE = static_cast<std::size_t>(-1);
    const std::uint32_t unit = classes_ + 1;
    Failed failed;
    std::uint32_t before = classes_;
    std::size_t behind = NOWHERE;
    for (std::size_t place = 0; place <= length;) {
        std::size_t at = place;
        std::size_t last = NOWHERE;
        std::uint32_t state = main_.starts[before];
        std::uint32_t accepted = state;
        std::uint32_t symbol = before;      // in front of `at`
        std::uint32_t last_symbol = before; // in front of `last`
        while (true) {
            const auto next = columns.at(at);
            const std::uint32_t step = main_.step(state, next.column);
            if ((step & 1) != 0) {
                last = at;
                accepted = state;
                last_symbol = symbol;
            }
            state = step >> 1;
            if (state == 0 || at == length) break;
            at += next.size;
            symbol = next.column % unit;
            if (!failed.empty() && failed.has(at, state)) break;
        }
        const std::size_t looked = last == NOWHERE ? place : last;
        if (at - looked > LONG_LOOK) {
            // A look beyond the match that came to nothing is not gone again.
            std::uint32_t again = accepted;
            for (std::size_t passed = looked; passed < at;) {
                const auto next = columns.at(passed);
                again = main_.step(again, next.column) >> 1;
                passed += next.size;
                failed.add(passed, again, length);
            }
        }
        if (last == NOWHERE || last == place) {
            if (last == place && last != behind && !ignore_empty_)
                put(columns.byte(place), columns.byte(place));
            const auto next = columns.at(place);
            before = next.column % unit;
            place += next.size;
        } else {
            put(columns.byte(place), columns.byte(last));
            place = behind = last;
            before = last_symbol;
        }
    }
}

void Pattern::find(std::string_view text, const FunctionRef<std::size_t, std::size_t> &put) const {
    if (oracles_.empty()) {
        walk(Direct(*this, text), text.size(), put);
        return;
    }
    std::vector<std::uint32_t> symbols;
    std::vector<std::uint32_t> bytes;
    for (std::size_t at = 0; at < text.size();) {
        const auto c = decode(text, at);
        symbols.push_back(symbol(c.value));
        bytes.push_back(static_cast<std::uint32_t>(at));
        at += c.size;
    }
    const std::size_t length = symbols.size();
    symbols.push_back(classes_);
    bytes.push_back(static_cast<std::uint32_t>(text.size()));
    auto columns = symbols;
    const std::uint32_t unit = classes_ + 1;
    for (std::uint32_t i = 0; i < oracles_.size(); ++i)
        run(oracles_[i], unit, unit << i, columns, symbols);
    walk(Prepared(std::move(columns), std::move(bytes)), length, put);
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
