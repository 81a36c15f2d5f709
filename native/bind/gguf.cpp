// Bindings of what the GGUF container needs.
#include <nanobind/nanobind.h>

#include <vector>

#include "bind/buffer.hpp"
#include "files/gguf_strings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Walked = nb::typed<nb::tuple, std::uint64_t, nb::bytes>;
using Packed = nb::typed<nb::tuple, nb::bytes, nb::bytes>;

} // namespace

void bind_gguf(nb::module_ &m) {
    m.def(
        "walk_strings",
        [](const nb::object &data, std::size_t offset, std::uint64_t count, bool wide,
           bool big_endian, std::uint64_t every) -> Walked {
            const Buffer held(data);
            std::vector<std::uint64_t> marks;
            std::uint64_t end = 0;
            {
                const nb::gil_scoped_release release;
                end = mtkit::walk_strings(held.bytes(), offset, count, {wide, big_endian}, every,
                                          marks);
            }
            return Walked(nb::make_tuple(end, to_bytes(marks)));
        },
        "data"_a, "offset"_a, "count"_a, "wide"_a, "big_endian"_a, "every"_a,
        "The offset behind a GGUF array's strings, and that of every so many of them (u64).");
    m.def(
        "pack_strings",
        [](const nb::object &data, std::size_t offset, std::uint64_t count, bool wide,
           bool big_endian) -> Packed {
            const Buffer held(data);
            mtkit::PackedStrings packed;
            {
                const nb::gil_scoped_release release;
                packed = mtkit::pack_strings(held.bytes(), offset, count, {wide, big_endian});
            }
            return Packed(nb::make_tuple(nb::bytes(packed.blob.data(), packed.blob.size()),
                                         to_bytes(packed.ends)));
        },
        "data"_a, "offset"_a, "count"_a, "wide"_a, "big_endian"_a,
        "The strings of a GGUF array in one blob, and where each ends in it (u32).");
}
