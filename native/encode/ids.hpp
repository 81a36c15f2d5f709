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

    void added(const TextOrToken &piece) { out_.push_back(piece.id); }

    void word(std::string_view word, const Extent *, const char *readable) {
        if (!engine_.may_cut(word)) return put_part(word, false, readable);
        if (put_known(word, false, readable)) return;
        const std::size_t before = out_.size();
        const bool keeps = engine_.cacheable_ && word.size() <= WordCache::MOST_KEPT;
        const WordCache::Word asked(keeps ? word : std::string_view(), WordCache::WORD);
        std::size_t count = 0;
        const auto *const ids = keeps ? scratch_.model.cache.find_stored(asked, count) : nullptr;
        if (ids != nullptr)
            out_.append({ids, count});
        else if (put_parts(word, readable) > 1 && keeps)
            remember(asked, before);
    }
    // Put a word that is remembered elsewhere.
    void put_new(std::string_view word, const char *readable) {
        if (engine_.may_cut(word))
            put_parts(word, readable);
        else
            put_encoded(word, false);
    }
    // Put a word that is not asked for as a whole; how many parts it has.
    std::size_t put_parts(std::string_view word, const char *readable) {
        std::size_t count = 0;
        WordCache::Fast cache(scratch_.model.cache);
        auto room = out_.room_for_words();
        const auto put = [&](std::size_t start, std::size_t end, bool part) MTKIT_INLINE_LAMBDA {
            ++count;
            const auto text = word.substr(start, end - start);
            const auto *const entry = find_short(cache, text, part, readable);
            if (entry != nullptr && room.write(*entry)) [[likely]]
                return;
            out_.end_at(room.to);
            if (entry != nullptr)
                out_.append(scratch_.model.cache.ids_of(*entry));
            else
                put_other(text, part);
            cache = WordCache::Fast(scratch_.model.cache);
            room = out_.room_for_words();
        };
        engine_.parts(word, readable, scratch_, put);
        out_.end_at(room.to);
        return count;
    }

    // Take the whole part in chunks; whether that can be.
    bool take_part(const Part &part);

    // Take words from `start` on as long as that is easy; the place behind them.
    std::size_t words(std::string_view text, std::size_t start);

  private:
    // So many bytes are there to read without a look at the end: a block, and READ bytes of the
    // last word in it; or what a lane passes and what it then reads, and a character.
    static constexpr std::size_t MARGIN = WordBlocks::BLOCK + WordCache::READ;

    static const char *end_of(std::string_view text) { return text.data() + text.size(); }

    class Loop;

    // Put a word, or a part of one, that is asked for as it is.
    void put_part(std::string_view word, bool part, const char *readable) {
        if (!put_known(word, part, readable)) put_other(word, part);
    }
    // What is known of a short word; null of another.
    MTKIT_INLINE static const WordCache::Short *find_short(const WordCache::Fast &cache,
                                                           std::string_view word, bool part,
                                                           const char *readable) {
        if (word.size() > WordCache::SHORT) return nullptr;
        const auto left = static_cast<std::size_t>(readable - word.data());
        return left >= WordCache::READ
                   ? cache.find(word.data(), word.size(), WordCache::word_or_part(part))
                   : cache.find(word, WordCache::word_or_part(part));
    }
    // Put a short word if it was met before.
    bool put_known(std::string_view word, bool part, const char *readable) {
        const auto *const entry =
            find_short(WordCache::Fast(scratch_.model.cache), word, part, readable);
        if (entry == nullptr) return false;
        out_.append(scratch_.model.cache.ids_of(*entry));
        return true;
    }

    // Put a word that Fast does not find.
    MTKIT_NOINLINE void put_other(std::string_view word, bool part) {
        if (!engine_.cacheable_ || word.size() > WordCache::MOST_KEPT)
            return put_encoded(word, part);
        const WordCache::Word asked(word, WordCache::word_or_part(part));
        std::size_t count = 0;
        if (const auto *ids = scratch_.model.cache.find_stored(asked, count))
            return out_.append({ids, count});
        const std::size_t before = out_.size();
        put_encoded(word, part);
        remember(asked, before);
    }
    // Remember a word and its ids, which were put from `before` on.
    void remember(const WordCache::Word &word, std::size_t before) {
        const auto ids = out_.ids().subspan(before);
        if (word.size() <= WordCache::ALWAYS_KEPT || scratch_.model.cache.wants(word, ids.size()))
            scratch_.model.cache.put(word, ids.data(), ids.size());
    }
    // Put what the model makes of it.
    void put_encoded(std::string_view word, bool part) {
        if (word.size() > LONG) return put_long(word, part);
        scratch_.tokens.clear();
        const bool not_seeded = scratch_.learned && word.size() <= WordCache::SHORT;
        engine_.encode_word(word, {.part = part, .not_seeded = not_seeded}, scratch_);
        put_ids(scratch_.tokens);
    }
    MTKIT_NOINLINE void put_long(std::string_view word, bool part) {
        const std::size_t before = out_.size();
        engine_.encode_long(
            word, part, scratch_,
            [&](std::string_view, std::size_t, std::span<const Token> tokens) { put_ids(tokens); },
            [&] { out_.truncate(before); });
    }
    void put_ids(std::span<const Token> tokens) {
        auto *to = out_.room(tokens.size());
        for (const auto &token : tokens) *to++ = token.id;
        out_.end_at(to);
    }

    const Engine &engine_;
    Scratch &scratch_;
    IdList &out_;
};

