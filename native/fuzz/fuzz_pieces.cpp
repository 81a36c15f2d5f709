// Any bytes as a SentencePiece model: what is read of it, its index, and the tables of some pieces.
#include <span>

#include "files/spm_pieces.hpp"
#include "fuzz/answers.hpp"
#include "fuzz/packed.hpp"
#include "tables/build.hpp"
#include "tables/piece_index.hpp"
#include "tables/trie.hpp"

namespace {

using mtkit::NONE;
using mtkit::fuzz::require;

// The first byte says which pieces are listed, one in so many.
std::string marks_of(std::size_t count, std::uint8_t every) {
    std::string marks(count, '\1');
    for (std::size_t at = every; every != 0 && at < count; at += every) marks[at] = '\0';
    return marks;
}

// Whether a table finds the pieces that are listed, each by its text, and none of the others.
void check_words(std::span<const std::uint64_t> slots, const mtkit::PieceTable &pieces,
                 std::string_view marks, bool distinct) {
    const mtkit::WordTable words(slots, pieces, {});
    for (std::uint32_t id = 0; id < pieces.size(); ++id) {
        const auto found = words.find(pieces[id]);
        if (distinct) require(found == (marks[id] != 0 ? id : NONE));
        if (found != NONE) require(pieces[found] == pieces[id] && marks[found] != 0);
        if (marks[id] != 0) require(found <= id);
    }
}

void check_trie(const mtkit::PieceTable &pieces, std::string_view marks) {
    const auto units = mtkit::build_trie(pieces, marks);
    mtkit::Tables tables;
    tables.add("TRIE", std::as_bytes(std::span(units)));
    const mtkit::TrieTable trie(tables);
    for (std::uint32_t id = 0; id < pieces.size(); ++id) {
        std::uint32_t last = NONE;
        for (auto found = trie.prefixes(pieces[id], 0); found.next();) {
            const auto beginning = pieces[id].substr(0, found.end());
            require(pieces[found.id()] == beginning && marks[found.id()] != 0);
            if (beginning == pieces[id]) last = found.id();
        }
        if (marks[id] != 0) require(last <= id);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    if (size == 0) return 0;
    const std::string model(data + 1, data + size); // of exactly that size
    mtkit::fuzz::answers([&] {
        const auto read = mtkit::SpmPieces::read(model);
        if (!read) return;
        const auto &[blob, ends, scores, types, marks, rest] = *read;
        require(scores.size() == ends.size() && types.size() == ends.size());
        require(blob.size() == (ends.empty() ? 0 : ends.back()));
        const mtkit::PieceIndex index({blob, ends});
        const mtkit::PieceTable pieces(blob, ends);
        for (std::uint32_t id = 0; id < ends.size(); ++id)
            require(index.distinct() ? index.find(pieces[id]) == id : index.find(pieces[id]) <= id);
        const auto listed = marks_of(ends.size(), data[0]);
        if (const auto slots = index.size_without(listed)) {
            std::vector<std::uint64_t> words(*slots);
            index.write_without(listed, words);
            check_words(words, pieces, listed, true);
        }
        check_words(mtkit::build_words(pieces, {}, listed).slots, pieces, listed, index.distinct());
        check_trie(pieces, listed);
    });
    return 0;
}
