// Words to ids, where nothing else is wanted.
//
// Most words are short and come again, and most patterns are followed by rows: for these, the cut,
// the look into the cache and the writing of ids are one loop.
#pragma once

#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "base/compiler.hpp"
#include "encode/engine.hpp"
#include "encode/word_blocks.hpp"
#include "steps/lanes.hpp"
#include "steps/pattern_walk.hpp"

namespace mtkit {

class Engine::Ids {
  public:
    Ids(const Engine &engine, Scratch &scratch, IdList &out)
        : engine_(engine), scratch_(scratch), out_(out) {}

    void added(const Segment &piece) { out_.push_back(piece.id); }

    void word(std::string_view word, const Extent *, const char *readable) {
        if (!engine_.may_cut(word)) return put(word, false, readable);
        if (found(word, false, readable)) return;
        const std::size_t before = out_.size();
        const bool keeps = engine_.cacheable_ && word.size() <= WordCache::LARGEST;
        const WordCache::Word asked(keeps ? word : std::string_view(), false);
        std::size_t count = 0;
        const auto *const ids = keeps ? scratch_.cache.find_stored(asked, count) : nullptr;
        if (ids != nullptr)
            out_.append({ids, count});
        else if (parts(word, readable) > 1 && keeps)
            remember(asked, before);
    }
    // A word that is remembered elsewhere.
    void once(std::string_view word, const char *readable) {
        if (engine_.may_cut(word))
            parts(word, readable);
        else
            encode(word, false);
    }
    // A word that is not asked for as a whole; how many parts it has.
    std::size_t parts(std::string_view word, const char *readable) {
        std::size_t count = 0;
        WordCache::Fast cache(scratch_.cache);
        auto room = out_.room_for_words();
        const auto put_part = [&](std::size_t start, std::size_t end,
                                  bool part) MTKIT_INLINE_LAMBDA {
            ++count;
            const auto text = word.substr(start, end - start);
            const auto *const entry = find_short(cache, text, part, readable);
            if (entry != nullptr && room.write(*entry)) [[likely]]
                return;
            out_.end_at(room.to);
            if (entry != nullptr)
                out_.append(scratch_.cache.ids_of(*entry));
            else
                other(text, part);
            cache = WordCache::Fast(scratch_.cache);
            room = out_.room_for_words();
        };
        engine_.parts(word, readable, scratch_, put_part);
        out_.end_at(room.to);
        return count;
    }

    // Take the whole part in chunks; whether that can be.
    bool take_part(const Part &part);

    // Take words from `start` on as long as that is easy; the place behind them.
    std::size_t words(std::string_view text, std::size_t start) {
        if (engine_.cut_.pattern->rows().empty) return start;
        if (text.size() - start >= MARGIN) start = take(text, start, MARGIN, end_of(text));
        const std::size_t size = text.size() - start;
        if (size == 0 || size >= MARGIN) return start;
        char end[2 * MARGIN] = {}; // the last bytes where more can be read
        std::memcpy(end, text.data() + start, size);
        return start + take({end, size}, 0, 1, std::end(end));
    }

  private:
    // So many bytes are there to read without a look at the end: a block, and READ bytes of the
    // last word in it; or what a lane passes and what it then reads, and a character.
    static constexpr std::size_t MARGIN = WordBlocks::BLOCK + WordCache::READ;

    static const char *end_of(std::string_view text) { return text.data() + text.size(); }

    // Words that begin at `start` or later, `margin` bytes before the end at the latest.
    std::size_t take(std::string_view text, std::size_t start, std::size_t margin,
                     const char *readable) {
        return simd() == Simd::SCALAR ? take<ScalarLane>(text, start, margin, readable)
                                      : take<VectorLane>(text, start, margin, readable);
    }
    template <typename Lane>
    std::size_t take(std::string_view text, std::size_t start, std::size_t margin,
                     const char *readable);

    void put(std::string_view word, bool part, const char *readable) {
        if (!found(word, part, readable)) other(word, part);
    }
    // What is known of a short word; null of another.
    MTKIT_INLINE static const WordCache::Short *find_short(const WordCache::Fast &cache,
                                                           std::string_view word, bool part,
                                                           const char *readable) {
        if (word.size() > WordCache::SHORT) return nullptr;
        const auto left = static_cast<std::size_t>(readable - word.data());
        return left >= WordCache::READ ? cache.find(word.data(), word.size(), part)
                                       : cache.find(word, part);
    }
    // Whether it is a word of the usual kind that was met before.
    bool found(std::string_view word, bool part, const char *readable) {
        const auto *const entry = find_short(WordCache::Fast(scratch_.cache), word, part, readable);
        if (entry == nullptr) return false;
        out_.append(scratch_.cache.ids_of(*entry));
        return true;
    }