// The words of a text that is split at a pattern, one after the other, and what is at hand for
// them.
class Engine::Ids::Loop {
  public:
    // Words that begin `margin` bytes before the end of the text at the latest; memory may be read
    // as far as `readable`.
    Loop(Ids &ids, std::string_view text, std::size_t margin, const char *readable)
        : ids_(ids), engine_(ids.engine_), pattern_(*engine_.pattern_split_.pattern), text_(text),
          readable_(readable), begin_(reinterpret_cast<const unsigned char *>(text.data())),
          stop_(begin_ + text.size()), last_(stop_ - margin), rows_(pattern_.rows().cells.data()),
          first_(rows_ + pattern_.rows().start), blanks_(rows_ + pattern_.rows().blanks),
          letters_(rows_ + pattern_.rows().letters) {
        resume();
    }

    // From `start` on; where the first word begins that was not taken.
    std::size_t run(std::size_t start) {
        word_ = begin_ + start;
        while (word_ <= last_) {
            const bool in_blocks = engine_.word_starts_ != nullptr && WordBlocks::all_ascii(word_);
            if (in_blocks && take_block()) continue;
            if (!take_word()) break;
        }
        pause();
        return static_cast<std::size_t>(word_ - begin_);
    }

  private:
    // A word on its way through the rows.
    struct Look {
        const unsigned char *at;
        const std::uint32_t *row;
        const std::uint32_t *before; // the row in front of that one
        bool part = false;           // some of the word was put
        bool easy = true;            // it ends at `at`
    };

    // What is at hand changes where words are put in another way.
    void resume() {
        cache_ = WordCache::Fast(ids_.scratch_.model.cache);
        const auto *const made = engine_.cuts_.get();
        cuts_ = made != nullptr ? made->bytes() : nullptr;
        room_ = ids_.out_.room_for_words();
    }
    void pause() { ids_.out_.end_at(room_.to); }

    // Take the words that certainly start in a block; false: there are none. Copies of what is at
    // hand stay in registers, as the call of put_other() changes none of them.
    bool take_block() {
        const auto &block = blocks_.turn_to(word_, cache_);
        blocks_.go_on();
        const auto *asked = block.asked;
        const auto *word = word_;
        auto room = room_;
        for (auto rest = block.starts; rest != 0; rest &= rest - 1) {
            const auto *const next = block.begin + std::countr_zero(rest);
            const auto size = static_cast<std::size_t>(next - word);
            const auto *entry = WordCache::Fast::find(*asked++);
            if (size > WordCache::SHORT) entry = nullptr;
            if (entry == nullptr || !room.write(*entry)) [[unlikely]] {
                room_ = room;
                put_other(entry, {reinterpret_cast<const char *>(word), size}, false);
                room = room_;
            }
            word = next;
            if (!blocks_.still_lie_in(cache_)) break; // what was asked for lies elsewhere
        }
        room_ = room;
        word_ = word;
        return block.starts != 0;
    }

