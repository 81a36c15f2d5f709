#include "files/spm_pieces.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/give_up.hpp"

namespace mtkit {

namespace {

constexpr unsigned VARINT = 0;
constexpr unsigned FIXED64 = 1;
constexpr unsigned BYTES = 2;
constexpr unsigned FIXED32 = 5;
constexpr char NORMAL = 1;
constexpr char HIGHEST_TYPE = 6;
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

struct Piece {
    std::string_view text;
    std::size_t readable = 0; // bytes from its beginning to the end of the file, or none
    float score = 0;
    char type = NORMAL;
    char marks = 0;
};

Piece read_any(Message fields) {
    Piece piece;
    require(fields.next() && fields.number == 1 && fields.wire == BYTES);
    piece.text = fields.data;
    require(!piece.text.empty() && piece.text.size() <= LONGEST);
    piece.marks = SpmPieces::NO_SCORE;
    bool more = fields.next();
    if (more && fields.number == 2) {
        require(fields.wire == FIXED32);
        std::memcpy(&piece.score, fields.data.data(), sizeof piece.score);
        piece.marks = 0;
        more = fields.next();
    }
    if (more) {
        require(fields.number == 3 && fields.wire == VARINT && fields.value >= 1 &&
                fields.value <= static_cast<std::uint64_t>(HIGHEST_TYPE));
        piece.type = static_cast<char>(fields.value);
        if (piece.type == NORMAL)
            piece.marks = static_cast<char>(piece.marks | SpmPieces::PLAIN_TYPE);
        require(!fields.next());
    }
    return piece;
}

// Appends to columns that are made large beforehand: push_back() would check the room of each for
// every piece.
class Columns {
  public:
    Columns(SpmPieces &out, std::size_t bytes) : out_(out) {
        bytes = std::min(bytes, MOST);
        constexpr std::size_t PIECE = 15; // bytes that most take, of which half are text
        out_.blob.resize(bytes / 2);
        make_room(bytes / PIECE + 1);
    }

    void add(const Piece &piece) {
        if (count_ == out_.ends.size()) make_room(2 * count_);
        const std::size_t size = piece.text.size();
        if (out_.blob.size() - used_ < size + WIDE)
            out_.blob.resize(2 * out_.blob.size() + size + WIDE);
        char *const to = out_.blob.data() + used_;
        if (size <= WIDE && piece.readable >= WIDE)
            std::memcpy(to, piece.text.data(), WIDE);
        else
            std::memcpy(to, piece.text.data(), size);
        used_ += size;
        require(used_ < 0xFFFFFFFF);
        out_.ends[count_] = static_cast<std::uint32_t>(used_);
        out_.scores[count_] = piece.score;
        out_.types[count_] = piece.type;
        out_.marks[count_] = piece.marks;
        ++count_;
    }

    void finish() {
        out_.blob.resize(used_);
        make_room(count_);
    }

  private:
    static constexpr std::size_t WIDE = 16;       // bytes that are copied at once
    static constexpr std::size_t MOST = 4U << 20; // of a file for which there is room beforehand

    void make_room(std::size_t count) {
        out_.ends.resize(count);
        out_.scores.resize(count);
        out_.types.resize(count);
        out_.marks.resize(count);
    }

    SpmPieces &out_;
    std::size_t count_ = 0;
    std::size_t used_ = 0;
};

// The field of a piece as most are, at the beginning of a message: fewer than 128 bytes, of which
// the text, a score and perhaps a type are all. Its size; 0: it is another.
std::size_t read_common(std::string_view bytes, Piece &piece) {
    constexpr std::size_t HEAD = 4;  // tag and size of the field, of the text
    constexpr std::size_t SCORE = 5; // field 2
    constexpr std::size_t TYPE = 2;  // field 3
    const auto byte = [bytes](std::size_t at) { return static_cast<unsigned char>(bytes[at]); };
    if (bytes.size() < HEAD || byte(0) != 0x0A || byte(2) != 0x0A) return 0;
    if (byte(1) > 127 || byte(3) == 0) return 0;
    const std::size_t size = 2 + std::size_t{byte(1)};
    const std::size_t end = HEAD + std::size_t{byte(3)};
    const bool typed = size == end + SCORE + TYPE;
    if (size > bytes.size() || !(typed || size == end + SCORE) || byte(end) != 0x15) return 0;
    piece.text = bytes.substr(HEAD, end - HEAD);
    piece.readable = bytes.size() - HEAD;
    std::memcpy(&piece.score, bytes.data() + end + 1, sizeof piece.score);
    if (!typed) return size;
    piece.type = static_cast<char>(byte(end + SCORE + 1));
    const bool ordinary = byte(end + SCORE) == 0x18 && piece.type > NORMAL;
    return ordinary && piece.type <= HIGHEST_TYPE ? size : 0;
}

} // namespace

std::optional<SpmPieces> SpmPieces::read(std::string_view model) {
    try {
        SpmPieces out;
        Columns columns(out, model.size());
        for (std::size_t at = 0; at < model.size();) {
            Piece piece;
            if (const std::size_t size = read_common(model.substr(at), piece)) {
                columns.add(piece);
                at += size;
                continue;
            }
            Message field(model.substr(at));
            field.next();
            if (field.number == 1 && field.wire == BYTES)
                columns.add(read_any(Message(field.data)));
            else
                out.rest += field.raw;
            at += field.raw.size();
        }
        columns.finish();
        require(out.blob.find('\0') == std::string::npos);
        require(std::ranges::all_of(out.scores, [](float score) { return std::isfinite(score); }));
        return out;
    } catch (const GiveUp &) {
        return std::nullopt;
    }
}

} // namespace mtkit
