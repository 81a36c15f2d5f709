// A text cut into chunks: the cut, the look into the cache and the writing are one loop.
//
// `Out` puts chunks, those that are known without a call: see chunk_out.hpp.
#pragma once

#include <bit>
#include <cstring>

#include "base/compiler.hpp"
#include "encode/engine.hpp"
#include "steps/lanes.hpp"

namespace mtkit {

template <typename Out> class Engine::Chunked {
  public:
    Chunked(const Chunks &how, Scratch &scratch, const Out &out)
        : how_(how), scratch_(scratch), out_(out) {}

    // Put a text, which lies at `place` in all of it; false where it has to go the usual way, as a
    // whole.
    bool run(const Part &part, std::size_t place) {
        const std::size_t before = out_.size();
        place_ = place;
        ahead_ = part.text.size() > NEAR_TEXT;
        try {
            if (take_all(part)) return true;
        } catch (const std::exception &) { // the whole has one of its own
            scratch_.arena_of_chunk.reset();
        }
        out_.truncate(before);
        return false;
    }

  private:
    // So many bytes are there to read without a look at the end: a block, and READ bytes of a
    // chunk that begins in it.
    static constexpr std::size_t BLOCK = 64;
    static constexpr std::size_t MARGIN = BLOCK + WordCache::READ;
    static constexpr std::size_t SHORT_TEXT = 128;
    static constexpr std::size_t NEAR_TEXT = 8U << 10; // words of such a text stay in the processor
    static constexpr int FEW_LANES = 6;                // a call takes as long

    bool take_all(const Part &part) {
        std::string_view text = part.text;
        out_.begin(text.data(), place_);
        std::string_view rest; // the end, where it is another than that of a chunk
        if (!how_.last) {
            const std::size_t at = last_seam(text);
            if (at == 0) return false;
            rest = text.substr(at);
            text = text.substr(0, at);
        }
        std::size_t start = 0;
        // What joins the character in front of it has none at the beginning.
        const bool joins = how_.may_join(text, 0);
        if (!how_.first || joins) {
            do {
                ++start;
            } while (start < text.size() && !how_.firm_seam(text, start));
            const bool only = start == text.size() && rest.empty();
            if (only && start > SHORT_TEXT) return false;
            const std::string_view head = text.substr(0, start);
            if (!out_.put_first(head, !only, part.at_start)) return false;
        }
        const bool done = take(text, start);
        if (!done || rest.empty()) return done;
        out_.begin(part.text.data(), place_);
        return out_.put_last(rest);
    }

    // Where the last chunk of a text begins; 0: there is but one.
    [[nodiscard]] std::size_t last_seam(std::string_view text) const {
        std::size_t at = text.size() - 1;
        while (at > 0 && !how_.firm_seam(text, at)) --at;
        return at;
    }

    bool take(std::string_view text, std::size_t start) {
        while (text.size() - start > SHORT_TEXT) {
            const std::size_t before = start;
            if (!loop<false>(text, start, text.size() - MARGIN)) return false;
            if (start != before) continue;
            const std::size_t end = how_.end(text, start); // a long one
            if (end - start == text.size()) return false;
            if (!out_.put(text.substr(start, end - start))) return false;
            start = end;
        }
        // The end lies in memory of its own, with the byte in front of it and a blank behind it.
        char end[SHORT_TEXT + MARGIN + 2] = {};
        const std::size_t from = start == 0 ? 0 : start - 1;
        const std::size_t size = text.size() - from;
        std::memcpy(end, text.data() + from, size);
        end[size] = ' ';
        start -= from;
        out_.begin(end, place_ + from);
        return loop<true>({end, size}, start, size);
    }
    template <bool End> bool loop(std::string_view text, std::size_t &start, std::size_t last) {
        return how_.removed ? words<End>(text, start, last) : runs<End>(text, start, last);
    }
    // Take chunks from `start` on that can be read without a look at the end, or, `End`, all; what
    // is left begins there.
    template <bool End> bool words(std::string_view text, std::size_t &start, std::size_t last);
    template <bool End> bool runs(std::string_view text, std::size_t &start, std::size_t last);

    // What the loops have at hand; it changes where a chunk is put in another way.
    void resume() {
        cache_ = WordCache::Fast(out_.known());
        out_.resume();
    }
    bool put(std::string_view chunk) {
        if (chunk.size() <= WordCache::SHORT) [[likely]] {
            if (const auto *entry = cache_.find(chunk.data(), chunk.size(), Out::KIND)) [[likely]] {
                out_.write(*entry, chunk.data());
                return true;
            }
        }
        return put_other(chunk);
    }
    // Of eight bytes; in front of other characters a block is worth little.
    static bool is_ascii(const char *at) { return (load64(at) & HIGH_BITS) == 0; }
    // Put the words that certainly end among the BLOCK bytes at `at`, where none goes on; where
    // the last of them ends, null where the text has to go the usual way. `Ahead`: where all of
    // them lie is on its way into the processor's cache before one is written.
    template <bool Ahead> MTKIT_NOINLINE const char *put_block(const char *at) {
        const auto [words, solos, blanks] =
            how_.masks(how_.sets, reinterpret_cast<const unsigned char *>(at));
        const std::uint64_t stops = ~(words | solos | blanks);
        const std::uint64_t known = (stops & (~stops + 1)) - 1;
        const std::uint64_t starts = (words & ~(words << 1)) | solos;
        const std::uint64_t ends = ((words << 1 & ~words) | solos << 1) & known;
        const auto cache = cache_;
        const auto lowest = [](std::uint64_t bits) {
            return static_cast<std::size_t>(std::countr_zero(bits));
        };
        const auto ask = [&cache](const char *word, std::size_t size) {
            return cache.ask(word, std::min(size, WordCache::SHORT), Out::KIND);
        };
        WordCache::Fast::Asked asked[BLOCK];
        auto *next = asked;
        auto from = starts;
        for (auto to = Ahead ? ends : 0; to != 0; to &= to - 1, from &= from - 1) {
            const std::size_t start = lowest(from);
            *next++ = ask(at + start, lowest(to) - start);
        }
        next = asked;
        from = starts;
        for (auto to = ends; to != 0; to &= to - 1, from &= from - 1) {
            const std::size_t start = lowest(from);
            const std::size_t size = lowest(to) - start;
            const char *const word = at + start;
            const auto *const entry = WordCache::Fast::find(Ahead ? *next++ : ask(word, size));
            if (entry != nullptr && size <= WordCache::SHORT) [[likely]] {
                out_.write(*entry, word);
                continue;
            }
            if (!put_other({word, size})) return nullptr;
            if (!(cache_ == cache)) return word + size; // what was asked for lies elsewhere
        }
        return ends == 0 ? at : at + BLOCK - 1 - std::countl_zero(ends);
    }
    MTKIT_NOINLINE bool put_other(std::string_view chunk) {
        out_.pause();
        const bool done = out_.put(chunk);
        resume();
        return done;
    }

    const Chunks &how_;
    Scratch &scratch_;
    Out out_;
    std::size_t place_ = 0;
    bool ahead_ = true;
    WordCache::Fast cache_{out_.known()};
};

template <typename Out>
template <bool End>
bool Engine::Chunked<Out>::words(std::string_view text, std::size_t &start, std::size_t last) {
    const auto *const kind = how_.kind.data();
    const bool letters = how_.letters;
    const char *const begin = text.data();
    const char *const stop = begin + last;
    const char *word = begin + start;
    const auto kind_of = [kind](const char *at) { return kind[static_cast<unsigned char>(*at)]; };
    const auto pass_letters = [letters](const char *at) {
        return letters ? Lane::letters(reinterpret_cast<const unsigned char *>(at)) : 0;
    };
    resume();
    while (true) {
        if (!End && how_.masks != nullptr && word < stop && is_ascii(word)) {
            const char *const end = ahead_ ? put_block<true>(word) : put_block<false>(word);
            if (end == nullptr) return false;
            if (end != word) {
                word = end;
                continue;
            }
        }
        while (word < stop && kind_of(word) == Chunks::BLANK) ++word;
        if (word >= stop) break;
        const char *at = word;
        const auto what = kind_of(word);
        bool easy = false;
        if (what == Chunks::WORD) {
            do {
                ++at;
                std::size_t passed = Lane::WIDTH;
                while (passed == Lane::WIDTH && at < stop) at += passed = pass_letters(at);
            } while (at < stop && kind_of(at) == Chunks::WORD);
            if (!End && at >= stop) break;
            easy = kind_of(at) > Chunks::WORD;
        } else if (what == Chunks::HAN) {
            at += 3;
            easy = true;
        } else if (what == Chunks::SOLO) {
            easy = kind_of(++at) != Chunks::OTHER;
        }
        if (easy) [[likely]] {
            if (!put({word, static_cast<std::size_t>(at - word)})) return false;
        } else {
            // What joins the character in front of it has the blank there.
            const auto place = static_cast<std::size_t>(word - begin);
            const bool joins =
                place > 0 && how_.may_join(text, place) && kind_of(word - 1) == Chunks::BLANK;
            const std::size_t from = place - (joins ? 1 : 0);
            const std::size_t end = how_.end(text, place);
            if (!put_other(text.substr(from, end - from))) return false;
            at = begin + end;
        }
        word = at;
    }
    out_.pause();
    start = static_cast<std::size_t>(word - begin);
    return true;
}

template <typename Out>
template <bool End>
bool Engine::Chunked<Out>::runs(std::string_view text, std::size_t &start, std::size_t last) {
    const char *const begin = text.data();
    const char *const stop = begin + last;
    const char *chunk = begin + start;
    const char *at = chunk;
    resume();
    while (chunk < stop) {
        while (at < stop && *at == ' ') ++at;
        std::size_t passed = Lane::WIDTH;
        for (int i = 0; i < FEW_LANES && passed == Lane::WIDTH && at < stop; ++i)
            at += passed = Lane::others(reinterpret_cast<const unsigned char *>(at));
        if (passed == Lane::WIDTH && at < stop) { // more than a word
            const void *blank = std::memchr(at, ' ', static_cast<std::size_t>(stop - at));
            at = blank == nullptr ? stop : static_cast<const char *>(blank);
        }
        if (at >= stop) {
            if (!End) break;
            at = stop;
        } else if (!how_.seam(text, static_cast<std::size_t>(at - begin))) {
            continue;
        }
        if (!put({chunk, static_cast<std::size_t>(at - chunk)})) return false;
        chunk = at;
    }
    out_.pause();
    start = static_cast<std::size_t>(chunk - begin);
    return true;
}

} // namespace mtkit
