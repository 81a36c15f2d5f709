// Bindings of searches: near rows of an int8 table, a few pieces among many, an index of pieces.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "base/errors.hpp"
#include "bind/buffer.hpp"
#include "search/nearest_rows.hpp"
#include "search/piece_places.hpp"
#include "tables/piece_index.hpp"

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
    const auto found = unlocked([&] {
        return mtkit::nearest_rows(table, {wanted.data(), wanted.size()}, wanted_length, skip, most,
                                   least);
    });
    nb::list made;
    for (const auto &[row, cosine] : found) made.append(nb::make_tuple(row, cosine));
    return made;
}

nb::typed<nb::list, int> places_of(nb::handle blob, nb::handle ends,
                                   const nb::typed<nb::list, nb::bytes> &wanted) {
    HeldPieces pieces(blob, ends);
    std::unordered_set<std::string_view> texts;
    for (const nb::handle one : wanted) {
        const auto bytes = nb::borrow<nb::bytes>(one);
        texts.emplace(bytes.c_str(), bytes.size());
    }
    nb::typed<nb::list, int> found;
    for (const auto id : mtkit::piece_places(*pieces, texts)) found.append(id);
    return found;
}

// An index with the buffers that its pieces lie in.
class BoundIndex {
  public:
    BoundIndex(nb::handle blob, nb::handle ends) : pieces_(blob, ends), index_(*pieces_) {}

    [[nodiscard]] bool distinct() const { return index_.distinct(); }
    [[nodiscard]] std::optional<std::uint32_t> find(const nb::bytes &text) const {
        const auto found = index_.find({text.c_str(), text.size()});
        if (found == mtkit::NONE) return std::nullopt;
        return found;
    }
    [[nodiscard]] std::optional<nb::bytes> words(nb::handle listed) const {
        const Buffer marks(listed);
        const auto size = index_.size_without(marks.text());
        if (!size) return std::nullopt;
        PyObject *const made = PyBytes_FromStringAndSize(
            nullptr, static_cast<Py_ssize_t>(*size * sizeof(std::uint64_t)));
        if (made == nullptr) nb::raise_python_error();
        auto out = nb::steal<nb::bytes>(made);
        // CPython aligns the data of a bytes object to 8.
        index_.write_without(marks.text(),
                             {reinterpret_cast<std::uint64_t *>(PyBytes_AsString(made)), *size});
        return out;
    }

  private:
    HeldPieces pieces_;
    mtkit::PieceIndex index_;
};

} // namespace

void bind_search(nb::module_ &m) {
    nb::class_<BoundIndex>(m, "PieceIndex", "Where each piece is, by its text.")
        .def(nb::init<nb::handle, nb::handle>(), "blob"_a, "ends"_a)
        .def_prop_ro("distinct", &BoundIndex::distinct, "Whether no two pieces are equal.")
        .def("find", &BoundIndex::find, "text"_a, "Number of the first piece that reads so.")
        .def("words", &BoundIndex::words, "listed"_a,
             "The table piece -> id of those `listed` (u8 each; empty: all); None: build it.");
    m.def("places_of", &places_of, "blob"_a, "ends"_a, "wanted"_a,
          "Ids of the pieces that are one of a few, rising.");
    m.def("nearest_rows", &nearest, "rows"_a, "lengths"_a, "wanted"_a, "wanted_length"_a, "skip"_a,
          "most"_a, "least"_a,
          nb::sig("def nearest_rows(rows: object, lengths: object, wanted: object, "
                  "wanted_length: float, skip: int, most: int, least: float) "
                  "-> list[tuple[int, float]]"),
          "Row and cosine of the rows that are nearest to one.");
}
