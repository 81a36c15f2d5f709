// Bindings of the engine: conversions and the GIL only.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.hpp"
#include "base/errors.hpp"
#include "encode/engine.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Sections = nb::typed<nb::dict, nb::str, nb::object>;

// Put a reference into a new list.
void set_item(PyObject *list, Py_ssize_t at, PyObject *value) {
#ifdef Py_LIMITED_API
    PyList_SetItem(list, at, value);
#else
    PyList_SET_ITEM(list, at, value);
#endif
}

// Yes, no, or as the program says.
using Choice = std::optional<bool>;

int as_number(Choice choice) {
    return choice ? static_cast<int>(*choice) : -1;
}

// An engine with the buffers that its tables lie in.
class BoundEngine {
  public:
    explicit BoundEngine(const Sections &sections) {
        mtkit::Tables tables;
        for (auto [tag, section] : sections) {
            buffers_.push_back(std::make_unique<Buffer>(section));
            tables.add(nb::cast<std::string>(tag), buffers_.back()->bytes());
        }
        engine_ = std::make_unique<mtkit::Engine>(std::move(tables));
    }

    void encode(std::string_view text, const mtkit::EncodeOptions &options,
                mtkit::IdList &ids) const {
        if (text.size() < SHORT) {
            engine_->encode(text, options, ids);
            return;
        }
        const nb::gil_scoped_release unlocked;
        engine_->encode(text, options, ids);
    }

    void encode_tokens(std::string_view text, const mtkit::EncodeOptions &options,
                       mtkit::Tokens &out) const {
        engine_->encode_tokens(text, options, out);
    }

    [[nodiscard]] bool aligns() const { return engine_->aligns(); }
    [[nodiscard]] bool cuts_at_pattern() const { return engine_->cuts_at_pattern(); }
    [[nodiscard]] bool warm() const { return engine_->warm(); }

    ~BoundEngine() {
        for (PyObject *number : numbers_) Py_XDECREF(number);
    }
    BoundEngine(const BoundEngine &) = delete;
    BoundEngine &operator=(const BoundEngine &) = delete;

    // Ids as a list. Python numbers are made once for each id; making them anew would cost more
    // than the encoding. Called with the GIL.
    nb::typed<nb::list, int> to_list(std::span<const std::uint32_t> ids) {
        const auto size = static_cast<Py_ssize_t>(ids.size());
        PyObject *list = PyList_New(size);
        if (list == nullptr) nb::raise_python_error();
        for (Py_ssize_t i = 0; i < size; ++i)
            set_item(list, i, number(ids[static_cast<std::size_t>(i)]));
        return nb::steal<nb::typed<nb::list, int>>(list);
    }

  private:
    // A new reference to an id's number.
    PyObject *number(std::uint32_t id) {
        if (id == mtkit::NONE) return PyLong_FromLong(-1); // a byte that has no token
        if (id >= MOST_NUMBERS) return PyLong_FromUnsignedLong(id);
        if (id >= numbers_.size()) numbers_.resize(id + 1);
        PyObject *&number = numbers_[id];
        if (number == nullptr) number = PyLong_FromUnsignedLong(id);
        Py_XINCREF(number);
        return number;
    }

    static constexpr std::uint32_t MOST_NUMBERS = 1U << 20;
    std::vector<PyObject *> numbers_;

    // Giving the GIL away and taking it back costs more than a text of this size.
    static constexpr std::size_t SHORT = 256;
    std::vector<std::unique_ptr<Buffer>> buffers_;
    std::unique_ptr<mtkit::Engine> engine_;
};

