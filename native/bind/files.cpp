// Bindings of what reads the long parts of files, as columns.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <optional>
#include <vector>

#include "bind/buffer.hpp"
#include "files/gguf_strings.hpp"
#include "files/json_model.hpp"
#include "files/merge_lines.hpp"
#include "files/mtok_tables.hpp"
#include "files/rank_lines.hpp"
#include "files/spm_pieces.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <typename... Columns> using Tuple = nb::typed<nb::tuple, Columns...>;

Tuple<std::uint64_t, nb::bytes> walk_strings(nb::handle data, std::size_t offset,
                                             std::uint64_t count, bool wide, bool big_endian,
                                             std::uint64_t every) {
    const Buffer held(data);
    std::vector<std::uint64_t> marks;
    const auto end = unlocked([&] {
        return mtkit::walk_strings(held.bytes(), offset, count, {wide, big_endian}, every, marks);
    });
    return nb::make_tuple(end, to_bytes(marks));
}

Tuple<nb::bytes, nb::bytes> pack_strings(nb::handle data, std::size_t offset, std::uint64_t count,
                                         bool wide, bool big_endian) {
    const Buffer held(data);
    const auto packed = unlocked([&] {
        return mtkit::pack_strings(held.bytes(), offset, count, {wide, big_endian});
    });
    return nb::make_tuple(to_bytes(packed.blob), to_bytes(packed.ends));
}

Tuple<nb::bytes, nb::bytes, nb::bytes, nb::bytes, std::size_t>
parse_mtok_vocab(nb::handle data, std::size_t offset, std::uint64_t count, bool with_score) {
    const Buffer held(data);
    const auto vocab =
        unlocked([&] { return mtkit::parse_mtok_vocab(held.bytes(), offset, count, with_score); });
    return nb::make_tuple(to_bytes(vocab.blob), to_bytes(vocab.ends), to_bytes(vocab.scores),
                          to_bytes(vocab.hidden), vocab.end);
}

Tuple<nb::bytes, nb::bytes, bool> parse_mtok_merges(nb::handle data, std::size_t offset,
                                                    std::uint64_t count, nb::handle blob,
                                                    nb::handle ends, nb::handle hidden) {
    const Buffer held(data);
    HeldPieces pieces(blob, ends);
    Buffer left_out(hidden);
    const auto merges = unlocked([&] {
        return mtkit::parse_mtok_merges(held.bytes(), offset, count, *pieces, left_out.numbers());
    });
    return nb::make_tuple(to_bytes(merges.pairs), to_bytes(merges.ranks), merges.regular);
}

std::optional<Tuple<nb::bytes, nb::bytes, nb::bytes, nb::bytes, nb::bytes, nb::bytes>>
read_pieces(nb::handle model) {
    const Buffer held(model);
    const auto found = unlocked([&] { return mtkit::SpmPieces::read(held.text()); });
    if (!found) return std::nullopt;
    return nb::make_tuple(to_bytes(found->blob), to_bytes(found->ends), to_bytes(found->types),
                          to_bytes(found->scores), to_bytes(found->marks), to_bytes(found->rest));
}

Tuple<nb::bytes, nb::bytes, nb::bytes, bool> read_merges(nb::handle lines, nb::handle line_ends,
                                                         nb::handle blob, nb::handle ends) {
    HeldPieces listed(lines, line_ends);
    HeldPieces pieces(blob, ends);
    const auto found = unlocked([&] { return mtkit::read_merge_lines(*listed, *pieces); });
    return nb::make_tuple(to_bytes(found.pairs), to_bytes(found.unlisted),
                          to_bytes(found.unlisted_ends), found.whole);
}

std::optional<Tuple<nb::bytes, nb::bytes, nb::bytes>> read_ranks(nb::handle file) {
    const Buffer held(file);
    const auto found = unlocked([&] { return mtkit::RankLines::read(held.text()); });
    if (!found) return std::nullopt;
    return nb::make_tuple(to_bytes(found->blob), to_bytes(found->ends), to_bytes(found->present));
}

std::optional<mtkit::JsonModel> read_model(nb::handle document) {
    const Buffer held(document);
    return unlocked([&] { return mtkit::JsonModel::read(held.text()); });
}

// A property: bytes of what a method returns, or None where that is nothing.
template <auto Get> nb::bytes column(const mtkit::JsonModel &model) {
    return to_bytes((model.*Get)());
}
template <auto Get> std::optional<nb::bytes> some_column(const mtkit::JsonModel &model) {
    const auto &found = (model.*Get)();
    return found ? std::optional(to_bytes(*found)) : std::nullopt;
}
std::optional<std::uint32_t> find(const mtkit::JsonModel &model, const nb::bytes &token) {
    return model.find({token.c_str(), token.size()});
}

} // namespace

void bind_files(nb::module_ &m) {
    using Model = mtkit::JsonModel;
    nb::class_<Model>(m, "JsonModel", "Vocabulary and merges of an ordinary tokenizer.json.")
        .def_prop_ro("rest", &column<&Model::rest>, "The document without them.")
        .def_prop_ro("blob", &column<&Model::blob>,
                     "The tokens by id; nothing at an id that none has.")
        .def_prop_ro("ends", &column<&Model::ends>, "Where each ends (u32).")
        .def_prop_ro("present", &column<&Model::present>, "u8 each: whether there is a token.")
        .def_prop_ro("count", &Model::count, "Number of tokens.")
        .def_prop_ro("merges", &some_column<&Model::merges>,
                     "Left and right id in turn (u32); None where the document has no merges.")
        .def_prop_ro("scores", &some_column<&Model::scores>,
                     "By id (f64), where the vocabulary is a list of tokens with scores.")
        .def("find", &find, "token"_a, "Id of a token.");
    m.def("read_json_model", &read_model, "document"_a,
          "The long parts of a tokenizer.json; None: it is not an ordinary one.");
    m.def("read_spm_pieces", &read_pieces, "model"_a,
          "Texts, their ends (u32), types (u8), scores (f32) and marks (u8: 1 has no score, 2 says"
          " NORMAL) of a SentencePiece model's pieces, and its other fields; None: it is not an"
          " ordinary one.");
    m.def(
        "read_merge_lines", &read_merges, "lines"_a, "line_ends"_a, "blob"_a, "ends"_a,
        "Merges of a GGUF over pieces: pairs (u32), parts that are no pieces and their ends (u32),"
        " whether all that merging takes and makes is a piece.");
    m.def("read_rank_lines", &read_ranks, "file"_a,
          "Tokens of a .tiktoken by rank, in the byte alphabet, their ends (u32), and u8 each"
          " whether there is one; None: it is not an ordinary file.");
    m.def("walk_strings", &walk_strings, "data"_a, "offset"_a, "count"_a, "wide"_a, "big_endian"_a,
          "every"_a,
          "The offset behind a GGUF array's strings, and that of every so many of them (u64).");
    m.def("pack_strings", &pack_strings, "data"_a, "offset"_a, "count"_a, "wide"_a, "big_endian"_a,
          "The strings of a GGUF array in one blob, and where each ends in it (u32).");
    m.def("parse_mtok_vocab", &parse_mtok_vocab, "data"_a, "offset"_a, "count"_a, "with_score"_a,
          "Entries of a .mtok: pieces by id, their ends, scores (f64), hidden ids, end offset.");
    m.def("parse_mtok_merges", &parse_mtok_merges, "data"_a, "offset"_a, "count"_a, "blob"_a,
          "ends"_a, "hidden"_a,
          "Merges of a .mtok by rank: pairs, ranks, whether each makes a token of its own rank.");
}
