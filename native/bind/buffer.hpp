// The bytes of Python objects, and the GIL, for the other files of bind/.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/mapping.hpp"
#include "tables/tables.hpp"

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

// Byte strings with the buffers that they lie in: their bytes, and u32 where each ends.
class HeldPieces {
  public:
    HeldPieces(nanobind::handle blob, nanobind::handle ends) : blob_(blob), ends_(ends) {}
    mtkit::PieceTable operator*() { return {blob_.text(), ends_.numbers()}; }

  private:
    Buffer blob_;
    Buffer ends_;
};

// Tables with the buffers that they lie in, and the mapped file that has them, where there is one.
class HeldTables {
  public:
    using Sections = nanobind::typed<nanobind::dict, nanobind::str, nanobind::object>;
    explicit HeldTables(const Sections &sections) {
        for (auto [tag, section] : sections)
            buffers_.emplace_back(nanobind::cast<std::string>(tag),
                                  std::make_unique<Buffer>(section));
        if (!buffers_.empty())
            mapping_ = mtkit::Mapping::of(buffers_.front().second->bytes().data());
    }
    mtkit::Tables operator*() const {
        mtkit::Tables tables;
        for (const auto &[tag, buffer] : buffers_) tables.add(tag, buffer->bytes());
        return tables;
    }

    // What `run` makes of the tables. Throws FileChanged where they were not what they are to be:
    // an answer may be wrong then, and another error would be about what nobody wrote.
    template <typename Run> auto use(const Run &run) const {
        try {
            if constexpr (std::is_void_v<decltype(run())>) {
                run();
                require_whole();
            } else {
                auto answer = run();
                require_whole();
                return answer;
            }
        } catch (...) {
            require_whole();
            throw;
        }
    }
    void require_whole() const {
        if (mapping_ != nullptr) mapping_->require_whole();
    }

  private:
    std::vector<std::pair<std::string, std::unique_ptr<Buffer>>> buffers_;
    const mtkit::Mapping *mapping_ = nullptr;
};

// What `run` returns, without the GIL.
template <typename Run> auto unlocked(const Run &run) {
    const nanobind::gil_scoped_release release;
    return run();
}

template <typename T> nanobind::bytes to_bytes(const std::vector<T> &values) {
    return nanobind::bytes(values.data(), values.size() * sizeof(T));
}
inline nanobind::bytes to_bytes(const std::string &text) {
    return nanobind::bytes(text.data(), text.size());
}