    // Take a word by rows, a load for each byte; false: the general search has to find it.
    bool take_word() {
        Look look{word_, first_, first_};
        while (true) {
            const std::uint32_t cell = look.row[*look.at];
            if (cell > Pattern::MATCH) [[likely]] {
                ++look.at;
                look.before = look.row;
                look.row = rows_ + cell;
                if (look.row >= blanks_) {
                    const auto passed =
                        look.row >= letters_ ? Lane::letters(look.at) : Lane::blanks(look.at);
                    look.at += passed;
                    if (passed != 0) look.before = look.row;
                }
            } else if (!go_on(look, cell)) {
                break;
            }
            if (look.at > last_) [[unlikely]] {
                look.easy = look.at == stop_ && look.row[pattern_.end_of_text()] == Pattern::MATCH;
                break;
            }
        }
        if (!look.easy) return take_hard(look);
        if (word_ == look.at) return true; // a run that was met before
        put_known(look.at, look.part);
        word_ = look.at;
        if (run_ && look.part) keep_run(); // one without a cut is a word as any other
        run_.reset();
        return true;
    }
    // Go on where the row of a byte leads nowhere; false: here the word ends, or it is not easy.
    MTKIT_INLINE bool go_on(Look &look, std::uint32_t cell) {
        CodePoint c{*look.at, 1};
        if (c.value >= 0x80) {
            look.easy = ids_.scratch_.model.whole_characters;
            if (!look.easy) return false;
            c = decode_usual(text_, static_cast<std::size_t>(look.at - begin_));
            cell = look.row[Pattern::BY_CLASS + pattern_.symbol(c.value)];
        }
        if (cell <= Pattern::MATCH) {
            if (cell == Pattern::MATCH) return false;
            // As the last of more than one blank.
            look.easy =
                look.at - word_ > 1 && look.at[-1] < 0x80 &&
                pattern_.ends_in_front(static_cast<std::size_t>(look.before - rows_), look.at[-1]);
            if (look.easy) --look.at;
            return false;
        }
        look.at += c.size;
        look.before = look.row;
        look.row = rows_ + cell;
        if (c.size != 3 || look.row < letters_ || !engine_.is_cut_) return true;
        look.easy = cuts_ != nullptr; // they are made when they are worth it
        if (!look.easy) return false;
        const auto page = pattern_.page(c.value);
        const bool same = page < Pattern::MIXED && look.row[Pattern::BY_CLASS + page] == cell;
        return !same || !cut_run(look, static_cast<std::uint32_t>(c.value), page);
    }

    // Characters of the same class go on, Han, kana or Hangul: they are cut where that is safe. A
    // run that is a word is remembered as a whole, too; whether it was met before, and is put.
    MTKIT_INLINE bool cut_run(Look &look, std::uint32_t left, std::uint8_t page) {
        const auto *end = look.at;
        while (end <= last_ && pattern_.is_of_class(end, page)) end += 3;
        const auto size = static_cast<std::size_t>(end - word_);
        if (size > WordCache::SHORT && size <= WordCache::ALWAYS_KEPT && !look.part &&
            engine_.cacheable_ && end <= last_ && ends_at(end, look.row) && put_run(size)) {
            look.at = word_ = end;
            return true;
        }
        while (look.at < end) {
            const auto *const at = look.at;
            const std::uint32_t right = (at[0] & 15U) << 12 | (at[1] & 63U) << 6 | (at[2] & 63U);
            if (!cuts_->crossed(left, right)) {
                put_known(at, true);
                word_ = at;
                look.part = true;
            }
            left = right;
            look.at += 3;
        }
        return false;
    }
    [[nodiscard]] bool ends_at(const unsigned char *at, const std::uint32_t *row) const {
        if (*at < 0x80) return row[*at] == Pattern::MATCH;
        const auto c = decode_usual(text_, static_cast<std::size_t>(at - begin_));
        return row[Pattern::BY_CLASS + pattern_.symbol(c.value)] == Pattern::MATCH;
    }
    // Put a run if it was met before.
    bool put_run(std::size_t size) {
        pause();
        run_.emplace(std::string_view(reinterpret_cast<const char *>(word_), size),
                     WordCache::WORD);
        before_run_ = ids_.out_.size();
        std::size_t count = 0;
        const auto *const known = ids_.scratch_.model.cache.find(*run_, count);
        if (known != nullptr) {
            ids_.out_.append({known, count});
            run_.reset();
        }
        resume();
        return known != nullptr;
    }
    void keep_run() {
        pause();
        const auto ids = ids_.out_.ids().subspan(before_run_);
        auto &cache = ids_.scratch_.model.cache;
        if (cache.wants(*run_, ids.size())) cache.put(*run_, ids.data(), ids.size());
        resume();
    }

