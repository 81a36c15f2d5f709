// Unigram: the segmentation with the highest sum of scores.
//
// Source: google/sentencepiece 0.2.3, unigram_model.cc (EncodeOptimized); huggingface/tokenizers,
// models/unigram/model.rs.
#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <optional>
#include <type_traits>

#include "base/compiler.hpp"
#include "base/made_once.hpp"
#include "models/character_borders.hpp"
#include "models/foreign_characters.hpp"
#include "models/short_lattice.hpp"
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
          unk_(read_id(program, "unk")),
          byte_fallback_(program.scalar<std::uint8_t>("byte_fallback")),
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
        if (word.size() >= LARGE) out.reserve(out.size() + word.size() / 2); // growing would copy
        Answer answer(*this, word, out);
        const auto *const foreign = find_foreign(scratch);
        for (std::size_t start = 0; start < word.size();) {
            const std::size_t end =
                foreign == nullptr ? word.size() : foreign->characters.next(word, start);
            const auto first = static_cast<unsigned char>(word[start]);
            if (end - start == 1 && foreign != nullptr && foreign->ascii[first] != NONE)
                answer.step(start, end, foreign->ascii[first]);
            else if (end > start)
                encode_known(word, start, end, scratch, answer);
            if (end == word.size()) break;
            start = foreign->characters.end(word, end);
            answer.skip(end, start);
        }
        answer.end_unknown();
    }
    void warm() const override {
        make_cutting();
        make_foreign();
    }
    [[nodiscard]] std::uint32_t spelled_as_found() const override { return unk_; }

  private:
    static constexpr std::uint8_t LAST_COVERS = 2;
    static constexpr std::size_t LARGE = 1U << 14;
    static constexpr std::size_t SHORT = 64; // of a word that is searched as it is
    // How much of longer ones there is, less what is unknown at once, before borders are looked
    // for.
    static constexpr std::size_t WIDE = 16U << 10;
    // Bytes of characters that were unknown at once before they are cut off.
    static constexpr std::size_t MANY_UNKNOWN = 1U << 10;
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
    // neighbours: together they are one token.
    class Answer {
      public:
        double sum = 0;

        Answer(const Unigram &model, std::string_view word, std::vector<Token> &out)
            : model_(model), word_(word), out_(out) {}

        void put(const Stretch &part) {
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
        // Unknown characters of three bytes.
        void skip(std::size_t start, std::size_t end) {
            if (!model_.fuse_unk_) {
                for (std::size_t at = start; at < end; at += 3) step(at, at + 3, NONE);
                return;
            }
            for (std::size_t at = start; at < end; at += 3) sum = model_.add_unknown(sum);
            put({static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(end), NONE});
        }
        // Nothing follows that is unknown.
        void end_unknown() {
            if (!waits_) return;
            waits_ = false;
            const std::size_t start = unknown_.start;
            // The reference looks the joined text up again: it can be a piece after all.
            const auto id =
                model_.any_ && !model_.unknown_.has(page_at(word_, start))
                    ? model_.vocabulary_.words.find(word_.substr(start, unknown_.end - start))
                    : NONE;
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
        std::vector<Token> &out_;
        Stretch unknown_{};
        bool waits_ = false;
    };

    // Encode from `start` to `end`, where no piece reaches over either.
    void encode_known(std::string_view word, std::size_t start, std::size_t end,
                      ModelScratch &scratch, Answer &answer) const {
        const auto known = word.substr(start, end - start);
        if (const auto *cutting = find_cutting(known, scratch)) {
            cutting->borders.parts(
                known, word.data() + word.size(), [&](std::size_t first, std::size_t last, bool) {
                    const auto segment = known.substr(first, last - first);
                    if (segment.size() <= character_size(segment[0]))
                        answer.step(start + first, start + last, character(segment, cutting->ids));
                    else if (segment.size() <= WordCache::LONGEST)
                        add_segment(segment, start + first, scratch, answer);
                    else
                        search(segment, start + first, scratch, answer);
                });
            return;
        }
        while (start < end) {
            const auto rest = word.substr(start, end - start);
            const std::size_t size =
                scratch.whole_characters ? split_points_.first(rest) : rest.size();
            const auto segment = rest.substr(0, size);
            // A word without borders is remembered by the engine.
            if (size > 1 && size < word.size() && size <= WordCache::LONGEST)
                add_segment(segment, start, scratch, answer);
            else
                search(segment, start, scratch, answer);
            start += size;
        }
    }

    // What foreign characters are cut off with, once there were many of them.
    struct Foreign {
        ForeignCharacters characters;
        std::array<std::uint32_t, 256> ascii; // the piece that a character of ASCII is, or NONE
    };
    const Foreign *find_foreign(const ModelScratch &scratch) const {
        if (!scratch.whole_characters) return nullptr;
        if (const auto *known = foreign_.get()) return known;
        return scratch.skipped < MANY_UNKNOWN ? nullptr : make_foreign();
    }
    const Foreign *make_foreign() const {
        return foreign_.make([this] {
            auto made = std::make_unique<Foreign>();
            made->ascii.fill(NONE);
            if (unk_ == NONE) return made; // the search throws at what is unknown
            made->characters = ForeignCharacters(vocabulary_.pieces.blob());
            for (unsigned c = 0; c < 0x80; ++c) {
                const char text = static_cast<char>(c);
                const auto id = single({&text, 1});
                if (id != unk_) made->ascii[c] = id;
            }
            return made;
        });
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

    // The piece of a segment of one character; NONE: it is unknown.
    std::uint32_t character(std::string_view segment, const Paged<std::uint32_t> &ids) const {
        const auto c = decode_usual(segment, 0).value;
        const std::uint32_t id = c < PAGED ? ids[c] : single(segment);
        if (id == NONE && unk_ == NONE) throw NoToken(segment);
        return id;
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
        const WordCache::Word asked(segment, false);
        const auto *known = scratch.segments.find(asked, count);
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
        scratch.segments.put(asked, ids.data(), ids.size());
    }

    // Offer a path to a node; those up to `reached` are there.
    MTKIT_INLINE static void offer_to(Nodes &nodes, std::size_t &reached, std::size_t end,
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

    // Search a short segment; nothing: search() has to, as sums may begin again or are not finite,
    // a character has no token, or characters stand there that it passes at once.
    std::optional<double> search_short(std::string_view segment, std::size_t origin,
                                       ModelScratch &scratch, Answer &answer) const {
        const std::size_t size = segment.size();
        if (std::isinf(doubt(size, answer.sum))) return std::nullopt;
        ShortLattice<Sum> lattice(size, static_cast<Sum>(answer.sum));
        // Copies: no write below can change them, so that they stay in registers.
        const auto trie = trie_;
        const auto scores = path_scores_;
        for (std::size_t start = 0; start < size;) {
            const double here = lattice.score(start);
            const std::size_t next = std::min(start + character_size(segment[start]), size);
            if (next - start == 3 && unknown_.has(page_at(segment, start))) return std::nullopt;
            bool is_known = false; // whether the character is a piece
            for (auto piece = trie.prefixes(segment, start); piece.next();) {
                const std::uint32_t id = piece.id();
                const double score = id < scores.size() ? scores[id] : 0;
                lattice.offer(start, piece.end(), id, static_cast<Sum>(score + here));
                is_known |= piece.end() == next;
            }
            if (!is_known) {
                if (unk_ == NONE) return std::nullopt;
                lattice.offer(start, next, unk_, static_cast<Sum>(unk_score_ + here));
            }
            start = next;
        }
        auto &path = scratch.stretches;
        const auto place = static_cast<std::uint32_t>(origin);
        const double distance =
            lattice.path(size, [&](std::uint32_t start, std::uint32_t end, std::uint32_t id) {
                path.push_back({place + start, place + end, id == unk_ ? NONE : id});
            });
        std::reverse(path.begin(), path.end());
        answer.sum = lattice.score(size);
        for (const auto &part : path) answer.put(part);
        return distance;
    }

    // Add the best path of a segment, which is left in `scratch.stretches`; return how far the next
    // best is from it.
    double search(std::string_view segment, std::size_t origin, ModelScratch &scratch,
                  Answer &answer) const {
        auto &path = scratch.stretches;
        path.clear();
        const std::size_t size = segment.size();
        if (size <= ShortLattice<Sum>::MOST_BYTES)
            if (const auto distance = search_short(segment, origin, scratch, answer))
                return *distance;
        Nodes &nodes = nodes_of(scratch);
        if (nodes.empty()) nodes.emplace_back();
        // Where nothing reaches over a place, every path goes through it: nodes are for what lies
        // between two such places.
        double sum = answer.sum;
        bool open = false;
        std::size_t base = 0;
        std::size_t reached = 0;
        std::size_t skipped = 0;
        double distance = INFINITY;
        const auto offer = [&](std::size_t end, Sum score, std::uint32_t id,
                               std::size_t from) MTKIT_INLINE_LAMBDA {
            offer_to(nodes, reached, end, score, id, static_cast<std::uint32_t>(from));
        };
        const auto close = [&]() MTKIT_INLINE_LAMBDA {
            distance = std::min(distance, write_path(nodes, reached, origin + base, path));
            sum = nodes[reached].score;
            open = false;
        };
        // A step that no other path goes around. Unknown characters are fused to keep it short.
        const auto step = [&](std::size_t start, std::size_t next,
                              std::uint32_t id) MTKIT_INLINE_LAMBDA {
            const auto to = static_cast<std::uint32_t>(origin + next);
            if (id == NONE && fuse_unk_ && !path.empty() && path.back().id == NONE)
                path.back().end = to;
            else
                path.push_back({static_cast<std::uint32_t>(origin + start), to, id});
        };
        for (std::size_t start = 0; start < size;) {
            if (open && reached == start - base) close();
            if (!open && unknown_.has(page_at(segment, start))) {
                do {
                    sum = add_unknown(sum);
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
        scratch.skipped += skipped;
        if (size > SHORT) scratch.wide -= std::min(scratch.wide, skipped);
        answer.sum = sum;
        for (const auto &part : path) answer.put(part);
        return distance;
    }
    static double from_here(double sum) {
        if constexpr (std::is_same_v<Sum, float>)
            if (std::abs(sum) > RESET) return sum - sum;
        return sum;
    }
    [[nodiscard]] Sum add_unknown(double sum) const {
        return static_cast<Sum>(unk_score_ + from_here(sum));
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

    Vocabulary vocabulary_;
    TrieTable trie_;
    std::span<const double> path_scores_;
    std::uint32_t unk_;
    std::uint8_t byte_fallback_; // 1: with tokens that each cover what they spell; LAST_COVERS
    bool fuse_unk_;
    bool any_;
    double unk_score_;
    SplitPoints split_points_;
    ByteIds bytes_;
    double steepest_; // the largest size of a score
    // Pages of characters that no piece begins with. One that ends inside a character is on no
    // path.
    PageSet unknown_;
    MadeOnce<Foreign> foreign_;
    MadeOnce<Cutting> cutting_;
};

} // namespace

std::unique_ptr<Model> make_unigram(Reader &program, Tables &tables, const Vocabulary &vocabulary) {
    if (read_flag(program, "precision"))
        return std::make_unique<Unigram<float>>(program, tables, vocabulary);
    return std::make_unique<Unigram<double>>(program, tables, vocabulary);
}

} // namespace mtkit
