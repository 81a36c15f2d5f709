// Unigram: the segmentation with the highest sum of scores.
//
// Source: google/sentencepiece 0.2.3, unigram_model.cc (EncodeOptimized); huggingface/tokenizers,
// models/unigram/model.rs.
#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <type_traits>

#include "base/compiler.hpp"
#include "base/made_once.hpp"
#include "models/safe_cuts.hpp"
#include "models/spelling.hpp"
#include "tables/trie.hpp"

namespace mtkit {

namespace {

// Sums are float or double, and compared as such: in float many segmentations are equal.
//
// Between cuts (safe_cuts.hpp) lie segments, and every path goes through the cuts.
// Which path through a segment is the best depends on the sum before it only as far as that rounds
// sums: where every other path is further behind than rounding reaches, it is the best one after
// any other sum, too, and is remembered.
template <typename Sum> class Unigram final : public Model {
  public:
    Unigram(Reader &program, Tables &tables, const Vocabulary &vocabulary)
        : vocabulary_(vocabulary), trie_(tables), path_scores_(tables.numbers<double>("OFRS")),
          unk_(read_id(program, "unk")),
          byte_fallback_(program.scalar<std::uint8_t>("byte_fallback")),
          fuse_unk_(read_flag(program, "fuse_unk")), any_(read_flag(program, "candidates")),
          unk_score_(program.scalar<double>("unk_score")),
          bytes_(Roles(tables, vocabulary).byte_ids(false)), steepest_(std::abs(unk_score_)) {
        for (const double score : path_scores_)
            steepest_ = std::isfinite(score) ? std::max(steepest_, std::abs(score)) : INFINITY;
    }

    void encode(std::string_view word, ModelScratch &scratch,
                std::vector<Token> &out) const override {
        Answer answer(*this, word, scratch, out);
        if (const auto *const cuts = find_cuts(word, scratch))
            cuts->parts(word, word.data() + word.size(), scratch.whole_characters,
                        [&](std::size_t start, std::size_t end, bool) {
                            add_part(word.substr(start, end - start), start, scratch, answer);
                        });
        else
            search(word, 0, scratch, answer);
        answer.end_unknown();
    }
    void warm() const override { make_own_cuts(); }
    [[nodiscard]] std::uint32_t spelled_as_found() const override { return unk_; }

  private:
    static constexpr std::uint8_t LAST_COVERS = 2;
    static constexpr std::size_t SHORT = 64; // of a word that is searched as it is
    // Of a path that is looked for at once; a longer one is parted where all paths meet.
    static constexpr std::size_t MOST_OPEN = 256;
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

    // The tokens of a word and the sum of their scores. Unknown characters wait for their
    // neighbors: together they are one token.
    class Answer {
      public:
        double sum = 0;

        Answer(const Unigram &model, std::string_view word, const ModelScratch &scratch,
               std::vector<Token> &out)
            : model_(model), word_(word), scratch_(scratch), out_(out) {}

        void put(const Stretch &part) {
            scratch_.give(out_);
            if (part.id != NONE) {
                end_unknown();
                out_.push_back({part.id, part.start, part.end});
                return;
            }
            if (waits_)
                unknown_.end = part.end;
            else
                unknown_ = part;
            waits_ = true;
            if (!model_.fuse_unk_) end_unknown();
        }
        // Put a step that no path goes around, and add its score.
        void step(std::size_t start, std::size_t end, std::uint32_t id) {
            sum = id == NONE ? model_.add_unknown(sum) : model_.add(id, model_.from_here(sum));
            put({static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(end),
                 id == model_.unk_ ? NONE : id});
        }
        // Nothing follows that is unknown.
        void end_unknown() {
            if (!waits_) return;
            waits_ = false;
            const std::size_t start = unknown_.start;
            // The reference looks the joined text up again: it can be a piece after all.
            const auto text = word_.substr(start, unknown_.end - start);
            const auto id = model_.any_ ? model_.vocabulary_.words.find(text) : NONE;
            if (id != NONE)
                out_.push_back({id, unknown_.start, unknown_.end});
            else
                spell_unknown(word_, unknown_, model_.unk_,
                              model_.byte_fallback_ != 0 ? &model_.bytes_ : nullptr,
                              model_.byte_fallback_ == LAST_COVERS, out_);
        }

      private:
        const Unigram &model_;
        std::string_view word_;
        const ModelScratch &scratch_;
        std::vector<Token> &out_;
        Stretch unknown_{};
        bool waits_ = false;
    };

    // What long words are cut with, once that is worth it. The engine does not cut them: which path
    // is the best depends on the sum in front.
    const SafeCuts *find_cuts(std::string_view word, ModelScratch &scratch) const {
        if (word.size() <= SHORT) return nullptr;
        if (const auto *known = cuts_.get()) return known;
        scratch.uncut += word.size();
        return scratch.uncut < SafeCuts::WORTH ? nullptr : make_own_cuts();
    }
    const SafeCuts *make_own_cuts() const {
        return cuts_.make([this] { return SafeCuts::of_characters(vocabulary_, {}); });
    }
    // Add what lies between two cuts.
    void add_part(std::string_view part, std::size_t start, ModelScratch &scratch,
                  Answer &answer) const {
        if (part.size() <= character_size(part[0]))
            answer.step(start, start + part.size(), character(part));
        else if (part.size() <= WordCache::ALWAYS_KEPT)
            add_segment(part, start, scratch, answer);
        else
            search(part, start, scratch, answer);
    }
    // The piece that a single character is; NONE: it is unknown.
    std::uint32_t character(std::string_view text) const {
        for (auto piece = trie_.prefixes(text, 0); piece.next();)
            if (piece.end() == text.size()) return piece.id();
        if (unk_ == NONE) throw NoToken(text);
        return NONE;
    }

    // Add the best path of a segment, remembered or searched for. Remembered are its ids, behind
    // how far the next best path is from it.
    void add_segment(std::string_view segment, std::size_t start, ModelScratch &scratch,
                     Answer &answer) const {
        const double margin = doubt(segment.size(), answer.sum);
        if (std::isinf(margin)) {
            search(segment, start, scratch, answer);
            return;
        }
        std::size_t count = 0;
        const WordCache::Word asked(segment, WordCache::SEGMENT);
        const auto *known = scratch.cache.find(asked, count);
        if (known != nullptr && std::bit_cast<float>(*known) > margin) {
            auto at = static_cast<std::uint32_t>(start);
            for (std::size_t i = 1; i < count; ++i) {
                const auto size = static_cast<std::uint32_t>(vocabulary_.pieces[known[i]].size());
                answer.put({at, at + size, known[i]});
                at += size;
                answer.sum = add(known[i], answer.sum);
            }
            return;
        }
        const double distance = search(segment, start, scratch, answer) - margin;
        if (known != nullptr || !(distance > 0)) return;
        auto &ids = scratch.ids;
        ids.assign(1, std::bit_cast<std::uint32_t>(static_cast<float>(0.999 * distance)));
        for (const auto &[from, end, id] : scratch.stretches) {
            if (id >= vocabulary_.pieces.size() || vocabulary_.pieces[id].size() != end - from)
                return;
            ids.push_back(id);
        }
        scratch.cache.put(asked, ids.data(), ids.size());
    }

    // Offer a path to a node; those up to `reached` are there.
    MTKIT_INLINE static void offer(Nodes &nodes, std::size_t &reached, std::size_t end, Sum score,
                                   std::uint32_t id, std::uint32_t from) {
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

    // Add the best path of a segment, of which the end, or all of a short one, is left in
    // `scratch.stretches`; return how far the next best is from it.
    double search(std::string_view segment, std::size_t origin, ModelScratch &scratch,
                  Answer &answer) const {
        auto &path = scratch.stretches;
        auto &nodes = nodes_of(scratch);
        if (nodes.empty()) nodes.emplace_back();
        nodes[0] = {static_cast<Sum>(answer.sum)};
        double distance = INFINITY;
        std::size_t base = 0;    // the place of the first node
        std::size_t reached = 0; // nodes up to this one are there
        const auto close = [&] {
            distance = std::min(distance, write_path(nodes, reached, origin + base, path));
            for (const auto &part : path) answer.put(part);
            answer.sum = nodes[reached].score;
        };
        for (std::size_t start = 0; start < segment.size();) {
            // Where nothing reaches over a place, every path goes through it.
            if (start - base >= MOST_OPEN && reached == start - base) {
                close();
                base = start;
                reached = 0;
                nodes[0] = {static_cast<Sum>(answer.sum)};
            }
            if (std::abs(nodes[start - base].score) > RESET)
                begin_again(nodes, start - base, reached);
            start = offer_steps(segment, start, base, nodes, reached);
        }
        close();
        return distance;
    }
    // Offer the steps from a place of the segment, and return where its character ends.
    std::size_t offer_steps(std::string_view segment, std::size_t start, std::size_t base,
                            Nodes &nodes, std::size_t &reached) const {
        const auto from = static_cast<std::uint32_t>(start - base);
        const double here = nodes[from].score;
        const std::size_t next = std::min(start + character_size(segment[start]), segment.size());
        bool is_known = false; // whether the character is a piece
        for (auto piece = trie_.prefixes(segment, start); piece.next();) {
            offer(nodes, reached, piece.end() - base, add(piece.id(), here), piece.id(), from);
            is_known |= piece.end() == next;
        }
        if (is_known) return next;
        const auto unknown = static_cast<Sum>(unk_score_ + here);
        const std::size_t end = next - base;
        if (unk_ == NONE &&
            (end > reached || nodes[end].from == NONE || unknown > nodes[end].score))
            throw NoToken(segment.substr(start, next - start));
        offer(nodes, reached, end, unknown, unk_, from);
        return next;
    }
    static double from_here(double sum) {
        if constexpr (std::is_same_v<Sum, float>)
            if (std::abs(sum) > RESET) return sum - sum;
        return sum;
    }
    [[nodiscard]] Sum add_unknown(double sum) const {
        return static_cast<Sum>(unk_score_ + from_here(sum));
    }
    // Write the path to a node; return how far the next best one is from it.
    double write_path(const Nodes &nodes, std::size_t end, std::size_t origin,
                      std::vector<Stretch> &path) const {
        path.clear();
        const auto place = static_cast<std::uint32_t>(origin);
        double distance = INFINITY;
        for (auto at = static_cast<std::uint32_t>(end); at > 0; at = nodes[at].from) {
            const auto &node = nodes[at];
            path.push_back({place + node.from, place + at, node.id == unk_ ? NONE : node.id});
            distance = std::min(distance, double{node.score} - double{node.rival});
        }
        std::ranges::reverse(path);
        return distance;
    }

    static void begin_again(Nodes &nodes, std::size_t start, std::size_t reached) {
        const double offset = nodes[start].score;
        nodes[start].score = static_cast<Sum>(offset - offset);
        for (std::size_t i = start + 1; i <= reached; ++i)
            if (nodes[i].from != NONE) nodes[i].score = static_cast<Sum>(nodes[i].score - offset);
    }

    Vocabulary vocabulary_;
    TrieTable trie_;
    std::span<const double> path_scores_;
    std::uint32_t unk_;
    std::uint8_t byte_fallback_; // 1: with tokens that each cover what they spell; LAST_COVERS
    bool fuse_unk_;
    bool any_;
    double unk_score_;
    ByteIds bytes_;
    double steepest_; // the largest size of a score
    MadeOnce<SafeCuts> cuts_;
};

} // namespace

std::unique_ptr<Model> make_unigram(Reader &program, Tables &tables, const Vocabulary &vocabulary) {
    if (read_flag(program, "precision"))
        return std::make_unique<Unigram<float>>(program, tables, vocabulary);
    return std::make_unique<Unigram<double>>(program, tables, vocabulary);
}

} // namespace mtkit
