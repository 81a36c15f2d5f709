// What was seen before, in one place: words, parts of them, chunks, and what each became, as ids or
// as ids with their places. Bounded; an entry may be overwritten at any time.
//
// Short words (up to 15 bytes) are 32 bytes in a table of pairs of slots that grows with use to
// half of the memory: a word lies in its pair or, where that is full, in the one beside; where that
// is full, too, it takes the place of another, which goes to the others. Up to three ids lie in the
// slot; more of them end to end in a sixteenth of the size, which comes on top: once that is full,
// such words go to the others. Seeds, which are put before any word is met, make way for those that
// are. The others share the rest, in two generations: when the younger is full, the older goes, but
// for what was asked for again. A large one is kept where there is plenty of room, or once it came
// again.
// Belongs to one call at a time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/compiler.hpp"
#include "base/hash.hpp"
#include "tables/word_store.hpp"

namespace mtkit {

class WordCache {
  public:
    // Bytes of a word. Up to the first it is always kept; up to the second where there is plenty of
    // room or when it comes again, up to the third when it comes a third time; see wants().
    static constexpr std::size_t ALWAYS_KEPT = 255;
    static constexpr std::size_t KEPT_AGAIN = 1023;
    static constexpr std::size_t MOST_KEPT = 8191;
    static constexpr std::size_t FEW = 3;
    // Added to the count of more ids than that, so that Room refuses them: it never has so many
    // left.
    static constexpr std::uint32_t MANY = 1U << 20;

    // What is asked for. Words, parts of words (see safe_cuts.hpp), chunks (see chunks.hpp) and
    // those at the start of a text have ids; the same with places have two numbers a token, see
    // Placed; segments are Unigram's.
    enum Kind : unsigned { WORD, PART, CHUNK, FIRST_CHUNK, WITH_PLACES, SEGMENT = 8 };

    // A word of at most 15 bytes as two numbers; kind and length in the top byte, so that none is
    // 0.
    struct Key {
        std::uint64_t low;
        std::uint64_t high;
        bool operator==(const Key &) const = default;
    };
    struct Short {
        Key key;
        std::uint32_t ids[FEW + 1]; // and the count; beyond FEW: their place, and MANY + the count
        [[nodiscard]] std::uint32_t count() const { return ids[FEW]; }
    };
    // Two pairs beside each other; each is a line of the processor's cache.
    struct alignas(4 * sizeof(Short)) TwoPairs {
        Short slots[4];
    };
    static constexpr std::size_t READ_IDS = FEW + 1;
    static constexpr std::size_t SHORT = 15;
    static constexpr std::size_t READ = 16;

    // Where ids are written: from `to` to `limit` are fewer than MANY, and READ_IDS more behind it.
    // One comparison tells whether there is room, and whether they lie in the slot.
    struct Room {
        std::uint32_t *to = nullptr;
        const std::uint32_t *limit = nullptr;
        // False: there is no room, or they lie elsewhere.
        [[nodiscard]] bool write(const Short &entry) {
            std::memcpy(to, entry.ids, sizeof entry.ids);
            const auto end = reinterpret_cast<std::uintptr_t>(to) + sizeof *to * entry.count();
            if (end > reinterpret_cast<std::uintptr_t>(limit)) [[unlikely]]
                return false;
            to += entry.count();
            return true;
        }
        // Ids that lie elsewhere: more than FEW, in steps of a fixed size, the last of which
        // overlaps. False: there is no room.
        [[nodiscard]] bool write_many(std::span<const std::uint32_t> ids) {
            constexpr std::size_t STEP = READ_IDS;
            if (static_cast<std::size_t>(limit - to) < ids.size()) return false;
            const auto copy = [&](std::size_t at) {
                std::memcpy(to + at, ids.data() + at, STEP * sizeof *to);
            };
            for (std::size_t at = 0; at + STEP < ids.size(); at += STEP) copy(at);
            copy(ids.size() - STEP);
            to += ids.size();
            return true;
        }
    };

