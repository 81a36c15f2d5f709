// Binding of the split-pattern matcher, by which the tests hold it to the readable one.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/simd.hpp"
#include "bind/buffer.hpp"
#include "steps/pattern_walk.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// A matcher with its tables.
class BoundPattern {
  public:
    explicit BoundPattern(const nb::bytes &tables) : tables_(tables), pattern_(tables_.numbers()) {}

    [[nodiscard]] nb::bytes find(const nb::bytes &text) const {
        std::vector<std::uint64_t> places;
        const std::string_view view(text.c_str(), text.size());
        unlocked([&] {
            pattern_.find(view, [&](std::size_t start, std::size_t end) {
                places.insert(places.end(), {start, end});
            });
        });
        return to_bytes(places);
    }

    [[nodiscard]] const char *family() const {
        return mtkit::PATTERN_FAMILIES[static_cast<int>(pattern_.family())];
    }

    [[nodiscard]] std::uint64_t word_starts(const nb::bytes &text) const {
        const auto starts = mtkit::word_starts(pattern_.family());
        if (starts == nullptr) return 0;
        unsigned char bytes[64] = {};
        const std::size_t size = std::min(text.size(), sizeof bytes);
        std::memcpy(bytes, text.c_str(), size);
        return starts(bytes, size);
    }

  private:
    Buffer tables_;
    mtkit::Pattern pattern_;
};

} // namespace

void bind_pattern(nb::module_ &m) {
    nb::class_<BoundPattern>(m, "PatternMatcher", "A split pattern from its tables.")
        .def(nb::init<const nb::bytes &>(), "tables"_a)
        .def("find", &BoundPattern::find, "text"_a,
             "Start and end of each match in a UTF-8 text, in bytes, as u64.")
        .def_prop_ro("family", &BoundPattern::family,
                     "Which published pattern it is; empty: another.")
        .def("word_starts", &BoundPattern::word_starts, "text"_a,
             "Bits where words certainly start among 64 bytes; 0: not for this pattern.");
    m.def(
        "simd", [] { return std::string(mtkit::SIMD_NAMES[static_cast<int>(mtkit::simd())]); },
        "Which vector instructions are used.");
    m.def(
        "simd_levels",
        [] {
            nb::list names;
            for (const auto name : mtkit::simd_levels())
                names.append(nb::str(name.data(), name.size()));
            return nb::typed<nb::list, nb::str>(names);
        },
        "Which the machine has, the best last; MTKIT_SIMD may name one of them.");
}
