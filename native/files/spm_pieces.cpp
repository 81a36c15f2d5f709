#include "files/spm_pieces.hpp"

#include <cmath>
#include <cstring>

#include "base/give_up.hpp"
#include "search/piece_places.hpp"

namespace mtkit {

namespace {

constexpr unsigned VARINT = 0;
constexpr unsigned FIXED64 = 1;
constexpr unsigned BYTES = 2;
constexpr unsigned FIXED32 = 5;
constexpr char NORMAL = 1;
constexpr std::uint64_t HIGHEST_TYPE = 6;
constexpr std::size_t LONGEST = 7999;

// The fields of a message, one after the other.
class Message {
  public:
    explicit Message(std::string_view bytes) : bytes_(bytes) {}

    unsigned number = 0;
    unsigned wire = 0;
    std::uint64_t value = 0;
    std::string_view data;
    std::string_view raw;

    bool next() {
        if (at_ == bytes_.size()) return false;
        const std::size_t start = at_;
        const std::uint64_t tag = varint();
        require(tag >> 3 > 0 && tag >> 3 < 1U << 29);
        number = static_cast<unsigned>(tag >> 3);
        wire = static_cast<unsigned>(tag & 7);
        if (wire == VARINT) {
            value = varint();
        } else {
            require(wire == BYTES || wire == FIXED32 || wire == FIXED64);
            const std::uint64_t size = wire == BYTES ? varint() : wire == FIXED32 ? 4 : 8;
            require(size <= bytes_.size() - at_);
            data = bytes_.substr(at_, size);
            at_ += size;
        }
        raw = bytes_.substr(start, at_ - start);
        return true;
    }

  private:
    // Of at most nine bytes; the tenth would need more care.
    std::uint64_t varint() {
        std::uint64_t result = 0;
        for (unsigned shift = 0; shift < 63; shift += 7) {
            require(at_ < bytes_.size());
            const auto byte = static_cast<unsigned char>(bytes_[at_++]);
            result |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
            if (byte < 0x80) return result;
        }
        throw GiveUp();
    }

    std::string_view bytes_;
    std::size_t at_ = 0;
};

void add_piece(SpmPieces &out, Message piece) {
    require(piece.next() && piece.number == 1 && piece.wire == BYTES);
    const auto text = piece.data;
    require(!text.empty() && text.size() <= LONGEST);
    char marks = SpmPieces::NO_SCORE;
    float score = 0;
    bool more = piece.next();
    if (more && piece.number == 2) {
        require(piece.wire == FIXED32);
        std::memcpy(&score, piece.data.data(), sizeof score);
        require(std::isfinite(score));
        marks = 0;
        more = piece.next();
    }
    char type = NORMAL;
    if (more) {
        require(piece.number == 3 && piece.wire == VARINT && piece.value >= 1 &&
                piece.value <= HIGHEST_TYPE);
        type = static_cast<char>(piece.value);
        if (type == NORMAL) marks = static_cast<char>(marks | SpmPieces::PLAIN_TYPE);
        require(!piece.next());
    }
    out.blob += text;
    require(out.blob.size() < 0xFFFFFFFF);
    out.ends.push_back(static_cast<std::uint32_t>(out.blob.size()));
    out.scores.push_back(score);
    out.types.push_back(type);
    out.marks.push_back(marks);
}

} // namespace

std::optional<SpmPieces> SpmPieces::read(std::string_view model) {
    try {
        SpmPieces out;
        out.reserve(model.size());
        for (Message fields(model); fields.next();) {
            if (fields.number == 1 && fields.wire == BYTES)
                add_piece(out, Message(fields.data));
            else
                out.rest += fields.raw;
        }
        require(out.blob.find('\0') == std::string::npos && are_distinct(out.blob, out.ends));
        return out;
    } catch (const GiveUp &) {
        return std::nullopt;
    }
}

} // namespace mtkit
