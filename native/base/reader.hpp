// Bounds-checked cursor over a byte buffer: the one place where the core reads file bytes.
//
// Every format parser takes a Reader; none does pointer arithmetic of its own. All integers
// are little-endian. A read past the end throws FormatError with the field's name and its
// offset from the start of the buffer.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/errors.hpp"

namespace mtkit {

static_assert(std::endian::native == std::endian::little, "mtkit reads files by memcpy");

class Reader {
  public:
    explicit Reader(std::span<const std::byte> data) : data_(data) {}

    [[nodiscard]] std::size_t offset() const { return offset_; }
    [[nodiscard]] std::size_t left() const { return data_.size() - offset_; }
    [[nodiscard]] bool at_end() const { return left() == 0; }

    // The next `size` bytes, as a view. `size` may come from the file: it is compared with what
    // is left, never added to the offset first, so no value of it can overflow.
    std::span<const std::byte> take(std::size_t size, const char *field) {
        if (size > left())
            throw FormatError("needs " + std::to_string(size) + " bytes, has " +
                                  std::to_string(left()),
                              field, offset_);
        const auto bytes = data_.subspan(offset_, size);
        offset_ += size;
        return bytes;
    }

    template <typename T> T scalar(const char *field) {
        static_assert(std::is_arithmetic_v<T>);
        T value;
        std::memcpy(&value, take(sizeof value, field).data(), sizeof value);
        return value;
    }

    // The next `size` bytes as characters, as a view.
    std::string_view text(std::size_t size, const char *field) {
        const auto bytes = take(size, field);
        return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
    }

    // A count of elements of at least `element_bytes` each, checked against what is left.
    std::size_t count(std::uint64_t value, std::size_t element_bytes, const char *field) const {
        if (value > left() / element_bytes)
            throw FormatError("is " + std::to_string(value) + ", there is room for " +
                                  std::to_string(left() / element_bytes),
                              field, offset_);
        return static_cast<std::size_t>(value);
    }

  private:
    std::span<const std::byte> data_;
    std::size_t offset_ = 0;
};

// A reader that begins within a file.
inline Reader reader_at(std::span<const std::byte> data, std::size_t offset, const char *field) {
    if (offset > data.size()) throw FormatError("begins behind the file", field, offset);
    return Reader(data.subspan(offset));
}

// A string of the program: u32 length, bytes.
inline std::string_view read_text(Reader &program, const char *field) {
    const auto size = program.scalar<std::uint32_t>(field);
    return program.text(size, field);
}

// An id of the program; NONE where there is none.
inline std::uint32_t read_id(Reader &program, const char *field) {
    return program.scalar<std::uint32_t>(field);
}

inline bool read_flag(Reader &program, const char *field) {
    return program.scalar<std::uint8_t>(field) != 0;
}

// u32 values of the program, copied: it has no alignment.
inline std::vector<std::uint32_t> read_numbers(Reader &program, const char *field) {
    const auto count = program.count(program.scalar<std::uint32_t>(field), 4, field);
    const auto bytes = program.take(4 * count, field);
    std::vector<std::uint32_t> out(count);
    if (count != 0) std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
}

// A step of a sequence: neither nothing nor a sequence, which a forged program could nest deeper
// than the stack.
template <typename Kind> void require_step(Reader next) {
    const auto kind = static_cast<Kind>(next.scalar<std::uint8_t>("step"));
    if (kind == Kind::NOTHING || kind == Kind::SEQUENCE)
        throw FormatError("is not a step of a sequence", "step", next.offset());
}

} // namespace mtkit
