// Numbers that the core made, as a memoryview of i (int32) or q (int64).
//
// The view keeps an object of a type of its own: nanobind's classes know each of their objects by
// its address, which takes longer than a short text.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "encode/id_list.hpp"

namespace nb = nanobind;

class MemoryView : public nb::object {
  public:
    NB_OBJECT(MemoryView, nb::object, "memoryview", PyMemoryView_Check)
};

// An object that lends its memory: what follows it, or what it frees.
struct Column {
    PyObject_VAR_HEAD Py_ssize_t count;
    Py_ssize_t item; // bytes of each: 4 or 8
    void *owned;

    // The numbers of a list, which is empty afterwards; many are not copied.
    static MemoryView view(mtkit::IdList &ids) {
        const auto count = static_cast<Py_ssize_t>(ids.size());
        Column *const column = make(count, sizeof(std::int32_t), ids.few());
        if (ids.few())
            std::copy_n(ids.data(), count, static_cast<std::uint32_t *>(column->data()));
        else
            column->owned = ids.release();
        return view(column);
    }
    // `count` numbers of 64 bits, which `write` gets the place of.
    template <typename Write> static MemoryView view(std::size_t count, const Write &write) {
        Column *const column = make(static_cast<Py_ssize_t>(count), sizeof(std::int64_t), true);
        write(static_cast<std::int64_t *>(column->data()));
        return view(column);
    }

  private:
    void *data() { return owned != nullptr ? owned : this + 1; }
    // `inside`: with room for the numbers.
    static Column *make(Py_ssize_t count, std::size_t size, bool inside) {
        static PyTypeObject *const type = make_type();
        const auto item = static_cast<Py_ssize_t>(size);
        constexpr Py_ssize_t UNIT = sizeof(std::int64_t);
        auto *const column =
            PyObject_NewVar(Column, type, inside ? (count * item + UNIT - 1) / UNIT : 0);
        if (column == nullptr) nb::raise_python_error();
        column->count = count;
        column->item = item;
        column->owned = nullptr;
        return column;
    }
    static MemoryView view(Column *column) {
        const nb::object kept = nb::steal(reinterpret_cast<PyObject *>(column));
        PyObject *made = PyMemoryView_FromObject(kept.ptr());
        if (made == nullptr) nb::raise_python_error();
        return nb::steal<MemoryView>(made);
    }

    static int get(PyObject *self, Py_buffer *view, int) {
        static char narrow[] = "i";
        static char wide[] = "q";
        auto &column = *reinterpret_cast<Column *>(self);
        *view = {};
        view->itemsize = column.item;
        view->buf = column.data();
        view->len = column.count * view->itemsize;
        view->ndim = 1;
        view->format = column.item == sizeof(std::int64_t) ? wide : narrow;
        view->shape = &column.count;
        view->obj = Py_NewRef(self);
        return 0;
    }
    static void release(PyObject *self) {
        auto *const type = Py_TYPE(self);
        std::free(reinterpret_cast<Column *>(self)->owned);
        PyObject_Free(self);
        Py_DECREF(type);
    }
    static PyTypeObject *make_type() {
        PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void *>(&get)},
                               {Py_tp_dealloc, reinterpret_cast<void *>(&release)},
                               {0, nullptr}};
        PyType_Spec spec = {"mtkit._native.Column", sizeof(Column), sizeof(std::int64_t),
                            Py_TPFLAGS_DEFAULT, slots};
        PyObject *made = PyType_FromSpec(&spec);
        if (made == nullptr) nb::raise_python_error();
        return reinterpret_cast<PyTypeObject *>(made);
    }
};
