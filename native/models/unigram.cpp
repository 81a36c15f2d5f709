// Unigram: the segmentation with the highest sum of scores.
//
// Source: google/sentencepiece 0.2.3, unigram_model.cc (EncodeOptimized); huggingface/tokenizers,
// models/unigram/model.rs.
#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <type_traits>

#include "base/made_once.hpp"
#include "models/character_borders.hpp"
#include "models/spelling.hpp"
#include "steps/split_points.hpp"
#include "tables/trie.hpp"
#include "text/paged.hpp"

namespace mtkit {

namespace {

// Sums are float or double, and compared as such: in float many segmentations are equal.
//
// Between borders that no piece reaches over lie segments, and every path goes through the borders.
// Which path through a segment is the best depends on the sum before it only as far as that rounds
// sums: where every other path is further behind than rounding reaches, it is the best one after
// any other sum, too, and is remembered.
template <typename Sum> class Unigram final : public Model {
  public:
    Unigram(Reader &program, Tables &tables, const Vocabulary &vocabulary)
        : vocabulary_(vocabulary), trie_(tables), path_scores_(tables.numbers<double>("OFRS")),
          unk_(read_id(program, "unk")), byte_fallback_(read_flag(program, "byte_fallback")),
          fuse_unk_(read_flag(program, "fuse_unk")), any_(read_flag(program, "candidates")),
          unk_score_(program.scalar<double>("unk_score")),
          split_points_(read_text(program, "crossed")),
          bytes_(Roles(tables, vocabulary).byte_ids(false)), steepest_(std::abs(unk_score_)) {
        for (const double score : path_scores_)
            steepest_ = std::isfinite(score) ? std::max(steepest_, std::abs(score)) : INFINITY;
        if (unk_ == NONE) return;
        unknown_ = pages_that([this](unsigned page) {
            const auto pair = beginning_of(page);
            return !trie_.leads({pair.data(), pair.size()});
        });
    }

    void encode(std::string_view word, ModelScratch &scratch,
                std::vector<Token> &out) const override {
        auto &path = scratch.stretches;
        path.clear();
        if (word.size() >= LARGE) out.reserve(out.size() + word.size() / 2); // growing would copy
        double sum = 0;
        // Unknown characters may have neighbours behind the border: they wait in the path.
        const auto spell_known = [&] {
            if (path.back().id == NONE) return;
            spell_path(word, path, out);
            path.clear();
        };
        if (const auto *cutting = find_cutting(word, scratch)) {
            cutting->borders.parts(word, [&](std::size_t start, std::size_t end, bool) {
                const auto segment = word.substr(start, end - start);
                if (segment.size() <= character_size(segment[0])) {
                    const auto id = character(segment, cutting->ids, sum);
                    const auto from = static_cast<std::uint32_t>(start);
                    const auto to = static_cast<std::uint32_t>(end);
                    if (id != NONE && path.empty()) {
                        out.push_back({id, from, to});
                        return;
                    }
                    path.push_back({from, to, id});
                } else if (segment.size() <= WordCache::LONGEST) {
                    add_segment(segment, start, sum, scratch, path);
                } else {
                    search(segment, start, sum, scratch, path);
                }
                spell_known();
            });
        } else {
            for (std::size_t start = 0; start < word.size();) {
                const auto rest = word.substr(start);
                const std::size_t size =
                    scratch.whole_characters ? split_points_.first(rest) : rest.size();
                const auto segment = rest.substr(0, size);
                // A word without borders is remembered by the engine.
                if (size < word.size() && size <= WordCache::LONGEST)
                    add_segment(segment, start, sum, scratch, path);
                else
                    search(segment, start, sum, scratch, path);
                start += size;
                spell_known();
            }
        }
        spell_path(word, path, out);
    }
    void warm() const override { make_cutting(); }
    [[nodiscard]] std::uint32_t spelled_as_found() const override { return unk_; }

  private:
    static constexpr std::size_t LARGE = 1U << 14;
    static constexpr std::size_t SHORT = 64; // of a word that is searched as it is
    // How much of longer ones there is, less what is unknown at once, before borders are looked
    // for.
    static constexpr std::size_t WIDE = 16U << 10;
    using Node = ModelScratch::Node<Sum>;
    using Nodes = std::vector<Node>;
    static Nodes &nodes_of(ModelScratch &scratch) {
        if constexpr (std::is_same_v<Sum, float>)
            return scratch.small_nodes;
        else
            return scratch.nodes;
    }
    // Sums beyond it begin again (kScoreResetThreshold).
    static constexpr double RESET =
        std::is_same_v<Sum, float> ? 100'000 : std::numeric_limits<double>::infinity();

    [[nodiscard]] Sum add(std::uint32_t id, double sum) const {
        return static_cast<Sum>((id < path_scores_.size() ? path_scores_[id] : 0) + sum);
    }

    // How far rounding can move two sums in a segment against each other: half a unit in the last
    // place for each piece of each. Infinity where sums may begin again.
    [[nodiscard]] double doubt(std::size_t size, double sum) const {
        const auto pieces = static_cast<double>(size);
        const double most = std::abs(sum) + pieces * steepest_;
        if (!(most < RESET)) return INFINITY;
        return (pieces + 1) * most * std::numeric_limits<Sum>::epsilon();
    }

    // What long words are cut with, once that is worth it.
    struct Cutting {
        CharacterBorders borders;
        Paged<std::uint32_t> ids{NONE}; // of pieces of one character
    };
    const Cutting *find_cutting(std::string_view word, ModelScratch &scratch) const {
        if (word.size() <= SHORT || !scratch.whole_characters) return nullptr;
        if (const auto *known = cutting_.get()) return known;
        scratch.wide += word.size();
        return scratch.wide < WIDE ? nullptr : make_cutting();
    }
    const Cutting *make_cutting() const {
        return cutting_.make([this] {
            auto made = std::make_unique<Cutting>(Cutting{.borders = {vocabulary_, false}});
            for (std::size_t i = 0; i < vocabulary_.pieces.size(); ++i) {
                const auto piece = vocabulary_.pieces[i];
                if (piece.empty()) continue;
                const auto c = decode(piece, 0);
                if (c.size == piece.size()) made->ids.put(c.value, c.value + 1, single(piece));
            }
            return made;
        });
    }
    // The piece that is exactly this text.
    [[nodiscard]] std::uint32_t single(std::string_view text) const {
        for (auto piece = trie_.prefixes(text, 0); piece.next();)
            if (piece.end() == text.size()) return piece.id();
        return NONE;
    }

    // The piece of a segment of one character, whose score is added; NONE: it is unknown.
    std::uint32_t character(std::string_view segment, const Paged<std::uint32_t> &ids,
                            double &sum) const {
        const auto c = decode_usual(segment, 0).value;
        const std::uint32_t id = c < PAGED ? ids[c] : single(segment);
        const double here = from_here(sum);
        if (id != NONE) {
            sum = add(id, here);
        } else {
            if (unk_ == NONE) throw NoToken(segment);
            sum = static_cast<Sum>(unk_score_ + here);
        }
        return id == unk_ ? NONE : id;
    }

    // Add the best path of a segment, remembered or searched for. Remembered are its ids, behind
    // how far the next best path is from it.
    void add_segment(std::string_view segment, std::size_t start, double &sum,
                     ModelScratch &scratch, std::vector<Stretch> &path) const {
        const double margin = doubt(segment.size(), sum);
        if (std::isinf(margin)) {
            search(segment, start, sum, scratch, path);
            return;
        }
        std::size_t count = 0;
        const WordCache::Word asked(segment, false);
        const auto *known = scratch.segments.find(asked, count);
        if (known != nullptr && std::bit_cast<float>(*known) > margin) {
            auto at = static_cast<std::uint32_t>(start);
            for (std::size_t i = 1; i < count; ++i) {
                const auto size = static_cast<std::uint32_t>(vocabulary_.pieces[known[i]].size());
                path.push_back({at, at + size, known[i]});
                at += size;
                sum = add(known[i], sum);
            }
            return;
        }
        const std::size_t first = path.size();
        const double distance = search(segment, start, sum, scratch, path) - margin;
        if (known != nullptr || !(distance > 0)) return;
        auto &ids = scratch.ids;
        ids.assign(1, std::bit_cast<std::uint32_t>(static_cast<float>(0.999 * distance)));
        for (std::size_t i = first; i < path.size(); ++i) {
            const auto &[from, end, id] = path[i];
            if (id >= vocabulary_.pieces.size() || vocabulary_.pieces[id].size() != end - from)
                return;
            ids.push_back(id);
        }
        scratch.segments.put(asked, ids.data(), ids.size());
    }

    // Offer a path to a node; those up to `reached` are there.
    [[gnu::always_inline]] static void offer_to(Nodes &nodes, std::size_t &reached, std::size_t end,
                                                Sum score, std::uint32_t id, std::uint32_t from) {
        while (reached < end) {
            if (++reached < nodes.size())
                nodes[reached] = {};
            else
                nodes.emplace_back();
        }
        Node &node = nodes[end];
        const bool better = (node.from == NONE) | (score > node.score);
        node.rival = std::max(node.rival, better ? node.score : score);
        node.score = better ? score : node.score;
        node.id = better ? id : node.id;
        node.from = better ? from : node.from;
    }

    // Add the best path of a segment and its scores; return how far the next best is from it.
    double search(std::string_view segment, std::size_t origin, double &sum, ModelScratch &scratch,
                  std::vector<Stretch> &path) const {
        Nodes &nodes = nodes_of(scratch);
        const std::size_t size = segment.size();
        const std::size_t first = path.size();
        if (nodes.empty()) nodes.emplace_back();
        // Where nothing reaches over a place, every path goes through it: nodes are for what lies
        // between two such places.
        bool open = false;
        std::size_t base = 0;
        std::size_t reached = 0;
        std::size_t skipped = 0;
        double distance = INFINITY;
        const auto offer = [&](std::size_t end, Sum score, std::uint32_t id, std::size_t from) {
            offer_to(nodes, reached, end, score, id, static_cast<std::uint32_t>(from));
        };
        const auto close = [&] {
            distance = std::min(distance, write_path(nodes, reached, origin + base, path));
            sum = nodes[reached].score;
            open = false;
        };
        // A step that no other path goes around. Unknown characters are fused to keep it short.
        const auto step = [&](std::size_t start, std::size_t next, std::uint32_t id) {
            const auto to = static_cast<std::uint32_t>(origin + next);
            if (id == NONE && fuse_unk_ && path.size() > first && path.back().id == NONE)
                path.back().end = to;
            else
                path.push_back({static_cast<std::uint32_t>(origin + start), to, id});
        };
        for (std::size_t start = 0; start < size;) {
            if (open && reached == start - base) close();
            if (!open && unknown_.has(page_at(segment, start))) {
                do {
                    sum = static_cast<Sum>(unk_score_ + from_here(sum));
                    step(start, start + 3, NONE);
                    start += 3;
                    skipped += 3;
                } while (unknown_.has(page_at(segment, start)));
                if (start == size) break;
            }
            if (open && std::abs(nodes[start - base].score) > RESET)
                begin_again(nodes, start - base, reached);
            const double here = open ? double{nodes[start - base].score} : from_here(sum);
            const std::size_t next = std::min(start + character_size(segment[start]), size);
            std::uint32_t single = NONE; // the piece of one character
            for (auto piece = trie_.prefixes(segment, start); piece.next();) {
                const bool is_single = piece.end() == next;
                if (is_single) single = piece.id();
                if (!open) {
                    if (is_single) continue;
                    open = true;
                    base = start;
                    reached = 0;
                    nodes[0] = {static_cast<Sum>(here)};
                    if (single != NONE) offer(next - base, add(single, here), single, 0);
                }
                offer(piece.end() - base, add(piece.id(), here), piece.id(), start - base);
            }
            const auto unknown = static_cast<Sum>(unk_score_ + here);
            if (!open) {
                if (single == NONE && unk_ == NONE)
                    throw NoToken(segment.substr(start, next - start));
                sum = single == NONE ? unknown : add(single, here);
                step(start, next, single == unk_ ? NONE : single);
            } else if (single == NONE) {
                const std::size_t end = next - base;
                if (unk_ == NONE &&
                    (end > reached || nodes[end].from == NONE || unknown > nodes[end].score))
                    throw NoToken(segment.substr(start, next - start));
                offer(end, unknown, unk_, start - base);
            }
            start = next;
        }
        if (open) close();
        if (size > SHORT) scratch.wide -= std::min(scratch.wide, skipped);
        return distance;
    }
    static double from_here(double sum) {
        if constexpr (std::is_same_v<Sum, float>)
            if (std::abs(sum) > RESET) return sum - sum;
        return sum;
    }

    // Add the path to a node; return how far the next best one is from it.
    double write_path(const Nodes &nodes, std::size_t end, std::size_t origin,
                      std::vector<Stretch> &path) const {
        const std::size_t first = path.size();
        const auto place = static_cast<std::uint32_t>(origin);
        double distance = INFINITY;
        for (auto at = static_cast<std::uint32_t>(end); at > 0; at = nodes[at].from) {
            const auto &node = nodes[at];
            path.push_back({place + node.from, place + at, node.id == unk_ ? NONE : node.id});
            distance = std::min(distance, double{node.score} - double{node.rival});
        }
        std::reverse(path.begin() + static_cast<std::ptrdiff_t>(first), path.end());
        return distance;
    }

    static void begin_again(Nodes &nodes, std::size_t start, std::size_t reached) {
        const double offset = nodes[start].score;
        nodes[start].score = static_cast<Sum>(offset - offset);
        for (std::size_t i = start + 1; i <= reached; ++i)
            if (nodes[i].from != NONE) nodes[i].score = static_cast<Sum>(nodes[i].score - offset);
    }

    void spell_path(std::string_view word, std::vector<Stretch> &path,
                    std::vector<Token> &out) const {
        std::size_t kept = 0;
        for (const auto &part : path) {
            if (part.id == NONE && fuse_unk_ && kept != 0 && path[kept - 1].id == NONE)
                path[kept - 1].end = part.end;
            else
                path[kept++] = part;
        }
        path.resize(kept);
        if (any_)
            // The reference looks the joined text up again: it can be a piece after all.
            for (auto &part : path)
                if (part.id == NONE && !unknown_.has(page_at(word, part.start)))
                    part.id =
                        vocabulary_.words.find(word.substr(part.start, part.end - part.start));
        spell(word, path, unk_, byte_fallback_ ? &bytes_ : nullptr, fuse_unk_, out);
    }

    Vocabulary vocabulary_;
    TrieTable trie_;
    std::span<const double> path_scores_;
    std::uint32_t unk_;
    bool byte_fallback_;
    bool fuse_unk_;
    bool any_;
    double unk_score_;
    SplitPoints split_points_;
    ByteIds bytes_;
    double steepest_; // the largest size of a score
    // Pages of characters that no piece begins with. One that ends inside a character is on no
    // path.
    PageSet unknown_;
    MadeOnce<Cutting> cutting_;
};

} // namespace

std::unique_ptr<Model> make_unigram(Reader &program, Tables &tables, const Vocabulary &vocabulary) {
    if (read_flag(program, "precision"))
        return std::make_unique<Unigram<float>>(program, tables, vocabulary);
    return std::make_unique<Unigram<double>>(program, tables, vocabulary);
}

} // namespace mtkit
