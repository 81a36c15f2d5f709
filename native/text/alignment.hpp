// Writing a text, and what each of its characters stands for where that is asked.
//
// The rules are those of mtkit/pipeline/aligned_text.py; each byte has the extent of its
// character. What the pipeline answers with an error, or in an odd way, is Deferred to it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.hpp"
#include "text/part.hpp"
#include "text/utf8.hpp"

namespace mtkit {

// A text that stands for itself, in characters or in bytes, which are counted from `first` on.
inline Part own_part(std::string_view text, bool in_bytes, std::uint32_t first, bool at_start,
                     Arena &arena) {
    auto &extents = arena.fresh_extents();
    extents.resize(text.size() + 1);
    std::uint32_t place = first;
    for (std::size_t at = 0; at < text.size();) {
        const unsigned size = decode(text, at).size;
        const Extent own{place, place + (in_bytes ? size : 1)};
        std::fill_n(extents.begin() + static_cast<std::ptrdiff_t>(at), size, own);
        place = own.end;
        at += size;
    }
    return {text, extents.data(), {first, place}, at_start, at_start};
}

// Where an inserted character belongs that has none before it.
inline Extent nowhere(const Part &part) {
    return {part.origin.start, part.origin.start};
}

// What all of a part stands for.
inline Extent extent_of(const Part &part) {
    const auto size = part.text.size();
    if (size == 0) return nowhere(part);
    return {part.extents[0].start, part.extents[size - 1].end};
}

// A change of a text as a whole leaves out characters in front that stand for nothing; what comes
// of that is for the pipeline to say.
inline void require_whole(const Part &part) {
    if (part.extents != nullptr && !part.text.empty() &&
        (part.origin.empty() || part.extents->empty()))
        throw Deferred();
}

// Changes to a part, from left to right; what lies between is copied, in both texts and extents.
class Rewrite {
  public:
    // `step` is what an error calls it.
    Rewrite(Part &part, Arena &arena, const char *step) : part_(part), arena_(arena), step_(step) {}

    // The bytes from start to end become `text`, which stands for `owner`.
    void replace(std::size_t start, std::size_t end, std::string_view text, Extent owner) {
        copy(done_, start);
        add(text, owner);
        done_ = end;
    }
    void add(std::string_view text, Extent owner) {
        begin();
        *text_ += text;
        if (extents_ != nullptr) extents_->resize(text_->size(), owner);
        arena_.check(part_.text.size(), text_->size(), step_);
    }
    // The old bytes from start to end, as they are.
    void copy(std::size_t start, std::size_t end) {
        begin();
        *text_ += part_.text.substr(start, end - start);
        if (extents_ != nullptr)
            extents_->insert(extents_->end(), part_.extents + start, part_.extents + end);
        done_ = end;
    }
    // A character with 1: inserted, 0: stands for the next old one, -n: also for n after it. Only
    // where extents are asked for, it is followed which of the old ones that are. See
    // Aligned.transform.
    void put(std::string_view character, int change) {
        if (part_.extents == nullptr) return add(character, {});
        if (change > 0) return add(character, done_ == 0 ? nowhere(part_) : at(done_ - 1));
        if (done_ == part_.text.size()) throw Deferred();
        add(character, at(done_));
        for (int i = change; i <= 0 && done_ < part_.text.size(); ++i)
            done_ += decode(part_.text, done_).size;
    }
    // What the character at a byte stands for.
    [[nodiscard]] Extent at(std::size_t place) const {
        return part_.extents == nullptr ? Extent{0, 0} : part_.extents[place];
    }
    // Leave out the old bytes behind the last change.
    void drop_rest() {
        begin();
        done_ = part_.text.size();
    }
    // Give the part its new text, if there is one.
    void give() {
        if (text_ == nullptr) return;
        copy(done_, part_.text.size());
        arena_.grow(part_.text.size(), text_->size(), step_);
        part_.text = *text_;
        if (extents_ != nullptr) part_.extents = given(*extents_);
    }
    // Extents as a part has them.
    static const Extent *given(const std::vector<Extent> &extents) {
        static constexpr Extent NOTHING{0, 0};
        return extents.empty() ? &NOTHING : extents.data();
    }

  private:
    void begin() {
        if (text_ != nullptr) return;
        text_ = &arena_.fresh();
        const std::size_t expected = part_.text.size() + part_.text.size() / 2;
        text_->reserve(expected);
        if (part_.extents == nullptr) return;
        extents_ = &arena_.fresh_extents();
        extents_->reserve(expected);
    }

    Part &part_;
    Arena &arena_;
    const char *step_;
    std::string *text_ = nullptr; // null: nothing is changed so far
    std::vector<Extent> *extents_ = nullptr;
    std::size_t done_ = 0; // of the old text
};

} // namespace mtkit