    // Looks for short words, in place until the next put(). This is done most often.
    class Fast {
      public:
        explicit Fast(const WordCache &cache) : pairs_(cache.pairs_), shift_(cache.shift_) {}
        bool operator==(const Fast &) const = default; // words lie where they lay
        // A word and where it would lie.
        struct Asked {
            Key key;
            const Short *pair;
        };
        // A word of which READ bytes can be read; where it would lie is on its way into the
        // processor's cache.
        [[nodiscard]] Asked ask(const char *word, std::size_t size, Kind kind) const {
            const auto &[low, high, length] = MASKS[size];
            return ask({load64(word) & low, (load64(word + 8) & high) | length | kind_bits(kind)});
        }
        [[nodiscard]] Asked ask(const Key &key) const {
            const auto *const pair = pairs_ + (hash_of(key) >> shift_ << 1);
            prefetch(pair);
            return {key, pair};
        }
        // Null: the word is to be asked for in full.
        [[nodiscard]] static const Short *find(const Asked &asked) {
            // Which of the two it is cannot be foreseen; that it is one of them can.
            const auto *entry = asked.pair + (asked.pair[1].key == asked.key ? 1 : 0);
            if (entry->key == asked.key) [[likely]]
                return entry;
            if (is_free(asked.pair[1])) return nullptr; // nothing had to be put beside it
            entry = beside(asked.pair);
            entry += entry[1].key == asked.key ? 1 : 0;
            return entry->key == asked.key ? entry : nullptr;
        }
        [[nodiscard]] const Short *find(const char *word, std::size_t size, Kind kind) const {
            return find(ask(word, size, kind));
        }
        // A short word behind which nothing may be read.
        [[nodiscard]] const Short *find(std::string_view word, Kind kind) const {
            return find(ask(key_of(word, kind)));
        }

      private:
        const Short *pairs_;
        unsigned shift_;
    };

    // A text and what is asked of it.
    class Word {
      public:
        Word(std::string_view text, Kind kind) : text_(text), kind_(kind) {
            if (!is_short()) {
                hash_ = hash_long(text) ^ kind_bits(kind);
                return;
            }
            key_ = key_of(text, kind);
            hash_ = hash_of(key_);
        }

        [[nodiscard]] std::size_t size() const { return text_.size(); }
        // Of a short one.
        [[nodiscard]] const Key &key() const { return key_; }

      private:
        friend class WordCache;
        // A short one whose key is known.
        Word(const char *text, const Key &key)
            : text_(text, key.high >> 56 & SHORT), kind_(static_cast<Kind>(key.high >> 60)),
              key_(key), hash_(hash_of(key)) {}
        [[nodiscard]] bool is_short() const { return text_.size() <= SHORT; }
        [[nodiscard]] WordStore::Key stored() const { return {text_, kind_, hash_}; }

        std::string_view text_;
        Kind kind_;
        Key key_{};
        std::uint64_t hash_;
    };

    static constexpr std::size_t USUAL_BYTES = 8U << 20;
    static Kind word_or_part(bool part) { return part ? PART : WORD; }
    static constexpr Kind with_places(Kind kind, bool places = true) {
        return static_cast<Kind>(kind | (places ? WITH_PLACES : WORD));
    }
    // A token with its place, as a second number: where it starts and ends in what was asked for.
    struct Placed {
        static std::uint32_t place(std::size_t start, std::size_t end) {
            return static_cast<std::uint32_t>(end << 16 | start);
        }
        static std::uint32_t start(std::uint32_t place) { return place & 0xFFFF; }
        static std::uint32_t end(std::uint32_t place) { return place >> 16; }
    };
    static_assert(MOST_KEPT < 1U << 16);

