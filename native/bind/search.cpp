// Binding of the search for near rows of an int8 table.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/errors.hpp"
#include "search/nearest_rows.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Rows = nb::ndarray<const std::int8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Row = nb::ndarray<const std::int8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Lengths = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::list nearest(const Rows &rows, const Lengths &lengths, const Row &wanted, float wanted_length,
                 std::size_t skip, std::size_t most, float least) {
    if (lengths.shape(0) != rows.shape(0) || wanted.shape(0) != rows.shape(1))
        throw mtkit::UsageError("rows, lengths and the row that is wanted do not fit each other");
    if (rows.shape(1) > (std::size_t{1} << 16))
        throw mtkit::UnsupportedError("rows of more than 65536 columns");
    const mtkit::ByteRows table{
        {rows.data(), rows.size()}, {lengths.data(), lengths.size()}, rows.shape(1)};
    std::vector<mtkit::NearRow> found;
    {
        const nb::gil_scoped_release release;
        found = mtkit::nearest_rows(table, {wanted.data(), wanted.size()}, wanted_length, skip,
                                    most, least);
    }
    nb::list made;
    for (const auto &[row, cosine] : found) made.append(nb::make_tuple(row, cosine));
    return made;
}

} // namespace

void bind_search(nb::module_ &m) {
    m.def("nearest_rows", &nearest, "rows"_a, "lengths"_a, "wanted"_a, "wanted_length"_a, "skip"_a,
          "most"_a, "least"_a,
          nb::sig("def nearest_rows(rows: object, lengths: object, wanted: object, "
                  "wanted_length: float, skip: int, most: int, least: float) "
                  "-> list[tuple[int, float]]"),
          "Row and cosine of the rows that are nearest to one.");
}
