// Bindings of the engine: conversions and the GIL only.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <optional>
#include <vector>

#include "bind/bound_engine.hpp"
#include "bind/direct_call.hpp"
#include "bind/text_argument.hpp"

using namespace nb::literals;

void bind_batch(nb::class_<BoundEngine> &engine);

namespace {

using Ids = BoundEngine::Ids;

// Giving the GIL away and taking it back costs more than a text of this size.
constexpr std::size_t SHORT = 256;

// Encode one text to ids, the GIL released where it pays.
void encode(const BoundEngine &engine, nb::handle text, bool add_special_tokens,
            Choice parse_special, mtkit::IdList &ids) {
    const TextArgument argument(text);
    const auto options = argument.options(add_special_tokens, parse_special);
    engine.use([&](const mtkit::Engine &core) {
        const auto run = [&] { core.encode(argument.text(), options, ids); };
        if (argument.text().size() < SHORT)
            run();
        else
            unlocked(run);
    });
}

Ids encode_ids(BoundEngine &engine, nb::handle text, bool add_special_tokens,
               Choice parse_special) {
    mtkit::IdList ids;
    encode(engine, text, add_special_tokens, parse_special, ids);
    return engine.to_list(ids.ids());
}

MemoryView encode_array(const BoundEngine &engine, nb::handle text, bool add_special_tokens,
                        Choice parse_special) {
    mtkit::IdList ids;
    encode(engine, text, add_special_tokens, parse_special, ids);
    return Column::view(ids);
}

constexpr std::array<DirectCall::Flag, 2> ENCODE_FLAGS{
    {{"add_special_tokens", 1}, {"parse_special", -1}}};

Choice choice_of(int value) {
    return value < 0 ? std::nullopt : Choice(value != 0);
}

PyObject *direct_ids(BoundEngine &engine, PyObject *text, const DirectCall::Values &flags) {
    return encode_ids(engine, text, flags[0] != 0, choice_of(flags[1])).release().ptr();
}

PyObject *direct_array(const BoundEngine &engine, PyObject *text, const DirectCall::Values &flags) {
    return encode_array(engine, text, flags[0] != 0, choice_of(flags[1])).release().ptr();
}

DirectCall::Function direct_encode(nb::handle self, const DirectCall::Function &otherwise,
                                   bool as_list) {
    auto &engine = nb::cast<BoundEngine &>(self);
    return nb::borrow<DirectCall::Function>(
        as_list ? DirectCall::make<&direct_ids, ENCODE_FLAGS>(self, engine, otherwise)
                : DirectCall::make<&direct_array, ENCODE_FLAGS>(self, engine, otherwise));
}

using IdsAndPlaces = nb::typed<nb::tuple, MemoryView, MemoryView>;

IdsAndPlaces encode_offsets(const BoundEngine &engine, nb::handle text, bool add_special_tokens,
                            Choice parse_special) {
    mtkit::IdList ids;
    mtkit::IdList places;
    const TextArgument argument(text);
    const auto options = argument.options(add_special_tokens, parse_special);
    engine.use([&](const mtkit::Engine &core) {
        unlocked([&] { core.encode_offsets(argument.text(), options, ids, places); });
    });
    return IdsAndPlaces(nb::make_tuple(Column::view(ids), Column::view(places)));
}

using Offsets = nb::typed<nb::list, nb::typed<nb::tuple, int, int>>;
using Spelled = nb::typed<nb::list, nb::typed<nb::tuple, int, nb::bytes>>;
using Columns = nb::typed<nb::tuple, Ids, Offsets, Spelled>;
using Answers = nb::typed<nb::list, std::optional<Columns>>;

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
    const auto arguments = arguments_of(texts);
    std::vector<std::optional<mtkit::Tokens>> found(arguments.size());
    const auto encode_all = [&](const mtkit::Engine &core) {
        Utf8Room room;
        for (std::size_t i = 0; i < arguments.size(); ++i) {
            const auto text = arguments[i].text(room);
            if (!text) continue;
            const mtkit::EncodeOptions options{true, as_number(parse_special),
                                               arguments[i].is_str()};
            const auto run = [&] { core.encode_tokens(*text, options, found[i].emplace()); };
            if (!answers(run)) found[i].reset();
        }
    };
    engine.use([&](const mtkit::Engine &core) { unlocked([&] { encode_all(core); }); });
    Answers out;
    for (const auto &tokens : found) {
        if (tokens)
            out.append(columns_of(engine, *tokens));
        else
            out.append(nb::none());
    }
    return out;
}

} // namespace

void bind_engine(nb::module_ &m) {
    nb::class_<BoundEngine> engine(m, "Engine", "A tokenizer from its tables; used by any thread.");
    engine
        .def(nb::init<const HeldTables::Sections &, std::size_t, bool>(), "tables"_a,
             "cache_bytes"_a = mtkit::WordCache::USUAL_BYTES, "know_words"_a = false)
        .def("encode_ids", &encode_ids, "text"_a, "add_special_tokens"_a, "parse_special"_a.none(),
             "Ids of a text; parse_special: None for the default.")
        .def("encode_array", &encode_array, "text"_a, "add_special_tokens"_a,
             "parse_special"_a.none(), "The same as a view of int32.")
        .def("direct", &direct_encode, "otherwise"_a, "as_list"_a,
             "encode_ids or encode_array as a function (text, *, add_special_tokens=True,"
             " parse_special=None); what the core cannot answer alone goes to otherwise.")
        .def("encode_offsets", &encode_offsets, "text"_a, "add_special_tokens"_a,
             "parse_special"_a.none(),
             "Views of int32: the ids, and start and end of each in characters.")
        .def("encode_tokens", &encode_tokens, "texts"_a, "parse_special"_a.none(),
             "Of each text ids, offsets, and (place, text) of tokens that are not spelled as their"
             " pieces; None: the pipeline has to take it. Nothing is added around.")
        .def(
            "warm",
            [](const BoundEngine &self) {
                return self.use([](const auto &core) { return core.warm(); });
            },
            "Make what is otherwise made when enough text was seen; whether words are cut.")
        .def(
            "own_words",
            [](const BoundEngine &self) {
                return to_bytes(self.use([](const auto &core) { return core.own_words(); }));
            },
            "Table of the pieces that are encoded as themselves; empty: the model needs none.")
        .def_prop_ro(
            "cached_bytes",
            [](const BoundEngine &self) {
                return self.use([](const auto &core) { return core.cached_bytes(); });
            },
            "What words that idle calls remember take.")
        .def_prop_ro(
            "cuts_at_pattern",
            [](const BoundEngine &self) {
                return self.use([](const auto &core) { return core.cuts_at_pattern(); });
            },
            "Whether words are cut at a pattern without a call for each.")
        .def_prop_ro(
            "aligns",
            [](const BoundEngine &self) {
                return self.use([](const auto &core) { return core.aligns(); });
            },
            "Whether there is encode_tokens for it.");
    bind_batch(engine);
}