    // Take a word, or what is left of it, that the general search finds; false: it does not.
    bool take_hard(const Look &look) {
        run_.reset();
        const auto place = static_cast<std::size_t>(word_ - begin_);
        const auto from = static_cast<std::size_t>(look.at - begin_);
        const std::size_t end =
            look.part
                ? pattern_.quick(text_, place, from, static_cast<std::size_t>(look.row - rows_))
                : pattern_.quick(text_, place, place, pattern_.rows().start);
        if (end == place) return false;
        pause();
        const auto rest = text_.substr(place, end - place);
        if (look.part)
            engine_.parts(rest, readable_, ids_.scratch_,
                          [&](std::size_t left, std::size_t right, bool) {
                              ids_.put_part(rest.substr(left, right - left), true, readable_);
                          });
        else
            ids_.word(rest, nullptr, readable_);
        resume();
        word_ = begin_ + end;
        return true;
    }

    // Put what lies in front of `end`.
    void put_known(const unsigned char *end, bool part) {
        const auto *const bytes = reinterpret_cast<const char *>(word_);
        const auto size = static_cast<std::size_t>(end - word_);
        const auto *const entry = size <= WordCache::SHORT
                                      ? cache_.find(bytes, size, WordCache::word_or_part(part))
                                      : nullptr;
        if (entry == nullptr || !room_.write(*entry)) [[unlikely]]
            put_other(entry, {bytes, size}, part);
    }
    // Put what is new (`entry` is null), what has many ids, or what there is no room for.
    MTKIT_NOINLINE void put_other(const WordCache::Short *entry, std::string_view word, bool part) {
        const auto &cache = ids_.scratch_.model.cache;
        if (entry != nullptr && entry->count() > WordCache::MANY &&
            room_.write_many(cache.many_of(*entry)))
            return;
        pause();
        if (entry != nullptr)
            ids_.out_.append(cache.ids_of(*entry));
        else
            ids_.put_other(word, part);
        resume();
    }

    Ids &ids_;
    const Engine &engine_;
    const Pattern &pattern_;
    std::string_view text_;
    const char *readable_;
    const unsigned char *begin_;
    const unsigned char *stop_;
    const unsigned char *last_;
    const std::uint32_t *rows_;
    const std::uint32_t *first_;
    const std::uint32_t *blanks_;
    const std::uint32_t *letters_;
    const unsigned char *word_ = nullptr;
    WordCache::Fast cache_{ids_.scratch_.model.cache};
    WordCache::Room room_;
    const ByteCuts *cuts_ = nullptr;
    WordBlocks blocks_{cache_, engine_.word_starts_, last_, stop_};
    std::optional<WordCache::Word> run_; // that is remembered as a whole if it comes again
    std::size_t before_run_ = 0;         // ids
};

inline std::size_t Engine::Ids::words(std::string_view text, std::size_t start) {
    if (engine_.pattern_split_.pattern->rows().empty) return start;
    if (text.size() - start >= MARGIN) start = Loop(*this, text, MARGIN, end_of(text)).run(start);
    const std::size_t size = text.size() - start;
    if (size == 0 || size >= MARGIN) return start;
    char end[2 * MARGIN] = {}; // the last bytes where more can be read
    std::memcpy(end, text.data() + start, size);
    return start + Loop(*this, {end, size}, 1, std::end(end)).run(0);
}

} // namespace mtkit