    // One that takes about so many bytes at most; none where they are too few.
    explicit WordCache(std::size_t most_bytes = USUAL_BYTES)
        : most_bytes_(most_bytes < LEAST_BYTES ? 0 : most_bytes),
          most_groups_(groups_in(most_bytes_)), most_many_(many_in(most_bytes_)),
          most_met_(std::min(most_bytes >> 9, MOST_MET)) {}
    WordCache(WordCache &&) = default;
    WordCache &operator=(WordCache &&) = default;

    // Ids of a short word.
    [[nodiscard]] std::span<const std::uint32_t> ids_of(const Short &entry) const {
        return entry.count() <= FEW ? std::span(entry.ids, entry.count()) : many_of(entry);
    }
    [[nodiscard]] std::span<const std::uint32_t> many_of(const Short &entry) const {
        return {many_.data() + entry.ids[0], entry.count() - MANY};
    }

    // Ids of a word, in place until the next find() or put(); null when it is not known.
    const std::uint32_t *find(const Word &word, std::size_t &count) {
        if (word.is_short()) {
            if (const auto *entry = Fast::find(Fast(*this).ask(word.key_))) {
                const auto ids = ids_of(*entry);
                count = ids.size();
                return ids.data();
            }
        }
        return find_stored(word, count);
    }
    // The same of a long word, or a short one that Fast did not find.
    const std::uint32_t *find_stored(const Word &word, std::size_t &count) {
        if (word.is_short() && !may_be_stored(word.hash_)) return nullptr;
        if (const auto *found = young_.find(word.stored(), count)) return found;
        const auto *const found = old_.find(word.stored(), count);
        // What is asked for again is young again, as far as there is room.
        if (found != nullptr) young_.put(word.stored(), found, count, most_stored());
        return found;
    }

    // Whether to put what takes the room of many words and seldom comes again: where there is
    // plenty of room, or this is the second time that it is asked for; beyond KEPT_AGAIN the third
    // time: keeping it takes as long as encoding it. More than a sixteenth of the cache never is.
    bool wants(const Word &word, std::size_t count) {
        if (word.text_.size() + 4 * count >= most_stored() / 16) return false;
        const bool large = word.text_.size() > KEPT_AGAIN;
        if (!large && young_.used() < std::min(most_stored() / 4 * 3, most_bytes_ / 8)) return true;
        if (met_.empty()) met_.resize(most_met_);
        const auto once = static_cast<std::uint32_t>(word.hash_ >> 32) & ~1U;
        const std::uint32_t twice = once + 1;
        auto &met = met_[word.hash_ % most_met_];
        if (met == twice || (met == once && !large)) return true;
        met = met == once ? twice : once;
        return false;
    }

    void put(const Word &word, const std::uint32_t *ids, std::size_t count) {
        if (most_bytes_ == 0) return;
        if (word.is_short() && has_room_for(count)) {
            if (short_.empty() || (inserted_ > 2 * short_.size() && short_.size() < most_groups_))
                grow(std::min(std::max(FIRST_GROUPS, 4 * short_.size()), most_groups_));
            ++inserted_;
            insert(entry_of(word.key_, ids, count), word.hash_);
            return;
        }
        put_long(word, ids, count);
    }

    // Grow for seeds; returns how many leave room for as many words that are met.
    std::size_t make_room_for_seeds() {
        grow(std::min(most_groups_, groups_in(USUAL_BYTES)));
        return 2 * short_.size();
    }
    void prefetch_short(const Word &word) const { static_cast<void>(Fast(*this).ask(word.key_)); }
    // Put a short word where there is room; one of few ids makes way for those that are met.
    void seed(const Word &word, const std::uint32_t *ids, std::size_t count) {
        if (!has_room_for(count)) return;
        auto *const own = pair_of(word.hash_);
        auto *const other = beside(own);
        for (auto *slot : {own, own + 1, other, other + 1}) {
            if (slot->key == word.key_) return;
            if (slot->key.high != 0) continue;
            *slot = entry_of(word.key_, ids, count);
            if (count < FEW) slot->ids[FEW - 1] = SEED; // where there are more, such a word stays
            return;
        }
    }

