// Unicode normal forms with the data that the program carries.
//
// Stretches of characters that no form changes are copied; what is between is decomposed, put in
// canonical order and, for the composed forms, joined. Hangul syllables are arithmetic.
// Source: Unicode Standard Annex 15, and the crate that tokenizers uses (see
// pipeline/aligned_text.py).
#include <bitset>

#include "base/made_once.hpp"
#include "base/reader.hpp"
#include "steps/seams.hpp"
#include "steps/steps.hpp"
#include "text/alignment.hpp"
#include "text/paged.hpp"
#include "text/sets.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

constexpr char32_t S_BASE = 0xAC00;
constexpr char32_t L_BASE = 0x1100;
constexpr char32_t V_BASE = 0x1161;
constexpr char32_t T_BASE = 0x11A7;
constexpr char32_t L_COUNT = 19;
constexpr char32_t V_COUNT = 21;
constexpr char32_t T_COUNT = 28;
constexpr char32_t S_COUNT = L_COUNT * V_COUNT * T_COUNT;
constexpr char32_t LIMIT = 0x110000;

struct Marked {
    char32_t value;
    std::uint8_t order; // canonical combining class
    int change;         // see Rewrite::put
};

class Form final : public Normalizer {
  public:
    explicit Form(Reader &program)
        : composed_(read_flag(program, "composed")), decompositions_(program),
          classes_(read_numbers(program, "classes")),
          compositions_(read_numbers(program, "compositions")) {
        if (!std::is_sorted(classes_.begin(), classes_.end()) || compositions_.size() % 3 != 0)
            throw FormatError("is not an ascending table", "form");
        for (std::size_t i = 0; i < classes_.size(); ++i) {
            const std::size_t end = i + 1 < classes_.size() ? classes_[i + 1] >> 8 : LIMIT;
            if ((classes_[i] & 0xFF) == 0) continue;
            for (std::size_t c = classes_[i] >> 8; c < std::min<std::size_t>(end, LIMIT); ++c)
                mark(c);
        }
        decompositions_.each_key([this](std::uint32_t c) { mark(c); });
        for (std::size_t i = 0; i < compositions_.size() && composed_; i += 3)
            mark(compositions_[i + 1]);
        const std::size_t hangul = composed_ ? V_BASE : S_BASE;
        const std::size_t end = composed_ ? T_BASE + T_COUNT : S_BASE + S_COUNT;
        for (std::size_t c = hangul; c < end; ++c) mark(c);
        for (std::size_t c = 0; c < 0x80; ++c) ascii_ = ascii_ || active_[c];
    }

    void run(Part &part, Arena &arena) const override {
        require_whole(part);
        Rewrite out(part, arena, "UnicodeForm");
        std::string character;
        const auto put = [&](const Marked &c) {
            character.clear();
            append(character, c.value);
            out.put(character, c.change);
        };
        walk(
            part.text, [&](std::size_t start, std::size_t end) { out.copy(start, end); }, put);
        out.give();
    }
    [[nodiscard]] bool aligns() const override { return true; }
    // A blank and U+2581 begin a stretch, and join with nothing in front of them.
    bool keeps(Seams &seams) const override {
        if (active_[decode(seams.blank, 0).value]) return false;
        seams.changes = seams.together = true;
        for (char32_t c = 0; c < 0x80; ++c) seams.free[c] = seams.free[c] && !active_[c];
        for (std::size_t i = 0; i < compositions_.size() && composed_; i += 3)
            if (compositions_[i] < 0x80) seams.joins[compositions_[i]] = true;
        return true;
    }

  private:
    // Call copy(start, end) for stretches that stay, in turn with put(character); nothing where no
    // character may change.
    template <typename Copy, typename Put>
    void walk(std::string_view text, const Copy &copy, const Put &put) const {
        std::size_t at = 0;
        std::size_t inert = 0; // start of the last inert character
        std::size_t copied = 0;
        std::vector<Marked> marks;
        const auto *const stable = stable_in(text);
        while (at < text.size()) {
            while (is_quiet(text, at)) {
                inert = at;
                at += 3;
            }
            if (at == text.size()) break;
            const auto c = decode(text, at);
            if (c.value < 0x80 && !ascii_) {
                at = ascii_end(text, at);
                inert = at - 1;
                continue;
            }
            if (!active_[c.value] || (stable != nullptr && c.value < PAGED && (*stable)[c.value])) {
                inert = at;
                at += c.size;
                continue;
            }
            // The character in front can be joined with this one.
            const std::size_t start = std::max(inert, copied);
            std::size_t end = at;
            while (end < text.size()) {
                const auto next = decode(text, end);
                if (!active_[next.value]) break;
                end += next.size;
            }
            copy(copied, start);
            normalize(text.substr(start, end - start), marks);
            for (const auto &mark : marks) put(mark);
            copied = at = inert = end;
        }
        if (copied != 0) copy(copied, text.size());
    }

