#include "files/json_model.hpp"

#include <algorithm>
#include <bit>

#include "base/hash.hpp"
#include "files/json_scanner.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

constexpr std::uint64_t FREE_SLOT = ~std::uint64_t{0};
constexpr std::uint64_t HASH_BITS = 0xFFFFFFFF00000000ULL;

// A table for `count` keys, at most half full.
std::vector<std::uint64_t> empty_table(std::size_t count) {
    return std::vector<std::uint64_t>(std::bit_ceil(2 * count + 2), FREE_SLOT);
}

} // namespace

class JsonModel::Reader {
  public:
    explicit Reader(std::string_view document) : text_(document), scan_(document) {}

    JsonModel read() {
        bool has_model = false;
        scan_.expect('{');
        if (!scan_.take('}')) {
            do {
                const auto key = scan_.key();
                if (key == "model" && scan_.peek() == '{') {
                    require(!has_model);
                    has_model = true;
                    model();
                } else {
                    require(key != "model");
                    scan_.skip();
                }
            } while (scan_.more('}'));
        }
        require(has_vocabulary_ && scan_.at_end());
        made_.rest_ += text_.substr(copied_);
        return std::move(made_);
    }

  private:
    void model() {
        scan_.expect('{');
        if (scan_.take('}')) return;
        do {
            const auto key = scan_.key();
            const char mark = scan_.peek();
            if (key == "vocab") {
                require(!has_vocabulary_ && (mark == '{' || mark == '['));
                replace([&] { return mark == '{' ? vocabulary() : scored(); });
                has_vocabulary_ = true;
            } else if (key == "merges") {
                require(has_vocabulary_ && !made_.scores_ && !made_.merges_ && mark == '[');
                replace([&] { return merges(); });
            } else {
                scan_.skip();
            }
        } while (scan_.more('}'));
    }

    // What `read` goes over is left out of the rest, what it returns put there.
    template <typename Read> void replace(const Read &read) {
        made_.rest_ += text_.substr(copied_, scan_.at() - copied_);
        made_.rest_ += read();
        copied_ = scan_.at();
    }

    const char *vocabulary() {
        std::string text;
        std::vector<std::uint32_t> ends;
        std::vector<std::uint32_t> ids;
        scan_.expect('{');
        if (!scan_.take('}')) {
            do {
                scan_.string(text);
                require(text.size() < NOTHING);
                ends.push_back(static_cast<std::uint32_t>(text.size()));
                scan_.expect(':');
                ids.push_back(scan_.number());
            } while (scan_.more('}'));
        }
        require(made_.arrange(text, ends, ids));
        return "{}";
    }

    const char *scored() {
        auto &scores = made_.scores_.emplace();
        scan_.expect('[');
        if (scan_.take(']')) return "[]";
        do {
            scan_.expect('[');
            scan_.string(made_.blob_);
            require(made_.blob_.size() < NOTHING);
            made_.ends_.push_back(static_cast<std::uint32_t>(made_.blob_.size()));
            scan_.expect(',');
            scores.push_back(scan_.decimal());
            scan_.expect(']');
        } while (scan_.more(']'));
        made_.tokens_ = scores.size();
        return "[]";
    }

    const char *merges() {
        auto &pairs = made_.merges_.emplace();
        scan_.expect('[');
        if (scan_.take(']')) return "[]";
        const bool as_text = scan_.peek() == '"';
        do {
            merge_.clear();
            std::size_t middle = 0;
            if (as_text) {
                scan_.string(merge_);
                middle = merge_.find(' ');
                require(middle != std::string::npos && !merge_.starts_with("#version"));
                merge_.erase(middle, 1);
                require(merge_.find(' ', middle) == std::string::npos);
            } else {
                scan_.expect('[');
                scan_.string(merge_);
                middle = merge_.size();
                scan_.expect(',');
                scan_.string(merge_);
                scan_.expect(']');
            }
            const std::string_view whole = merge_;
            pairs.push_back(id_of(whole.substr(0, middle)));
            pairs.push_back(id_of(whole.substr(middle)));
            id_of(whole);
        } while (scan_.more(']'));
        require_unlike(pairs);
        return as_text ? "[\"\"]" : "[[]]";
    }

    std::uint32_t id_of(std::string_view token) {
        const auto id = made_.find(token);
        require(id.has_value());
        return *id;
    }

    // Of a pair that is listed twice the last place counts.
    static void require_unlike(const std::vector<std::uint32_t> &pairs) {
        auto table = empty_table(pairs.size() / 2);
        for (std::size_t i = 0; i < pairs.size(); i += 2) {
            const std::uint64_t pair = std::uint64_t{pairs[i]} << 32 | pairs[i + 1];
            std::size_t slot = mix(pair * 0xE7037ED1A0B428DBULL) & (table.size() - 1);
            for (; table[slot] != FREE_SLOT; slot = (slot + 1) & (table.size() - 1))
                require(table[slot] != pair);
            table[slot] = pair;
        }
    }

    std::string_view text_;
    JsonScanner scan_;
    JsonModel made_;
    std::string merge_;
    std::size_t copied_ = 0;
    bool has_vocabulary_ = false;
};

std::optional<JsonModel> JsonModel::read(std::string_view document) {
    if (valid_prefix(document) != document.size()) return std::nullopt;
    try {
        return Reader(document).read();
    } catch (const GiveUp &) {
        return std::nullopt;
    }
}

std::optional<std::uint32_t> JsonModel::find(std::string_view token) const {
    if (table_.empty()) return std::nullopt;
    const std::uint64_t hash = hash_bytes(token);
    for (std::size_t slot = hash & (table_.size() - 1); table_[slot] != FREE_SLOT;
         slot = (slot + 1) & (table_.size() - 1)) {
        const auto id = static_cast<std::uint32_t>(table_[slot]);
        if (((table_[slot] ^ hash) & HASH_BITS) == 0 && piece(id) == token) return id;
    }
    return std::nullopt;
}

bool JsonModel::arrange(const std::string &text, const std::vector<std::uint32_t> &ends,
                        const std::vector<std::uint32_t> &ids) {
    tokens_ = ids.size();
    const std::size_t size =
        ids.empty() ? 0 : std::size_t{*std::max_element(ids.begin(), ids.end())} + 1;
    if (size > 4 * tokens_ + 1024) return false;
    slot_of_id_.assign(size, NOTHING);
    for (std::size_t i = 0; i < tokens_; ++i) {
        auto &slot = slot_of_id_[ids[i]];
        if (slot != NOTHING) return false;
        slot = static_cast<std::uint32_t>(i);
    }
    blob_.reserve(text.size());
    ends_.reserve(size);
    for (const auto slot : slot_of_id_) {
        if (slot != NOTHING) {
            const std::size_t start = slot == 0 ? 0 : ends[slot - 1];
            blob_.append(text, start, ends[slot] - start);
        }
        ends_.push_back(static_cast<std::uint32_t>(blob_.size()));
    }
    table_ = empty_table(tokens_);
    for (std::uint32_t id = 0; id < size; ++id) {
        if (!has(id)) continue;
        if (find(piece(id))) return false;
        const std::uint64_t hash = hash_bytes(piece(id));
        std::size_t slot = hash & (table_.size() - 1);
        while (table_[slot] != FREE_SLOT) slot = (slot + 1) & (table_.size() - 1);
        table_[slot] = (hash & HASH_BITS) | id;
    }
    return true;
}

} // namespace mtkit
