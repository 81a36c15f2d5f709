// Bindings of the making of tables: conversions only.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bind/buffer.hpp"
#include "tables/build.hpp"
#include "tables/trie.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Sections = nb::typed<nb::dict, nb::str, nb::object>;
using Pair3 = nb::typed<nb::tuple, nb::bytes, nb::bytes, nb::bytes>;
using PathScores = nb::typed<nb::tuple, nb::bytes, double>;

Pair3 raw_pieces(nb::handle blob, nb::handle ends) {
    const Buffer blob_view(blob);
    Buffer ends_view(ends);
    const auto raw = mtkit::raw_pieces({blob_view.text(), ends_view.numbers()});
    std::string mapped;
    for (const bool letter : raw.mapped) mapped.push_back(letter ? '\1' : '\0');
    return Pair3(nb::make_tuple(nb::bytes(raw.blob.data(), raw.blob.size()), to_bytes(raw.ends),
                                nb::bytes(mapped.data(), mapped.size())));
}

nb::bytes build_words(nb::handle blob, nb::handle ends, nb::handle extra_blob,
                      nb::handle extra_ends, nb::handle listed) {
    Buffer views[] = {Buffer(blob), Buffer(ends), Buffer(extra_blob), Buffer(extra_ends),
                      Buffer(listed)};
    return to_bytes(mtkit::build_words({views[0].text(), views[1].numbers()},
                                       {views[2].text(), views[3].numbers()}, views[4].text())
                        .slots);
}

// Tables with the buffers that they lie in, and the words in them.
struct Borrowed {
    explicit Borrowed(const Sections &sections) {
        for (auto [tag, section] : sections) {
            buffers.push_back(std::make_unique<Buffer>(section));
            tables.add(nb::cast<std::string>(tag), buffers.back()->bytes());
        }
        pieces = {tables.text("PCSB"), tables.numbers<std::uint32_t>("PCSE")};
        const mtkit::PieceTable extra(tables.text("XTRB"), tables.numbers<std::uint32_t>("XTRE"));
        words = {tables.numbers<std::uint64_t>("WORD"), pieces, extra};
    }
    std::vector<std::unique_ptr<Buffer>> buffers;
    mtkit::Tables tables;
    mtkit::PieceTable pieces;
    mtkit::WordTable words;
};

Pair3 build_pairs(nb::handle merges, const Sections &sections, std::size_t prefix, bool by_text) {
    Buffer merge_view(merges);
    const Borrowed borrowed(sections);
    const auto &words = borrowed.words;
    const auto pairs =
        mtkit::build_pairs(merge_view.numbers(), words, words.count(), prefix, by_text);
    return Pair3(nb::make_tuple(to_bytes(pairs.slots), to_bytes(pairs.made), to_bytes(pairs.bits)));
}

nb::bytes build_own_words(nb::handle merges, const Sections &sections, bool raw) {
    Buffer merge_view(merges);
    Borrowed borrowed(sections);
    const mtkit::PairTable pairs(borrowed.tables);
    return to_bytes(mtkit::build_own_words(merge_view.numbers(), pairs, borrowed.words,
                                           borrowed.pieces.size(), raw));
}

nb::bytes build_trie(nb::handle blob, nb::handle ends, nb::handle listed) {
    Buffer views[] = {Buffer(blob), Buffer(ends), Buffer(listed)};
    return to_bytes(mtkit::build_trie({views[0].text(), views[1].numbers()}, views[2].text()));
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
    Buffer views[] = {Buffer(blob), Buffer(ends), Buffer(scores), Buffer(types)};
    const std::span<const std::uint8_t> kinds(
        reinterpret_cast<const std::uint8_t *>(views[3].text().data()), views[3].text().size());
    auto path_scores = mtkit::build_path_scores(
        {views[0].text(), views[1].numbers()}, scores_of(views[2], wide), kinds, user_defined, any);
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
