// The engine as Python sees it, the texts that it takes and the numbers that it gives.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.hpp"
#include "bind/column.hpp"
#include "encode/engine.hpp"
#include "text/to_utf8.hpp"

namespace nb = nanobind;

// Put a reference into a new list.
inline void set_item(PyObject *list, Py_ssize_t at, PyObject *value) {
#ifdef Py_LIMITED_API
    PyList_SetItem(list, at, value);
#else
    PyList_SET_ITEM(list, at, value);
#endif
}

// Yes, no, or as the program says.
using Choice = std::optional<bool>;

inline int as_number(Choice choice) {
    return choice ? static_cast<int>(*choice) : -1;
}

// An engine with the buffers that its tables lie in.
class BoundEngine {
  public:
    using Sections = nb::typed<nb::dict, nb::str, nb::object>;
    using Ids = nb::typed<nb::list, int>;

    BoundEngine(const Sections &sections, std::size_t cache_bytes, bool know_words) {
        mtkit::Tables tables;
        for (auto [tag, section] : sections) {
            buffers_.push_back(std::make_unique<Buffer>(section));
            tables.add(nb::cast<std::string>(tag), buffers_.back()->bytes());
        }
        engine_ = std::make_unique<mtkit::Engine>(std::move(tables), cache_bytes, know_words);
    }
    ~BoundEngine() {
        for (PyObject *number : numbers_) Py_XDECREF(number);
    }
    BoundEngine(const BoundEngine &) = delete;
    BoundEngine &operator=(const BoundEngine &) = delete;

    [[nodiscard]] const mtkit::Engine &engine() const { return *engine_; }

    // Ids as a list. Python numbers are made once for each id; making them anew would cost more
    // than the encoding. Called with the GIL.
    Ids to_list(std::span<const std::uint32_t> ids) {
        PyObject *list = PyList_New(static_cast<Py_ssize_t>(ids.size()));
        if (list == nullptr) nb::raise_python_error();
        Py_ssize_t at = 0;
        for (const auto id : ids) {
            PyObject *known = id < numbers_.size() ? numbers_[id] : nullptr;
            if (known == nullptr) [[unlikely]]
                known = number(id);
            else
                Py_INCREF(known);
            set_item(list, at++, known);
        }
        return nb::steal<Ids>(list);
    }

  private:
    // A new reference to an id's number, which is kept unless it is large.
    PyObject *number(std::uint32_t id) {
        if (id == mtkit::NONE) return PyLong_FromLong(-1); // a byte that has no token
        PyObject *made = PyLong_FromUnsignedLong(id);
        if (id < MOST_NUMBERS) {
            if (id >= numbers_.size()) numbers_.resize(std::size_t{id} + 1);
            Py_XINCREF(numbers_[id] = made);
        }
        return made;
    }

    static constexpr std::uint32_t MOST_NUMBERS = 1U << 20;
    std::vector<PyObject *> numbers_;
    std::vector<std::unique_ptr<Buffer>> buffers_;
    std::unique_ptr<mtkit::Engine> engine_;
};

// The UTF-8 form of a str (in place for ASCII; a short one keeps it) or the bytes of a buffer.
class TextArgument {
  public:
    explicit TextArgument(nb::handle text) {
        if (PyUnicode_Check(text.ptr())) {
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
        if (utf8_ == nullptr) return;
        void *const exact = std::realloc(utf8_.get(), text_.size());
        if (exact == nullptr) return;
        static_cast<void>(utf8_.release());
        utf8_.reset(static_cast<char *>(exact));
        text_ = {utf8_.get(), text_.size()};
    }
    [[nodiscard]] mtkit::EncodeOptions options(bool add_special_tokens,
                                               Choice parse_special) const {
        return {add_special_tokens, as_number(parse_special), buffer_ == nullptr};
    }

  private:
    // Write a long one into memory of its own, several times as fast as Python; false where there
    // is no need to, or Python is to say what is wrong. One that is not long may come again: then
    // it has its UTF-8 form already. The stable ABI does not show what a str has.
#ifndef Py_LIMITED_API
    bool write_utf8(PyObject *text) {
        constexpr Py_ssize_t MANY = 2048;
        if (!PyUnicode_IS_COMPACT(text) || PyUnicode_IS_ASCII(text) ||
            PyUnicode_GET_LENGTH(text) < MANY ||
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
        const std::size_t most = count * mtkit::UTF8_BYTES<Unit>;
        utf8_.reset(static_cast<char *>(std::malloc(most)));
        if (utf8_ == nullptr) throw std::bad_alloc();
        const char *const end = mtkit::to_utf8(units, count, utf8_.get());
        if (end == nullptr) return false;
        text_ = {utf8_.get(), static_cast<std::size_t>(end - utf8_.get())};
        return true;
    }
#else
    static bool write_utf8(PyObject * /*text*/) {
        return false;
    }
#endif

    struct Free {
        void operator()(char *memory) const { std::free(memory); }
    };
    std::unique_ptr<Buffer> buffer_;
    std::unique_ptr<char, Free> utf8_;
    std::string_view text_;
};
