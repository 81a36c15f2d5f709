// Bindings of the making of tables: conversions only.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <cstring>
#include <optional>
#include <vector>

#include "bind/buffer.hpp"
#include "tables/build.hpp"
#include "tables/trie.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Pair3 = nb::typed<nb::tuple, nb::bytes, nb::bytes, nb::bytes>;
using PathScores = nb::typed<nb::tuple, nb::bytes, double>;

Pair3 raw_pieces(nb::handle blob, nb::handle ends) {
    HeldPieces pieces(blob, ends);
    const auto raw = mtkit::raw_pieces(*pieces);
    return Pair3(nb::make_tuple(to_bytes(raw.blob), to_bytes(raw.ends), to_bytes(raw.mapped)));
}

nb::bytes build_words(nb::handle blob, nb::handle ends, nb::handle extra_blob,
                      nb::handle extra_ends, nb::handle listed) {
    HeldPieces pieces(blob, ends);
    HeldPieces extra(extra_blob, extra_ends);
    const Buffer marks(listed);
    return to_bytes(mtkit::build_words(*pieces, *extra, marks.text()).slots);
}

Pair3 build_pairs(nb::handle merges, const HeldTables::Sections &sections, std::size_t prefix,
                  bool by_text) {
    Buffer merge_view(merges);
    const HeldTables held(sections);
    mtkit::Tables tables = *held;
    const mtkit::WordTable words(tables);
    const auto pairs =
        mtkit::build_pairs(merge_view.numbers(), words, words.count(), prefix, by_text);
    return Pair3(nb::make_tuple(to_bytes(pairs.slots), to_bytes(pairs.made), to_bytes(pairs.bits)));
}

nb::bytes build_own_words(nb::handle merges, const HeldTables::Sections &sections, bool raw) {
    Buffer merge_view(merges);
    const HeldTables held(sections);
    mtkit::Tables tables = *held;
    const mtkit::WordTable words(tables);
    return to_bytes(
        mtkit::build_own_words(merge_view.numbers(), mtkit::PairTable(tables), words, raw));
}

nb::bytes build_trie(nb::handle blob, nb::handle ends, nb::handle listed) {
    HeldPieces pieces(blob, ends);
    const Buffer marks(listed);
    return to_bytes(mtkit::build_trie(*pieces, marks.text()));
}

template <typename Score> std::vector<double> scores_of(const Buffer &buffer) {
    const auto bytes = buffer.bytes();
    std::vector<double> scores(bytes.size() / sizeof(Score));
    for (std::size_t i = 0; i < scores.size(); ++i) {
        Score score;
        std::memcpy(&score, bytes.data() + i * sizeof(Score), sizeof(Score));
        scores[i] = score;
    }
    return scores;
}
// Scores as f64 or, where they are not `wide`, f32.
std::vector<double> scores_of(const Buffer &buffer, bool wide) {
    return wide ? scores_of<double>(buffer) : scores_of<float>(buffer);
}

nb::bytes build_ranks(nb::handle scores, bool wide, std::optional<double> floor) {
    const Buffer view(scores);
    return to_bytes(mtkit::build_ranks(scores_of(view, wide), floor ? &*floor : nullptr));
}

PathScores build_path_scores(nb::handle blob, nb::handle ends, nb::handle scores, bool wide,
                             nb::handle types, int user_defined, bool any) {
    HeldPieces pieces(blob, ends);
    const Buffer score_view(scores);
    const Buffer type_view(types);
    const std::span<const std::uint8_t> kinds(
        reinterpret_cast<const std::uint8_t *>(type_view.text().data()), type_view.text().size());
    auto path_scores =
        mtkit::build_path_scores(*pieces, scores_of(score_view, wide), kinds, user_defined, any);
    const double unknown = path_scores.back();
    path_scores.pop_back();
    return PathScores(nb::make_tuple(to_bytes(path_scores), unknown));
}

} // namespace

void bind_build(nb::module_ &m) {
    m.def("raw_pieces", &raw_pieces, "blob"_a, "ends"_a,
          "Pieces in the byte alphabet as bytes: (blob, ends, u8 each: whether it is in it).");
    m.def("build_words", &build_words, "blob"_a, "ends"_a, "extra_blob"_a, "extra_ends"_a,
          "listed"_a, "The table piece -> id; `listed`: u8 each whether it counts, empty: all.");
    m.def("build_pairs", &build_pairs, "merges"_a, "sections"_a, "prefix"_a, "by_text"_a,
          "The tables pair -> rank and rank -> symbol, and a bit for pairs that may merge.");
    m.def("build_own_words", &build_own_words, "merges"_a, "sections"_a, "raw"_a,
          "A bit for each piece of which merging bytes (raw) or characters makes itself; empty: not"
          " each byte is one.");
    m.def("build_trie", &build_trie, "blob"_a, "ends"_a, "listed"_a,
          "The trie of the pieces; `listed`: u8 each whether it counts, empty: all.");
    m.def("build_ranks", &build_ranks, "scores"_a, "wide"_a, "floor"_a.none(),
          "Place of each score in descending order; wide: f64 instead of f32.");
    m.def("build_path_scores", &build_path_scores, "blob"_a, "ends"_a, "scores"_a, "wide"_a,
          "types"_a, "user_defined"_a, "every"_a,
          "What each id counts in a Unigram, and an unknown character.");
}
