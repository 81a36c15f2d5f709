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
    // Copied: the buffer need not be aligned.
    [[nodiscard]] std::vector<std::uint32_t> numbers() const {
        std::vector<std::uint32_t> values(bytes().size() / sizeof(std::uint32_t));
        if (!values.empty())
            std::memcpy(values.data(), view_.buf, values.size() * sizeof(std::uint32_t));
        return values;
    }

  private:
    Py_buffer view_{};
};

template <typename T> nanobind::bytes to_bytes(const std::vector<T> &values) {
    return nanobind::bytes(values.data(), values.size() * sizeof(T));
}
