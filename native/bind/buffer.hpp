// The bytes of a Python object, for bind_*.cpp.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

// A view of any contiguous buffer; the object keeps it as long as this lives. Made and ended with
// the GIL held, read without.
class Buffer {
  public:
    explicit Buffer(nanobind::handle object) {
        if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0)
            nanobind::raise_python_error();
    }
    ~Buffer() { PyBuffer_Release(&view_); }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    [[nodiscard]] std::span<const std::byte> bytes() const {
        return {static_cast<const std::byte *>(view_.buf), static_cast<std::size_t>(view_.len)};
    }
    [[nodiscard]] std::string_view text() const {
        return {static_cast<const char *>(view_.buf), static_cast<std::size_t>(view_.len)};
    }
    // As numbers: where they lie, or copied where that is not aligned.
    [[nodiscard]] std::span<const std::uint32_t> numbers() & {
        const std::size_t count = bytes().size() / sizeof(std::uint32_t);
        if (reinterpret_cast<std::uintptr_t>(view_.buf) % sizeof(std::uint32_t) == 0)
            return {static_cast<const std::uint32_t *>(view_.buf), count};
        copy_.resize(count);
        if (count > 0) std::memcpy(copy_.data(), view_.buf, count * sizeof(std::uint32_t));
        return copy_;
    }
    std::span<const std::uint32_t> numbers() && = delete;

  private:
    Py_buffer view_{};
    std::vector<std::uint32_t> copy_;
};

template <typename T> nanobind::bytes to_bytes(const std::vector<T> &values) {
    return nanobind::bytes(values.data(), values.size() * sizeof(T));
}
