// The text of a call, as bytes.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.hpp"
#include "bind/bound_engine.hpp"
#include "bind/buffer.hpp"
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
    // come again, and keeps the UTF-8 form that Python gives it.
    static constexpr std::size_t MANY = 1U << 11;

    bool write_utf8(PyObject *text) {
        if (!PyUnicode_IS_COMPACT(text) || PyUnicode_IS_ASCII(text) ||
            reinterpret_cast<PyCompactUnicodeObject *>(text)->utf8 != nullptr)
            return false;
        const auto count = static_cast<std::size_t>(PyUnicode_GET_LENGTH(text));
        if (count < MANY) return false;
        switch (PyUnicode_KIND(text)) {
        case PyUnicode_1BYTE_KIND:
            return write(PyUnicode_1BYTE_DATA(text), count);
        case PyUnicode_2BYTE_KIND:
            return write(PyUnicode_2BYTE_DATA(text), count);
        default:
            return write(PyUnicode_4BYTE_DATA(text), count);
        }
    }
    template <typename Unit> bool write(const Unit *units, std::size_t count) {
        const std::size_t most = count * mtkit::UTF8_BYTES<Unit> + mtkit::UTF8_SLACK;
        char *const start = written_.get(most);
        const char *const end = mtkit::to_utf8(units, count, start);
        if (end == nullptr) return false;
        text_ = {start, static_cast<std::size_t>(end - start)};
        return true;
    }
#endif

    nb::object owner_;
    std::unique_ptr<Buffer> buffer_;
    Utf8Memory written_;
    std::string_view text_;
};

// Memory for the UTF-8 form of one text after another.
class Utf8Room {
  public:
    char *get(std::size_t size) {
        if (size > size_) {
            bytes_.reset(); // before it grows
            size_ = std::max(size, 2 * std::exchange(size_, 0));
            bytes_ = std::make_unique_for_overwrite<char[]>(size_);
        }
        return bytes_.get();
    }

  private:
    std::unique_ptr<char[]> bytes_;
    std::size_t size_ = 0;
};

// A text of many, whose UTF-8 is written when it is its turn, by the thread that encodes it and
// without the GIL.
class LaterText {
  public:
    explicit LaterText(nb::handle text) {
        if (!PyUnicode_Check(text.ptr())) {
            buffer_ = std::make_unique<Buffer>(text);
            set(buffer_->text().data(), buffer_->text().size(), 0);
            return;
        }
        owner_ = nb::borrow(text);
#ifndef Py_LIMITED_API
        if (is_unwritten(text.ptr())) {
            set(PyUnicode_DATA(text.ptr()),
                static_cast<std::size_t>(PyUnicode_GET_LENGTH(text.ptr())),
                static_cast<std::size_t>(PyUnicode_KIND(text.ptr())));
            return;
        }
#endif
        Py_ssize_t size = 0;
        const char *const data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
        if (data == nullptr) {
            if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError) == 0) nb::raise_python_error();
            PyErr_Clear();
        }
        set(data, static_cast<std::size_t>(size), 0);
    }

    // About so many, before it is written.
    [[nodiscard]] std::size_t bytes() const {
        return count_ * std::max<std::size_t>(1, unit_);
    }
    // Nothing where it has a lone surrogate. What is written lies in `room` until the next one.
    [[nodiscard]] std::optional<std::string_view> text(Utf8Room &room) const {
        switch (unit_) {
        case 1:
            return write<std::uint8_t>(room);
        case 2:
            return write<std::uint16_t>(room);
        case 4:
            return write<std::uint32_t>(room);
        default:
            if (data_ == nullptr) return std::nullopt;
            return std::string_view(static_cast<const char *>(data_), count_);
        }
    }
    [[nodiscard]] bool is_str() const {
        return buffer_ == nullptr;
    }

  private:
    void set(const void *data, std::size_t count, std::size_t unit) {
        data_ = data;
        count_ = count;
        unit_ = unit;
    }
#ifndef Py_LIMITED_API
    static bool is_unwritten(PyObject *text) {
        return PyUnicode_IS_COMPACT(text) && !PyUnicode_IS_ASCII(text) &&
               reinterpret_cast<PyCompactUnicodeObject *>(text)->utf8 == nullptr;
    }
#endif
    template <typename Unit>
    [[nodiscard]] std::optional<std::string_view> write(Utf8Room &room) const {
        char *const to = room.get(count_ * mtkit::UTF8_BYTES<Unit> + mtkit::UTF8_SLACK);
        const char *const end = mtkit::to_utf8(static_cast<const Unit *>(data_), count_, to);
        if (end == nullptr) return std::nullopt;
        return std::string_view(to, static_cast<std::size_t>(end - to));
    }

    nb::object owner_; // another thread may take it out of the caller's list
    std::unique_ptr<Buffer> buffer_;
    const void *data_ = nullptr; // null: it has no UTF-8
    std::size_t count_ = 0;      // of units
    std::size_t unit_ = 0;       // their bytes; 0: it is UTF-8
};

// The texts of a call.
using Texts = nb::typed<nb::list, nb::object>;
using LaterTexts = std::vector<LaterText>;
inline LaterTexts arguments_of(const Texts &texts) {
    LaterTexts arguments;
    arguments.reserve(texts.size());
    for (const nb::handle text : texts) arguments.emplace_back(text);
    return arguments;
}

// Whether `run` answers; errors of a text are the pipeline's to word.
template <typename Run> bool answers(const Run &run) {
    try {
        run();
        return true;
    } catch (const mtkit::Deferred &) {
    } catch (const mtkit::InvalidText &) {
    } catch (const mtkit::NoToken &) {
    }
    return false;
}
