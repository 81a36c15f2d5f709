// Pre-tokenizers that cut by the kind of characters: scripts, groups of digits.
#include <algorithm>

#include "base/errors.hpp"
#include "steps/steps.hpp"
#include "text/sets.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

// Cut where the script changes. Number 0 goes with what stands before; what stands before the
// first character with a script is lost, as in the reference.
class Scripts final : public PreTokenizer {
  public:
    // Runs: start << 8 | number of the script, ascending.
    explicit Scripts(Reader &program) : runs_(read_numbers(program, "scripts")) {
        if (!std::is_sorted(runs_.begin(), runs_.end()))
            throw FormatError("is not ascending", "scripts");
    }

    void run(const Part &part, Arena &, const PutPart &put) const override {
        std::uint32_t last = 0;
        std::size_t start = 0;
        for (std::size_t at = 0; at < part.text.size();) {
            const auto c = decode(part.text, at);
            const std::uint32_t own = script(c.value);
            if (own != 0 && own != last) {
                if (last != 0) put(part.slice(start, at));
                start = at;
                last = own;
            }
            at += c.size;
        }
        if (last != 0) put(part.slice(start, part.text.size()));
    }
    [[nodiscard]] bool aligns() const override { return true; }

  private:
    [[nodiscard]] std::uint32_t script(char32_t c) const {
        const auto after = std::upper_bound(runs_.begin(), runs_.end(),
                                            (static_cast<std::uint32_t>(c) << 8) | 0xFF);
        return after == runs_.begin() ? 0 : *(after - 1) & 0xFF;
    }

    std::vector<std::uint32_t> runs_;
};

// Cut runs of numbers into groups of three from their right end; a stretch without numbers stays
// with the group behind it.
class DigitGroups final : public PreTokenizer {
  public:
    explicit DigitGroups(Reader &program) : numbers_(program) {}

    void run(const Part &part, Arena &, const PutPart &put) const override {
        std::vector<std::size_t> ends; // of the characters of one run
        std::size_t start = 0;
        for (std::size_t at = 0; at <= part.text.size();) {
            const bool inside = at < part.text.size();
            const auto c = inside ? decode(part.text, at) : CodePoint{0, 1};
            at += c.size;
            if (inside && numbers_.has(c.value)) {
                ends.push_back(at);
                continue;
            }
            for (std::size_t i = 0; i < ends.size(); ++i) {
                if ((ends.size() - 1 - i) % 3 != 0) continue;
                put(part.slice(start, ends[i]));
                start = ends[i];
            }
            ends.clear();
        }
        if (start < part.text.size()) put(part.slice(start, part.text.size()));
    }
    [[nodiscard]] bool aligns() const override { return true; }

  private:
    CodePointSet numbers_;
};

} // namespace

std::unique_ptr<PreTokenizer> make_scripts(Reader &program) {
    return std::make_unique<Scripts>(program);
}

std::unique_ptr<PreTokenizer> make_digit_groups(Reader &program) {
    return std::make_unique<DigitGroups>(program);
}

} // namespace mtkit
