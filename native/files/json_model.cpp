#include "files/json_model.hpp"

#include <algorithm>

#include "files/json_scanner.hpp"
#include "files/pair_set.hpp"
#include "tables/build.hpp"
#include "text/utf8.hpp"

namespace mtkit {

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

    // Tokens of the file in the order of their ids. Two that share a text or an id are too odd, and
    // so are more holes than are likely.
    const char *vocabulary() {
        std::string text;
        std::vector<std::uint32_t> ends;
        std::vector<std::uint32_t> ids;
        scan_.expect('{');
        if (!scan_.take('}')) {
            do {
                scan_.string(text);
                require(text.size() < NONE);
                ends.push_back(static_cast<std::uint32_t>(text.size()));
                scan_.expect(':');
                ids.push_back(scan_.number());
            } while (scan_.more('}'));
        }
        made_.tokens_ = ids.size();
        const std::size_t size = ids.empty() ? 0 : std::size_t{std::ranges::max(ids)} + 1;
        require(size <= 4 * ids.size() + 1024);
        std::vector<std::uint32_t> places(size, NONE); // by id
        for (std::uint32_t i = 0; i < ids.size(); ++i) {
            require(places[ids[i]] == NONE);
            places[ids[i]] = i;
        }
        const PieceTable tokens(text, ends);
        for (std::uint32_t id = 0; id < size; ++id) {
            const bool present = places[id] != NONE;
            const auto token = present ? tokens[places[id]] : std::string_view();
            if (present && token.empty()) {
                require(!made_.empty_);
                made_.empty_ = id;
            }
            made_.add(token, present);
        }
        auto [slots, distinct] = build_words({made_.blob_, made_.ends_}, {}, {});
        require(distinct);
        made_.slots_ = std::move(slots);
        return "{}";
    }

    const char *scored() {
        auto &scores = made_.scores_.emplace();
        scan_.expect('[');
        if (scan_.take(']')) return "[]";
        do {
            scan_.expect('[');
            scan_.string(made_.blob_);
            require(made_.blob_.size() < NONE);
            made_.add({}, true);
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
        std::string merge;
        do {
            merge.clear();
            std::size_t middle = 0;
            if (as_text) {
                scan_.string(merge);
                middle = merge.find(' ');
                require(middle != std::string::npos && !merge.starts_with("#version"));
                merge.erase(middle, 1);
                require(merge.find(' ', middle) == std::string::npos);
            } else {
                scan_.expect('[');
                scan_.string(merge);
                middle = merge.size();
                scan_.expect(',');
                scan_.string(merge);
                scan_.expect(']');
            }
            const std::string_view whole = merge;
            pairs.push_back(id_of(whole.substr(0, middle)));
            pairs.push_back(id_of(whole.substr(middle)));
            id_of(whole);
        } while (scan_.more(']'));
        PairSet seen(pairs.size() / 2);
        for (std::size_t i = 0; i < pairs.size(); i += 2) require(seen.add(pairs[i], pairs[i + 1]));
        return as_text ? "[\"\"]" : "[[]]";
    }

    std::uint32_t id_of(std::string_view token) {
        const auto id = made_.find(token);
        require(id.has_value());
        return *id;
    }

    std::string_view text_;
    JsonScanner scan_;
    JsonModel made_;
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
    if (token.empty()) return empty_;
    const auto id = WordTable(slots_, {blob_, ends_}, {}).find(token);
    return id == NONE ? std::nullopt : std::optional(id);
}

void JsonModel::add(std::string_view token, bool present) {
    blob_ += token;
    ends_.push_back(static_cast<std::uint32_t>(blob_.size()));
    present_ += present ? '\1' : '\0';
}

} // namespace mtkit
