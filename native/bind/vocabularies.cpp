// Bindings of what reads the long parts of tokenizer files.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <optional>
#include <string>
#include <string_view>

#include "bind/buffer.hpp"
#include "files/json_model.hpp"
#include "files/merge_lines.hpp"
#include "files/rank_lines.hpp"
#include "files/spm_pieces.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

std::optional<mtkit::JsonModel> read_model(nb::handle document) {
    const Buffer held(document);
    const nb::gil_scoped_release release;
    return mtkit::JsonModel::read(held.text());
}

nb::bytes as_bytes(const std::string &text) {
    return nb::bytes(text.data(), text.size());
}

nb::bytes present(const mtkit::JsonModel &model) {
    std::string marks;
    for (std::uint32_t id = 0; id < model.ends().size(); ++id) marks += model.has(id) ? '\1' : '\0';
    return as_bytes(marks);
}

using SpmColumns =
    nb::typed<nb::tuple, nb::bytes, nb::bytes, nb::bytes, nb::bytes, nb::bytes, nb::bytes>;

std::optional<SpmColumns> read_pieces(nb::handle model) {
    const Buffer held(model);
    std::optional<mtkit::SpmPieces> found;
    {
        const nb::gil_scoped_release release;
        found = mtkit::SpmPieces::read(held.text());
    }
    if (!found) return std::nullopt;
    return SpmColumns(nb::make_tuple(as_bytes(found->blob), to_bytes(found->ends),
                                     as_bytes(found->types), to_bytes(found->scores),
                                     as_bytes(found->marks), as_bytes(found->rest)));
}

using MergeColumns = nb::typed<nb::tuple, nb::bytes, nb::bytes, nb::bytes, bool>;

MergeColumns read_merges(nb::handle lines, nb::handle line_ends, nb::handle blob, nb::handle ends) {
    Buffer views[] = {Buffer(lines), Buffer(line_ends), Buffer(blob), Buffer(ends)};
    const mtkit::PackedTexts listed{views[0].text(), views[1].numbers()};
    const mtkit::PackedTexts pieces{views[2].text(), views[3].numbers()};
    mtkit::MergeLines found;
    {
        const nb::gil_scoped_release release;
        found = mtkit::read_merge_lines(listed, pieces);
    }
    return MergeColumns(nb::make_tuple(to_bytes(found.pairs), as_bytes(found.unlisted),
                                       to_bytes(found.unlisted_ends), found.whole));
}

using RankColumns = nb::typed<nb::tuple, nb::bytes, nb::bytes, nb::bytes>;

std::optional<RankColumns> read_ranks(nb::handle file) {
    const Buffer held(file);
    std::optional<mtkit::RankLines> found;
    {
        const nb::gil_scoped_release release;
        found = mtkit::RankLines::read(held.text());
    }
    if (!found) return std::nullopt;
    return RankColumns(
        nb::make_tuple(as_bytes(found->blob), to_bytes(found->ends), as_bytes(found->present)));
}

} // namespace

void bind_vocabularies(nb::module_ &m) {
    using Model = mtkit::JsonModel;
    nb::class_<Model>(m, "JsonModel", "Vocabulary and merges of an ordinary tokenizer.json.")
        .def_prop_ro(
            "rest", [](const Model &model) { return as_bytes(model.rest()); },
            "The document without them.")
        .def_prop_ro(
            "blob", [](const Model &model) { return as_bytes(model.blob()); },
            "The tokens by id; nothing at an id that none has.")
        .def_prop_ro(
            "ends", [](const Model &model) { return to_bytes(model.ends()); },
            "Where each ends (u32).")
        .def_prop_ro("present", &present, "u8 each: whether there is a token.")
        .def_prop_ro("count", &Model::count, "Number of tokens.")
        .def_prop_ro(
            "merges",
            [](const Model &model) -> std::optional<nb::bytes> {
                if (!model.merges()) return std::nullopt;
                return to_bytes(*model.merges());
            },
            "Left and right id in turn (u32); None where the document has no merges.")
        .def_prop_ro(
            "scores",
            [](const Model &model) -> std::optional<nb::bytes> {
                if (!model.scores()) return std::nullopt;
                return to_bytes(*model.scores());
            },
            "By id (f64), where the vocabulary is a list of tokens with scores.")
        .def(
            "find",
            [](const Model &model, const nb::bytes &token) {
                return model.find({token.c_str(), token.size()});
            },
            "token"_a, "Id of a token.");
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
    m.def("read_json_model", &read_model, "document"_a,
          "The long parts of a tokenizer.json; None: it is not an ordinary one.");
}