    // Put a word that Fast does not find.
    MTKIT_NOINLINE void other(std::string_view word, bool part) {
        if (!engine_.cacheable_ || word.size() > WordCache::LARGEST) return encode(word, part);
        const WordCache::Word asked(word, part);
        std::size_t count = 0;
        if (const auto *ids = scratch_.cache.find_stored(asked, count))
            return out_.append({ids, count});
        const std::size_t before = out_.size();
        encode(word, part);
        remember(asked, before);
    }
    // A word and its ids, which were put from `before` on.
    void remember(const WordCache::Word &word, std::size_t before) {
        const auto ids = out_.ids().subspan(before);
        if (word.size() <= WordCache::LONGEST || scratch_.cache.wants(word, ids.size()))
            scratch_.cache.put(word, ids.data(), ids.size());
    }
    void encode(std::string_view word, bool part) {
        scratch_.tokens.clear();
        const bool unknown = scratch_.learned && word.size() <= WordCache::SHORT;
        engine_.encode_word(word, part, scratch_, unknown);
        auto *to = out_.room(scratch_.tokens.size());
        for (const auto &token : scratch_.tokens) *to++ = token.id;
        out_.end_at(to);
    }

    const Engine &engine_;
    Scratch &scratch_;
    IdList &out_;
};

template <typename Lane>
std::size_t Engine::Ids::take(std::string_view text, std::size_t start, std::size_t margin,
                              const char *readable) {
    const Pattern &pattern = *engine_.cut_.pattern;
    const auto &walk = pattern.rows();
    const auto *const rows = walk.cells.data();
    const auto *const first = rows + walk.start;
    const auto *const blanks = rows + walk.blanks;
    const auto *const letters = rows + walk.letters;
    const auto *const begin = reinterpret_cast<const unsigned char *>(text.data());
    const auto *const stop = begin + text.size();
    const auto *const last = stop - margin;
    const bool valid = scratch_.model.whole_characters;
    const auto word_starts = engine_.word_starts_;

    // What the loop has at hand; it changes where words are put in another way.
    WordCache::Fast cache(scratch_.cache);
    const ByteCuts *cuts = nullptr;
    WordCache::Room room;
    const auto resume = [&] {
        cache = WordCache::Fast(scratch_.cache);
        const auto *const made = engine_.cuts_.get();
        cuts = made != nullptr ? made->bytes() : nullptr;
        room = out_.room_for_words();
    };
    const auto write = [&](const WordCache::Short &entry) {
        if (room.write(entry)) [[likely]]
            return;
        if (entry.count() > WordCache::MANY && room.write_many(scratch_.cache.many_of(entry)))
            return;
        out_.end_at(room.to);
        out_.append(scratch_.cache.ids_of(entry));
        resume();
    };
    const auto put_new = [&](std::string_view bytes, bool part) {
        out_.end_at(room.to);
        other(bytes, part);
        resume();
    };
    const auto put_known = [&](const unsigned char *from, const unsigned char *end, bool part) {
        const auto *const bytes = reinterpret_cast<const char *>(from);
        const auto size = static_cast<std::size_t>(end - from);
        const auto *const entry =
            size <= WordCache::SHORT ? cache.find(bytes, size, part) : nullptr;
        if (entry != nullptr) [[likely]]
            write(*entry);
        else
            put_new({bytes, size}, part);
    };

    // A word that is a run of Han, kana or Hangul is remembered as a whole, too, if it comes again.
    std::optional<WordCache::Word> run;
    std::size_t before_run = 0; // ids
    const auto ends = [&](const unsigned char *at, const std::uint32_t *row) {
        if (*at < 0x80) return row[*at] == Pattern::MATCH;
        const auto c = decode_usual(text, static_cast<std::size_t>(at - begin));
        return row[Pattern::BY_CLASS + pattern.symbol(c.value)] == Pattern::MATCH;
    };
    // Whether a run was met before.
    const auto put_run = [&](const unsigned char *from, std::size_t size) {
        out_.end_at(room.to);
        run.emplace(std::string_view(reinterpret_cast<const char *>(from), size), false);
        before_run = out_.size();
        std::size_t count = 0;
        const auto *ids = scratch_.cache.find(*run, count);
        if (ids != nullptr) {
            out_.append({ids, count});
            run.reset();
        }
        resume();
        return ids != nullptr;
    };
    const auto keep_run = [&] {
        out_.end_at(room.to);
        const auto ids = out_.ids().subspan(before_run);
        if (scratch_.cache.wants(*run, ids.size()))
            scratch_.cache.put(*run, ids.data(), ids.size());
        resume();
    };

    resume();
    WordBlocks blocks(cache, word_starts, last, stop);
    const auto *word = begin + start;
    while (word <= last) {
        if (word_starts != nullptr && WordBlocks::all_ascii(word)) {
            const auto &block = blocks.turn_to(word, cache);
            blocks.go_on();
            const auto *asked = block.asked;
            for (auto rest = block.starts; rest != 0; rest &= rest - 1) {
                const auto *const next = block.begin + std::countr_zero(rest);
                const auto size = static_cast<std::size_t>(next - word);
                const auto *const entry = WordCache::Fast::find(*asked++);
                const std::string_view found(reinterpret_cast<const char *>(word), size);
                word = next;
                if (entry != nullptr && size <= WordCache::SHORT) [[likely]] {
                    write(*entry);
                    continue;
                }
                put_new(found, false);
                if (!blocks.still_lie_in(cache)) break; // what was asked for lies elsewhere
            }
            if (block.starts != 0) continue;
        }
        const auto *at = word;
        const auto *row = first;
        const auto *before = first; // the row in front of this one
        bool part = false;
        bool easy = true;
        while (true) {
            std::uint32_t cell = row[*at];
            if (cell > Pattern::MATCH) [[likely]] {
                ++at;
                before = row;
                row = rows + cell;
                if (row >= blanks) {
                    const auto passed = row >= letters ? Lane::letters(at) : Lane::blanks(at);
                    at += passed;
                    if (passed != 0) before = row;
                }
            } else {
                CodePoint c{*at, 1};
                if (c.value >= 0x80) {
                    easy = valid;
                    if (!valid) break;
                    c = decode_usual(text, static_cast<std::size_t>(at - begin));
                    cell = row[Pattern::BY_CLASS + pattern.symbol(c.value)];
                }
                if (cell <= Pattern::MATCH) {
                    if (cell == Pattern::MATCH) break;
                    // As the last of more than one blank.
                    easy = at - word > 1 && at[-1] < 0x80 &&
                           pattern.ends_in_front(static_cast<std::size_t>(before - rows), at[-1]);
                    if (easy) --at;
                    break;
                }
                at += c.size;
                before = row;
                row = rows + cell;
                if (c.size == 3 && row >= letters && engine_.is_cut_) {
                    easy = cuts != nullptr; // they are made when they are worth it
                    if (!easy) break;
                    // Characters of the same class go on; they are cut where nothing reaches over.
                    const auto page = pattern.page(c.value);
                    if (page < Pattern::MIXED && row[Pattern::BY_CLASS + page] == cell) {
                        const auto *end = at;
                        while (end <= last && pattern.is_of_class(end, page)) end += 3;
                        const auto size = static_cast<std::size_t>(end - word);
                        if (size > WordCache::SHORT && size <= WordCache::LONGEST && !part &&
                            engine_.cacheable_ && end <= last && ends(end, row) &&
                            put_run(word, size)) {
                            at = word = end;
                            break;
                        }
                        auto left = static_cast<std::uint32_t>(c.value);
                        while (at < end) {
                            const std::uint32_t right =
                                (at[0] & 15U) << 12 | (at[1] & 63U) << 6 | (at[2] & 63U);
                            if (!cuts->crossed(left, right)) {
                                put_known(word, at, true);
                                word = at;
                                part = true;
                            }
                            left = right;
                            at += 3;
                        }
                    }
                }
            }
            if (at > last) [[unlikely]] {
                easy = at == stop && row[pattern.end_of_text()] == Pattern::MATCH;
                break;
            }
        }
        if (easy) [[likely]] {
            if (word == at) continue;
            put_known(word, at, part);
            word = at;
            if (run && part) keep_run(); // one without a cut is a word as any other
            run.reset();
            continue;
        }
        run.reset();
        const auto place = static_cast<std::size_t>(word - begin);
        const auto from = static_cast<std::size_t>(at - begin);
        const std::size_t end =
            part ? pattern.quick(text, place, from, static_cast<std::size_t>(row - rows))
                 : pattern.quick(text, place, place, walk.start);
        if (end == place) break;
        out_.end_at(room.to);
        const auto rest = text.substr(place, end - place);
        if (part)
            engine_.parts(rest, readable, scratch_, [&](std::size_t left, std::size_t right, bool) {
                put(rest.substr(left, right - left), true, readable);
            });
        else
            this->word(rest, nullptr, readable);
        resume();
        word = begin + end;
    }
    out_.end_at(room.to);
    return static_cast<std::size_t>(word - begin);
}

} // namespace mtkit
