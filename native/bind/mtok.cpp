// Bindings of the tables of .mtok base files.
#include <nanobind/nanobind.h>

#include <string_view>
#include <vector>

#include "bind/buffer.hpp"
#include "files/mtok_tables.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Vocab = nb::typed<nb::tuple, nb::bytes, nb::bytes, nb::bytes, nb::bytes, std::size_t>;
using Merges = nb::typed<nb::tuple, nb::bytes, nb::bytes, bool>;

} // namespace

void bind_mtok(nb::module_ &m) {
    m.def(
        "parse_mtok_vocab",
        [](const nb::object &data, std::size_t offset, std::uint64_t count,
           bool with_score) -> Vocab {
            const Buffer held(data);
            mtkit::MtokVocab vocab;
            {
                const nb::gil_scoped_release release;
                vocab = mtkit::parse_mtok_vocab(held.bytes(), offset, count, with_score);
            }
            return Vocab(nb::make_tuple(nb::bytes(vocab.blob.data(), vocab.blob.size()),
                                        to_bytes(vocab.ends), to_bytes(vocab.scores),
                                        to_bytes(vocab.hidden), vocab.end));
        },
        "data"_a, "offset"_a, "count"_a, "with_score"_a,
        "Entries of a .mtok: pieces by id, their ends, scores (f64), hidden ids, end offset.");
    m.def(
        "parse_mtok_merges",
        [](const nb::object &data, std::size_t offset, std::uint64_t count, const nb::object &blob,
           const nb::object &ends, const nb::object &hidden) -> Merges {
            const Buffer held(data);
            const Buffer pieces(blob);
            Buffer places(ends);
            Buffer left_out(hidden);
            mtkit::MtokMerges merges;
            {
                const nb::gil_scoped_release release;
                merges = mtkit::parse_mtok_merges(held.bytes(), offset, count, pieces.text(),
                                                  places.numbers(), left_out.numbers());
            }
            return Merges(
                nb::make_tuple(to_bytes(merges.pairs), to_bytes(merges.ranks), merges.regular));
        },
        "data"_a, "offset"_a, "count"_a, "blob"_a, "ends"_a, "hidden"_a,
        "Merges of a .mtok by rank: pairs, ranks, whether each makes a token of its own rank.");
}