    // Memory that it has, in bytes.
    [[nodiscard]] std::size_t bytes() const {
        return short_.capacity() * sizeof(TwoPairs) + young_.memory() + old_.memory() +
               many_.capacity() * sizeof many_[0] + met_.capacity() * sizeof met_[0];
    }

  private:
    static constexpr std::size_t FIRST_GROUPS = 256;
    static constexpr std::size_t LEAST_BYTES = 64U << 10;
    static constexpr std::size_t MOST_MET = 1U << 13;

    static std::uint64_t kind_bits(Kind kind) { return std::uint64_t{kind} << 60; }
    static Key key_of(std::string_view word, Kind kind) {
        const std::size_t head = std::min<std::size_t>(word.size(), 8);
        return {load_up_to_8(word.data(), head),
                load_up_to_8(word.data() + head, word.size() - head) |
                    std::uint64_t{word.size()} << 56 | kind_bits(kind)};
    }
    // By size.
    struct Mask {
        std::uint64_t low;
        std::uint64_t high;
        std::uint64_t length;
    };
    static constexpr auto MASKS = [] {
        std::array<Mask, SHORT + 1> masks{};
        for (std::size_t size = 0; size < masks.size(); ++size) {
            auto &[low, high, length] = masks[size];
            for (std::size_t byte = 0; byte < size; ++byte)
                (byte < 8 ? low : high) |= std::uint64_t{0xFF} << (8 * (byte % 8));
            length = std::uint64_t{size} << 56; // as key_of() has it
        }
        return masks;
    }();
    static std::uint64_t hash_of(const Key &key) {
        return (key.low ^ (key.high * 0x9E3779B97F4A7C15ULL)) * 0xE7037ED1A0B428DBULL;
    }
    // Of a short word: by the upper bits of its hash, which all others change.
    [[nodiscard]] Short *pair_of(std::uint64_t hash) {
        constexpr std::size_t SLOTS = sizeof(TwoPairs) / sizeof(Short);
        const std::size_t first = hash >> shift_ << 1;
        return short_[first / SLOTS].slots + first % SLOTS;
    }

    // Half of the memory, as a power of two.
    static std::size_t groups_in(std::size_t bytes) {
        return std::bit_floor(bytes / 2 / sizeof(TwoPairs));
    }
    // A sixteenth of it, as ids, whose places are numbers of 32 bits.
    static std::size_t many_in(std::size_t bytes) {
        return std::min<std::size_t>(bytes / 16 / sizeof(std::uint32_t), 1U << 31);
    }
    static unsigned shift_of(std::size_t groups) {
        return static_cast<unsigned>(63 - std::countr_zero(groups));
    }

    // What came first is what comes often: it stays where it is found first. A seed makes way.
    void insert(const Short &entry, std::uint64_t hash) {
        auto *const own = pair_of(hash);
        Short *room = find_in(own, is_free);
        if (room == nullptr) {
            auto *const other = beside(own);
            Short *const second = find_in(other, is_free);
            room = find_in(own, is_seed);
            if (room != nullptr && second != nullptr) *second = *room;
            if (room == nullptr) room = second;
            if (room == nullptr) room = find_in(other, is_seed);
        }
        if (room != nullptr) {
            *room = entry;
            return;
        }
        char text[READ];
        std::memcpy(text, &own[1].key, sizeof text);
        const auto ids = ids_of(own[1]);
        put_long({text, own[1].key}, ids.data(), ids.size());
        own[1] = entry;
    }

