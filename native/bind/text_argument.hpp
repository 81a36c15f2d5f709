// The text of a call, as bytes.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string_view>
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

// The texts of a call, which wait for each other; nothing where one has a lone surrogate.
using Texts = nb::typed<nb::list, nb::object>;
using TextArguments = std::vector<std::optional<TextArgument>>;
inline TextArguments arguments_of(const Texts &texts) {
    TextArguments arguments;
    arguments.reserve(texts.size());
    for (const nb::handle text : texts) {
        auto &argument = arguments.emplace_back();
        try {
            argument.emplace(text).shrink();
        } catch (const nb::python_error &error) {
            if (!error.matches(PyExc_UnicodeEncodeError)) throw;
        }
    }
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