    // Composed characters below PAGED that stay as they are wherever they stand, which is how texts
    // usually have them: what they are decomposed into is composed again, and nothing of it can be
    // composed with the character in front.
    [[nodiscard]] std::unique_ptr<Paged<bool>> make_stable() const {
        auto stable = std::make_unique<Paged<bool>>(false);
        std::vector<Marked> marks;
        std::string character;
        for (std::size_t i = 0; i < compositions_.size(); i += 3) {
            const char32_t c = compositions_[i + 2];
            std::string_view parts;
            if (!decompositions_.find(c, parts) || parts.empty() || active_[decode(parts, 0).value])
                continue;
            character.clear();
            append(character, c);
            normalize(character, marks);
            if (marks.size() == 1 && marks[0].value == c && order(c) == 0)
                stable->put(c, c + 1, true);
        }
        for (std::size_t i = 0; i < compositions_.size(); i += 3)
            stable->put(compositions_[i + 1], compositions_[i + 1] + 1, false);
        return stable;
    }
    // Those of a text; null where it is too short for them to be made.
    [[nodiscard]] const Paged<bool> *stable_in(std::string_view text) const {
        if (!composed_) return nullptr;
        const auto *const made = stable_.get();
        if (made != nullptr || text.size() < WORTH_MAKING) return made;
        return stable_.make([this] { return make_stable(); });
    }
    void mark(std::size_t c) {
        if (c >= LIMIT) return;
        active_[c] = true;
        busy_.put(static_cast<unsigned>(c / PAGE));
    }

    // Whether a character of three bytes that no form changes begins here.
    [[nodiscard]] bool is_quiet(std::string_view text, std::size_t at) const {
        const unsigned page = page_at(text, at);
        return is_valid(page) && !(busy_.has(page) && active_[page * PAGE + (text[at + 2] & 63)]);
    }

    [[nodiscard]] std::uint8_t order(char32_t c) const {
        const auto above = std::upper_bound(classes_.begin(), classes_.end(), (c << 8) | 0xFF);
        return above == classes_.begin() ? 0 : static_cast<std::uint8_t>(above[-1] & 0xFF);
    }

    void put(char32_t c, bool inserted, std::vector<Marked> &marks) const {
        marks.push_back({c, order(c), inserted});
    }

    // Put each run of marks into the order of their classes.
    static void sort_marks(std::vector<Marked> &marks) {
        const auto is_starter = [](const Marked &m) { return m.order == 0; };
        for (auto at = marks.begin(); at != marks.end();) {
            const auto end = std::find_if(at, marks.end(), is_starter);
            std::stable_sort(at, end,
                             [](const Marked &a, const Marked &b) { return a.order < b.order; });
            at = std::find_if_not(end, marks.end(), is_starter);
        }
    }

    void normalize(std::string_view text, std::vector<Marked> &marks) const {
        marks.clear();
        for (std::size_t at = 0; at < text.size();) {
            const auto c = decode(text, at);
            std::string_view parts;
            if (c.value >= S_BASE && c.value < S_BASE + S_COUNT) {
                const char32_t index = c.value - S_BASE;
                put(L_BASE + index / (V_COUNT * T_COUNT), false, marks);
                put(V_BASE + index % (V_COUNT * T_COUNT) / T_COUNT, true, marks);
                if (index % T_COUNT != 0) put(T_BASE + index % T_COUNT, true, marks);
            } else if (decompositions_.find(c.value, parts)) {
                for (std::size_t i = 0; i < parts.size();) {
                    const auto part = decode(parts, i);
                    put(part.value, i != 0, marks);
                    i += part.size;
                }
            } else {
                put(c.value, false, marks);
            }
            at += c.size;
        }
        sort_marks(marks);
        if (composed_) compose(marks);
    }

    // Join each starter with the marks behind it that are not blocked, in place.
    void compose(std::vector<Marked> &marks) const {
        constexpr auto NOWHERE = static_cast<std::size_t>(-1);
        std::size_t size = 0;
        std::size_t starter = NOWHERE;
        std::uint8_t highest = 0;
        for (const auto c : marks) {
            if (starter != NOWHERE && (size == starter + 1 || highest < c.order)) {
                const char32_t made = composition(marks[starter].value, c.value);
                if (made != 0) {
                    marks[starter].value = made;
                    marks[starter].change += c.change - 1;
                    continue;
                }
            }
            if (c.order == 0)
                starter = size;
            else
                highest = c.order;
            marks[size++] = c;
        }
        marks.resize(size);
    }

    [[nodiscard]] char32_t composition(char32_t first, char32_t second) const {
        if (first >= L_BASE && first < L_BASE + L_COUNT && second >= V_BASE &&
            second < V_BASE + V_COUNT)
            return S_BASE + ((first - L_BASE) * V_COUNT + second - V_BASE) * T_COUNT;
        if (first >= S_BASE && first < S_BASE + S_COUNT && (first - S_BASE) % T_COUNT == 0 &&
            second > T_BASE && second < T_BASE + T_COUNT)
            return first + second - T_BASE;
        std::size_t low = 0;
        std::size_t high = compositions_.size() / 3;
        while (low < high) {
            const std::size_t middle = (low + high) / 2;
            const std::pair<char32_t, char32_t> pair{compositions_[3 * middle],
                                                     compositions_[3 * middle + 1]};
            if (pair == std::pair(first, second)) return compositions_[3 * middle + 2];
            if (pair < std::pair(first, second))
                low = middle + 1;
            else
                high = middle;
        }
        return 0;
    }

    bool composed_;
    CodePointMap decompositions_;
    std::vector<std::uint32_t> classes_;                  // start << 8 | class, of each run
    std::vector<std::uint32_t> compositions_;             // first, second, composed; ascending
    std::bitset<LIMIT> active_;                           // characters that a form may change
    PageSet busy_;                                        // pages with some of them
    bool ascii_ = false;                                  // whether some of them are ASCII
    static constexpr std::size_t WORTH_MAKING = 1U << 10; // bytes of a text
    MadeOnce<Paged<bool>> stable_;                        // see make_stable()
};

} // namespace

std::unique_ptr<Normalizer> make_form(Reader &program) {
    return std::make_unique<Form>(program);
}

} // namespace mtkit