    [[nodiscard]] bool has_room_for(std::size_t count) const {
        return count <= FEW || count <= most_many_ - many_.size();
    }
    Short entry_of(const Key &key, const std::uint32_t *ids, std::size_t count) {
        if (count > FEW) return entry_of_many(key, ids, count);
        Short entry{key, {}};
        for (std::size_t i = 0; i < count; ++i) entry.ids[i] = ids[i];
        entry.ids[FEW] = static_cast<std::uint32_t>(count);
        return entry;
    }
    MTKIT_NOINLINE Short entry_of_many(const Key &key, const std::uint32_t *ids,
                                       std::size_t count) {
        const auto at = static_cast<std::uint32_t>(many_.size());
        if (many_.capacity() - at < count)
            many_.reserve(std::min(std::max(2 * many_.capacity(), at + count), most_many_));
        many_.insert(many_.end(), ids, ids + count);
        return {key, {at, 0, 0, MANY + static_cast<std::uint32_t>(count)}};
    }
    // Of a pair the first slot is filled before the second, what is beside after both, and none is
    // emptied: Fast::find relies on it.
    static bool is_free(const Short &entry) { return entry.key.high == 0; }
    // Behind the ids of a word that was not met, where there is room.
    static constexpr std::uint32_t SEED = ~0U;
    static bool is_seed(const Short &entry) {
        return entry.count() < FEW && entry.ids[FEW - 1] == SEED;
    }
    static Short *find_in(Short *pair, bool (*is)(const Short &)) {
        return is(pair[0]) ? pair : is(pair[1]) ? pair + 1 : nullptr;
    }

    // What each of the two generations may take: they share what short words leave.
    [[nodiscard]] std::size_t most_stored() const {
        const std::size_t taken = std::min(short_.size() * sizeof(TwoPairs), most_bytes_);
        return std::min<std::size_t>((most_bytes_ - taken) / 2,
                                     1U << 31); // their places are numbers of 32 bits
    }
    // Whether a short word may be among the others: a bit for each, which it may share.
    [[nodiscard]] bool may_be_stored(std::uint64_t hash) const {
        return (stored_[hash >> 58] >> (hash >> 52 & 63) & 1) != 0;
    }
    void put_long(const Word &word, const std::uint32_t *ids, std::size_t count) {
        if (word.size() + 4 * count > most_stored() / 4) return; // an empty store has more room
        if (word.is_short())
            stored_[word.hash_ >> 58] |= std::uint64_t{1} << (word.hash_ >> 52 & 63);
        if (young_.put(word.stored(), ids, count, most_stored())) return;
        std::swap(young_, old_);
        young_.clear(most_stored());
        young_.put(word.stored(), ids, count, most_stored());
    }

    void grow(std::size_t groups) {
        std::vector<TwoPairs> before(groups);
        before.swap(short_);
        pairs_ = short_.data()->slots;
        shift_ = shift_of(short_.size());
        for (auto *store : {&young_, &old_}) // they had more room
            if (store->memory() > most_stored()) *store = WordStore();
        for (const auto &two : before)
            for (const auto &entry : two.slots)
                if (entry.key.high != 0) insert(entry, hash_of(entry.key));
    }

    template <typename Slot> static Slot *beside(Slot *pair) {
        return reinterpret_cast<Slot *>(reinterpret_cast<std::uintptr_t>(pair) ^ 2 * sizeof *pair);
    }

    static constexpr TwoPairs NOTHING{};
    const Short *pairs_ = NOTHING.slots; // of short_, once there are any
    unsigned shift_ = 63;
    std::size_t most_bytes_;  // 0: nothing is kept
    std::size_t most_groups_; // of short words
    std::vector<TwoPairs> short_;
    std::size_t inserted_ = 0;
    std::size_t most_many_;
    std::vector<std::uint32_t> many_; // ids of short words that have more than a few
    WordStore young_;
    WordStore old_;
    std::array<std::uint64_t, 64> stored_{};
    std::size_t most_met_;
    std::vector<std::uint32_t> met_; // hashes of what was not kept
};

} // namespace mtkit
