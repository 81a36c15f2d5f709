// Writing a text together with what each of its characters stands for.
//
// The rules are those of mtkit/pipeline/normalizers/aligned.py; each byte has the extent of its
// character. What the pipeline answers with an error, or in an odd way, is Deferred to it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.hpp"
#include "text/part.hpp"
#include "text/utf8.hpp"

namespace mtkit {

// A text being written.
class AlignedText {
  public:
    explicit AlignedText(Arena &arena) : text_(arena.fresh()), extents_(arena.fresh_extents()) {}

    void add(std::string_view written, Extent owner) {
        text_ += written;
        extents_.resize(text_.size(), owner);
    }
    // Bytes of an old text as they are.
    void copy(const Part &part, std::size_t start, std::size_t end) {
        text_ += part.text.substr(start, end - start);
        extents_.insert(extents_.end(), part.extents + start, part.extents + end);
    }
    [[nodiscard]] std::size_t size() const { return text_.size(); }
    void give(Part &part) const {
        static constexpr Extent NOTHING{0, 0};
        part.text = text_;
        part.extents = extents_.empty() ? &NOTHING : extents_.data();
    }

  private:
    std::string &text_;
    std::vector<Extent> &extents_;
};

// Extents of a text that stands for itself, in bytes counted from `first`: each byte has those of
// its character.
inline const Extent *own_bytes(std::string_view text, std::uint32_t first,
                               std::vector<Extent> &extents) {
    extents.resize(text.size() + 1);
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t size = decode(text, at).size;
        const auto start = first + static_cast<std::uint32_t>(at);
        const Extent character{start, start + static_cast<std::uint32_t>(size)};
        std::fill_n(extents.begin() + static_cast<std::ptrdiff_t>(at), size, character);
        at += size;
    }
    return extents.data();
}

// Where an inserted character belongs that has none before it.
inline Extent nowhere(const Part &part) {
    return {part.origin.start, part.origin.start};
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
        if (part_.extents != nullptr) {
            if (!aligned_) aligned_.emplace(arena_);
            aligned_->copy(part_, done_, start);
            aligned_->add(text, owner);
            arena_.check(part_.text.size(), aligned_->size(), step_);
        } else {
            if (text_ == nullptr) {
                text_ = &arena_.fresh();
                text_->reserve(part_.text.size() + part_.text.size() / 2);
            }
            *text_ += part_.text.substr(done_, start - done_);
            *text_ += text;
            arena_.check(part_.text.size(), text_->size(), step_);
        }
        done_ = end;
    }
    // What the character at a byte stands for.
    [[nodiscard]] Extent at(std::size_t place) const {
        return part_.extents == nullptr ? Extent{0, 0} : part_.extents[place];
    }
    // Give the part its new text, if there is one.
    void give() {
        if (aligned_) {
            aligned_->copy(part_, done_, part_.text.size());
            arena_.grow(part_.text.size(), aligned_->size(), step_);
            aligned_->give(part_);
        } else if (text_ != nullptr) {
            *text_ += part_.text.substr(done_);
            arena_.grow(part_.text.size(), text_->size(), step_);
            part_.text = *text_;
        }
    }

  private:
    Part &part_;
    Arena &arena_;
    const char *step_;
    std::optional<AlignedText> aligned_;
    std::string *text_ = nullptr;
    std::size_t done_ = 0;
};

// A new text in terms of the old one, see Aligned.transform.
class Transform {
  public:
    Transform(const Part &part, Arena &arena) : part_(part), out_(arena) { require_whole(part); }

    // A character with 1: inserted, 0: stands for the next old one, -n: also for n after it.
    void put(std::string_view character, int change) {
        if (change > 0) {
            out_.add(character, at_ == 0 ? nowhere(part_) : part_.extents[at_ - 1]);
            return;
        }
        if (at_ == part_.text.size()) throw Deferred();
        out_.add(character, part_.extents[at_]);
        for (int i = change; i <= 0 && at_ < part_.text.size(); ++i)
            at_ += decode(part_.text, at_).size;
    }
    // The old characters from here to `end`.
    void copy(std::size_t end) {
        out_.copy(part_, at_, end);
        at_ = end;
    }
    [[nodiscard]] std::size_t size() const { return out_.size(); }
    void give(Part &part) const { out_.give(part); }

  private:
    const Part part_;
    AlignedText out_;
    std::size_t at_ = 0;
};

} // namespace mtkit
