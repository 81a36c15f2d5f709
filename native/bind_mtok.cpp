// Bindings of the tables of .mtok base files.
#include <nanobind/nanobind.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "mtok_tables.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// The caller's buffer, held for one call.
class Held {
  public:
    explicit Held(nb::handle object) {
        if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) nb::raise_python_error();
    }
    ~Held() { PyBuffer_Release(&view_); }
    Held(const Held &) = delete;
    Held &operator=(const Held &) = delete;

    [[nodiscard]] std::span<const std::byte> bytes() const {
        return {static_cast<const std::byte *>(view_.buf), static_cast<std::size_t>(view_.len)};
    }
    [[nodiscard]] std::string_view text() const {
        return {static_cast<const char *>(view_.buf), static_cast<std::size_t>(view_.len)};
    }
    // A copy: the buffer need not be aligned.
    [[nodiscard]] std::vector<std::uint32_t> numbers() const {
        std::vector<std::uint32_t> values(static_cast<std::size_t>(view_.len) / 4);
        if (!values.empty()) std::memcpy(values.data(), view_.buf, values.size() * 4);
        return values;
    }

  private:
    Py_buffer view_{};
};

template <typename T> nb::bytes to_bytes(const std::vector<T> &values) {
    return nb::bytes(values.data(), values.size() * sizeof(T));
}

using Vocab = nb::typed<nb::tuple, nb::bytes, nb::bytes, nb::bytes, nb::bytes, std::size_t>;
using Merges = nb::typed<nb::tuple, nb::bytes, nb::bytes, bool>;

} // namespace

void bind_mtok(nb::module_ &m) {
    m.def(
        "parse_mtok_vocab",
        [](const nb::object &data, std::size_t offset, std::uint64_t count,
           bool with_score) -> Vocab {
            const Held held(data);
            mtkit::MtokVocab vocab;
            {
                const nb::gil_scoped_release release;
                vocab = mtkit::parse_mtok_vocab(held.bytes(), offset, count, with_score);
            }
            return Vocab(nb::make_tuple(nb::bytes(vocab.blob.data(), vocab.blob.size()),
                                        to_bytes(vocab.ends), to_bytes(vocab.scores),
                                        to_bytes(vocab.hidden), vocab.end));
        },
        "data"_a, "offset"_a, "count"_a, "with_score"_a,
        "Entries of a .mtok: pieces by id, their ends, scores (f64), hidden ids, end offset.");
    m.def(
        "parse_mtok_merges",
        [](const nb::object &data, std::size_t offset, std::uint64_t count, const nb::object &blob,
           const nb::object &ends, const nb::object &hidden) -> Merges {
            const Held held(data);
            const Held pieces(blob);
            const auto places = Held(ends).numbers();
            const auto left_out = Held(hidden).numbers();
            mtkit::MtokMerges merges;
            {
                const nb::gil_scoped_release release;
                merges = mtkit::parse_mtok_merges(held.bytes(), offset, count, pieces.text(),
                                                  places, left_out);
            }
            return Merges(
                nb::make_tuple(to_bytes(merges.pairs), to_bytes(merges.ranks), merges.regular));
        },
        "data"_a, "offset"_a, "count"_a, "blob"_a, "ends"_a, "hidden"_a,
        "Merges of a .mtok by rank: pairs, ranks, whether each makes a token of its own rank.");
}
