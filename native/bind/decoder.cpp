// Bindings of the decoder: conversions and the GIL only.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "bind/buffer.hpp"
#include "bind/direct_call.hpp"
#include "bind/kept_objects.hpp"
#include "decode/decoder.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Ids = nb::typed<nb::list, int>;

nb::str as_str(const std::string &text) {
    const auto size = static_cast<Py_ssize_t>(text.size());
    PyObject *decoded = PyUnicode_DecodeUTF8(text.data(), size, "replace");
    if (decoded == nullptr) nb::raise_python_error();
    return nb::steal<nb::str>(decoded);
}

// A decoder with the buffers that its tables lie in.
class BoundDecoder {
  public:
    explicit BoundDecoder(const HeldTables::Sections &sections)
        : held_(sections), decoder_(*held_) {
        held_.require_whole();
    }
    BoundDecoder(const BoundDecoder &) = delete;
    BoundDecoder &operator=(const BoundDecoder &) = delete;

    [[nodiscard]] std::uint32_t vocab_size() const { return decoder_.vocab_size(); }

    // With known: numbers that are not ids are the pipeline's.
    [[nodiscard]] std::string decode(const Ids &ids, bool skip_special_tokens, bool lossy,
                                     bool known = false) const {
        const Py_ssize_t size = PyList_Size(ids.ptr());
        std::vector<std::uint32_t> numbers(static_cast<std::size_t>(size));
        for (Py_ssize_t i = 0; i < size; ++i) {
            const long long id = number(ids, i);
            if (id < 0) throw mtkit::Deferred(); // the pipeline raises the message
            if (known && id >= decoder_.vocab_size()) throw mtkit::Deferred();
            numbers[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(id);
        }
        std::string out;
        held_.use([&] {
            const auto run = [&] { decoder_.decode(numbers, skip_special_tokens, lossy, out); };
            if (numbers.size() < FEW)
                run();
            else
                unlocked(run);
        });
        return out;
    }

    // The text of one id, which is made once: tokens are often decoded one by one. Called with the
    // GIL.
    nb::str decode_one(const Ids &ids, bool skip_special_tokens) {
        const long long id = number(ids, 0);
        if (id < 0 || id >= std::min<long long>(decoder_.vocab_size(), MOST_TEXTS))
            return as_str(decode(ids, skip_special_tokens, true, true));
        const auto place = 2 * static_cast<std::size_t>(id) + (skip_special_tokens ? 1 : 0);
        if (PyObject *const known = texts_[place]) return nb::borrow<nb::str>(known);
        std::string text;
        const auto alone = static_cast<std::uint32_t>(id);
        held_.use([&] { decoder_.decode({&alone, 1}, skip_special_tokens, true, text); });
        auto made = as_str(text);
        texts_.put(place, made.ptr());
        return made;
    }

    // A number of a list; all that are too large for an id are NONE.
    static long long number(const Ids &ids, Py_ssize_t at) {
#if !defined(Py_LIMITED_API) && PY_VERSION_HEX < 0x030C0000
        if (at < PyList_GET_SIZE(ids.ptr())) {
            PyObject *small = PyList_GET_ITEM(ids.ptr(), at);
            if (PyLong_CheckExact(small) && Py_SIZE(small) == 1)
                return reinterpret_cast<PyLongObject *>(small)->ob_digit[0];
        }
#endif
        PyObject *item = PyList_GetItem(ids.ptr(), at);
        // Its conversion may run code of the caller, which may shorten the list.
        if (item == nullptr) nb::raise_python_error();
        int overflow = 0;
        const long long value = PyLong_AsLongLongAndOverflow(item, &overflow);
        if (overflow != 0) return overflow < 0 ? -1 : mtkit::NONE;
        if (value == -1 && PyErr_Occurred() != nullptr) nb::raise_python_error();
        return std::min<long long>(value, mtkit::NONE);
    }

  private:
    // Giving the GIL away and taking it back costs more than this many ids.
    static constexpr std::size_t FEW = 128;
    static constexpr long long MOST_TEXTS = 1 << 18;
    KeptObjects texts_; // of each id, with and without special tokens
    HeldTables held_;
    mtkit::Decoder decoder_;
};

std::optional<Py_ssize_t> first_outside(const BoundDecoder &self, const Ids &ids) {
    const long long size = self.vocab_size();
    for (Py_ssize_t i = 0; i < PyList_Size(ids.ptr()); ++i) {
        const long long id = BoundDecoder::number(ids, i);
        if (id < 0 || id >= size) return i;
    }
    return std::nullopt;
}

nb::str decode(const BoundDecoder &self, const Ids &ids, bool skip_special_tokens) {
    return as_str(self.decode(ids, skip_special_tokens, true));
}

constexpr std::array<DirectCall::Flag, 1> DECODE_FLAGS{{{"skip_special_tokens", 1}}};

PyObject *direct_known(BoundDecoder &self, PyObject *ids, const DirectCall::Values &flags) {
    if (!PyList_Check(ids)) throw mtkit::Deferred();
    const auto list = nb::borrow<Ids>(ids);
    const bool skip = flags[0] != 0;
    if (PyList_Size(ids) == 1) return self.decode_one(list, skip).release().ptr();
    return as_str(self.decode(list, skip, true, true)).release().ptr();
}

DirectCall::Function direct_decode(nb::handle self, const DirectCall::Function &otherwise) {
    auto &decoder = nb::cast<BoundDecoder &>(self);
    return nb::borrow<DirectCall::Function>(
        DirectCall::make<&direct_known, DECODE_FLAGS>(self, decoder, otherwise));
}

nb::bytes decode_bytes(const BoundDecoder &self, const Ids &ids, bool skip_special_tokens) {
    return to_bytes(self.decode(ids, skip_special_tokens, false));
}

} // namespace

void bind_decoder(nb::module_ &m) {
    nb::class_<BoundDecoder>(m, "Decoder", "The way back of a tokenizer from its tables.")
        .def(nb::init<const HeldTables::Sections &>(), "tables"_a)
        .def_prop_ro(
            "vocab_size", [](const BoundDecoder &self) { return self.vocab_size(); },
            "Number of ids.")
        .def("first_outside", &first_outside, "ids"_a,
             "Place of the first number that is not an id, None where all are.")
        .def("decode", &decode, "ids"_a, "skip_special_tokens"_a, "Text of ids.")
        .def("direct", &direct_decode, "otherwise"_a,
             "decode as a function (ids, *, skip_special_tokens=True) of a list of known ids; all"
             " else goes to otherwise.")
        .def("decode_bytes", &decode_bytes, "ids"_a, "skip_special_tokens"_a, "Bytes of ids.");
}
