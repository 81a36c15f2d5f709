// The engine as Python sees it, and the numbers that it gives.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <span>

#include "bind/buffer.hpp"
#include "bind/column.hpp"
#include "bind/kept_objects.hpp"
#include "encode/engine.hpp"

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
    using Ids = nb::typed<nb::list, int>;

    BoundEngine(const HeldTables::Sections &sections, std::size_t cache_bytes, bool know_words)
        : held_(sections), engine_(*held_, cache_bytes, know_words) {
        held_.require_whole();
    }
    BoundEngine(const BoundEngine &) = delete;
    BoundEngine &operator=(const BoundEngine &) = delete;

    // What `run` makes of the engine, see HeldTables.
    template <typename Run> auto use(const Run &run) const {
        return held_.use([&] { return run(engine_); });
    }

    // Ids as a list. Python numbers are made once for each id; making them anew would cost more
    // than the encoding. Called with the GIL.
    Ids to_list(std::span<const std::uint32_t> ids) {
        PyObject *list = PyList_New(static_cast<Py_ssize_t>(ids.size()));
        if (list == nullptr) nb::raise_python_error();
        Py_ssize_t at = 0;
        for (const auto id : ids) {
            PyObject *known = numbers_[id];
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
        if (id < MOST_NUMBERS && made != nullptr) numbers_.put(id, made);
        return made;
    }

    static constexpr std::uint32_t MOST_NUMBERS = 1U << 20;
    KeptObjects numbers_;
    HeldTables held_;
    mtkit::Engine engine_;
};