// The UTF-8 form of a str (in place for ASCII; kept by the str otherwise) or the bytes of a buffer.
class TextArgument {
  public:
    explicit TextArgument(nb::handle text) {
        if (PyUnicode_Check(text.ptr())) {
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
    std::unique_ptr<Buffer> buffer_;
    std::string_view text_;
};

using Ids = nb::typed<nb::list, int>;

Ids encode_ids(BoundEngine &engine, nb::handle text, bool add_special_tokens,
               Choice parse_special) {
    mtkit::IdList ids;
    const TextArgument argument(text);
    engine.encode(argument.text(), argument.options(add_special_tokens, parse_special), ids);
    return engine.to_list(ids.ids());
}

nb::bytes encode_packed(const BoundEngine &engine, nb::handle text, bool add_special_tokens,
                        Choice parse_special) {
    mtkit::IdList ids;
    const TextArgument argument(text);
    engine.encode(argument.text(), argument.options(add_special_tokens, parse_special), ids);
    return nb::bytes(ids.ids().data(), ids.ids().size_bytes());
}

using Texts = nb::typed<nb::list, nb::object>;
using Offsets = nb::typed<nb::list, nb::typed<nb::tuple, int, int>>;
using Spelled = nb::typed<nb::list, nb::typed<nb::tuple, int, nb::bytes>>;
using Columns = nb::typed<nb::tuple, Ids, Offsets, Spelled>;
using Answers = nb::typed<nb::list, std::optional<Columns>>;

// What gets a text: its tokens, or nothing where the pipeline has to take it.
struct Answer {
    std::unique_ptr<TextArgument> text;
    std::optional<mtkit::Tokens> tokens;
};

PyObject *pair_of(std::uint32_t start, std::uint32_t end) {
    PyObject *pair = PyTuple_New(2);
    if (pair == nullptr) nb::raise_python_error();
    PyTuple_SetItem(pair, 0, PyLong_FromUnsignedLong(start));
    PyTuple_SetItem(pair, 1, PyLong_FromUnsignedLong(end));
    return pair;
}

Columns columns_of(BoundEngine &engine, const mtkit::Tokens &tokens) {
    const auto size = static_cast<Py_ssize_t>(tokens.offsets.size());
    const nb::object offsets = nb::steal(PyList_New(size));
    if (!offsets.is_valid()) nb::raise_python_error();
    for (Py_ssize_t i = 0; i < size; ++i) {
        const auto &extent = tokens.offsets[static_cast<std::size_t>(i)];
        PyList_SetItem(offsets.ptr(), i, pair_of(extent.start, extent.end));
    }
    nb::list spelled;
    for (const auto &[at, text] : tokens.spelled)
        spelled.append(nb::make_tuple(at, nb::bytes(text.data(), text.size())));
    return Columns(nb::make_tuple(engine.to_list(tokens.ids), offsets, spelled));
}

// A text that is left to the pipeline, or is an error that the pipeline words, has no answer.
Answers encode_tokens(BoundEngine &engine, const Texts &texts, Choice parse_special) {
    std::vector<Answer> answers(texts.size());
    std::size_t number = 0;
    for (const nb::handle text : texts) {
        try {
            answers[number].text = std::make_unique<TextArgument>(text);
        } catch (const nb::python_error &error) {
            if (!error.matches(PyExc_UnicodeEncodeError)) throw;
        }
        ++number;
    }
    {
        const nb::gil_scoped_release unlocked;
        for (auto &answer : answers) {
            if (!answer.text) continue;
            mtkit::Tokens tokens;
            try {
                const auto &argument = *answer.text;
                engine.encode_tokens(argument.text(), argument.options(true, parse_special),
                                     tokens);
                answer.tokens = std::move(tokens);
            } catch (const mtkit::Deferred &) {
            } catch (const mtkit::InvalidText &) {
            } catch (const mtkit::NoToken &) {
            }
        }
    }
    Answers out;
    for (const auto &answer : answers) {
        if (answer.tokens)
            out.append(columns_of(engine, *answer.tokens));
        else
            out.append(nb::none());
    }
    return out;
}

} // namespace

void bind_engine(nb::module_ &m) {
    nb::class_<BoundEngine>(m, "Engine", "A tokenizer from its tables; used by any thread.")
        .def(nb::init<const Sections &>(), "tables"_a)
        .def("encode_ids", &encode_ids, "text"_a, "add_special_tokens"_a = true,
             "parse_special"_a = nb::none(), "Ids of a text; parse_special: None for the default.")
        .def("encode_packed", &encode_packed, "text"_a, "add_special_tokens"_a = true,
             "parse_special"_a = nb::none(), "The same as little-endian u32.")
        .def("encode_tokens", &encode_tokens, "texts"_a, "parse_special"_a,
             "Of each text ids, offsets, and (place, text) of tokens that are not spelled as their"
             " pieces; None: the pipeline has to take it. Nothing is added around.")
        .def("warm", &BoundEngine::warm,
             "Make what is otherwise made when enough text was seen; whether merges have borders.")
        .def_prop_ro("cuts_at_pattern", &BoundEngine::cuts_at_pattern,
                     "Whether words are cut at a pattern without a call for each.")
        .def_prop_ro("aligns", &BoundEngine::aligns, "Whether there is encode_tokens for it.");
}
