// The text of a call, as bytes.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <new>
#include <string_view>

#include "base/buffer.hpp"
#include "bind/bound_engine.hpp"
#include "bind/utf8_memory.hpp"
#include "text/to_utf8.hpp"

// The UTF-8 form of a str (in place for ASCII) or the bytes of a buffer.
class TextArgument {
  public:
    explicit TextArgument(nb::handle text) {
        if (PyUnicode_Check(text.ptr())) {
            owner_ = nb::borrow(text); // another thread may take it out of the caller's list
            if (write_utf8(text.ptr())) return;
            Py_ssize_t size = 0;
            const char *data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
            if (data == nullptr) nb::raise_python_error();
            text_ = {data, static_cast<std::size_t>(size)};
        } else {
            buffer_ = std::make_unique<Buffer>(text);
            text_ = buffer_->text();
        }
    }
    [[nodiscard]] std::string_view text() const { return text_; }
    // Give back what it does not take: it waits for others.
    void shrink() {
        if (!written_.has_memory()) return;
        written_.shrink(text_.size());
        text_ = {written_.memory(), text_.size()};
    }
    [[nodiscard]] mtkit::EncodeOptions options(bool add_special_tokens,
                                               Choice parse_special) const {
        return {add_special_tokens, as_number(parse_special), buffer_ == nullptr};
    }

  private:
    // Write it several times as fast as Python would; false where there is no need to, or Python
    // is to say what is wrong. The stable ABI does not show what a str has.
#ifdef Py_LIMITED_API
    static bool write_utf8(PyObject * /*text*/) {
        return false;
    }
#else
    // Characters of a long one, which is written into memory of its own. One that is shorter may
    // come again, and keeps its UTF-8 form, as Python gives it one where it is not ours to keep.
#if PY_VERSION_HEX < 0x030C0000
    static constexpr std::size_t MANY = 1U << 14;
#else
    static constexpr std::size_t MANY = 1U << 11;
#endif

    bool write_utf8(PyObject *text) {
        if (!PyUnicode_IS_COMPACT(text) || PyUnicode_IS_ASCII(text) ||
            reinterpret_cast<PyCompactUnicodeObject *>(text)->utf8 != nullptr)
            return false;
        switch (PyUnicode_KIND(text)) {
        case PyUnicode_1BYTE_KIND:
            return write(text, PyUnicode_1BYTE_DATA(text));
        case PyUnicode_2BYTE_KIND:
            return write(text, PyUnicode_2BYTE_DATA(text));
        default:
            return write(text, PyUnicode_4BYTE_DATA(text));
        }
    }
    template <typename Unit> bool write(PyObject *text, const Unit *units) {
        const auto count = static_cast<std::size_t>(PyUnicode_GET_LENGTH(text));
        if (count < MANY) return write_and_keep(text, units, count);
        const std::size_t most = count * mtkit::UTF8_BYTES<Unit> + mtkit::UTF8_SLACK;
        char *const start = written_.get(most);
        const char *const end = mtkit::to_utf8(units, count, start);
        if (end == nullptr) return false;
        text_ = {start, static_cast<std::size_t>(end - start)};
        return true;
    }
#if PY_VERSION_HEX >= 0x030C0000
    // Threads may read a str that is changed, and its memory is got otherwise.
    template <typename Unit>
    static bool write_and_keep(PyObject * /*text*/, const Unit * /*units*/, std::size_t /*count*/) {
        return false;
    }
#else
    // As PyUnicode_AsUTF8AndSize of Python 3.10 and 3.11 keeps it: str frees it by PyObject_Free.
    template <typename Unit>
    bool write_and_keep(PyObject *text, const Unit *units, std::size_t count) {
        const std::size_t most = count * mtkit::UTF8_BYTES<Unit> + mtkit::UTF8_SLACK;
        auto *const written = static_cast<char *>(PyObject_Malloc(most));
        if (written == nullptr) throw std::bad_alloc();
        char *const end = mtkit::to_utf8(units, count, written);
        if (end == nullptr) {
            PyObject_Free(written);
            return false;
        }
        *end = '\0';
        const auto size = static_cast<std::size_t>(end - written);
        void *const exact = PyObject_Realloc(written, size + 1);
        auto *const kept = exact == nullptr ? written : static_cast<char *>(exact);
        auto *const owner = reinterpret_cast<PyCompactUnicodeObject *>(text);
        owner->utf8 = kept;
        owner->utf8_length = static_cast<Py_ssize_t>(size);
        text_ = {kept, size};
        return true;
    }
#endif
#endif

    nb::object owner_;
    std::unique_ptr<Buffer> buffer_;
    Utf8Memory written_;
    std::string_view text_;
};
