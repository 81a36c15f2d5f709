// Numbers that the core made, as a memoryview of i (int32) or q (int64).
//
// The view keeps an object of a type of its own: nanobind's classes know each of their objects by
// its address, which takes longer than a short text.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#include "encode/id_list.hpp"

namespace nb = nanobind;

class MemoryView : public nb::object {
  public:
    NB_OBJECT(MemoryView, nb::object, "memoryview", PyMemoryView_Check)
};

class Column {
  public:
    explicit Column(mtkit::IdList &ids)
        : size_(static_cast<Py_ssize_t>(ids.size())), data_(ids.release()) {}
    // `count` numbers of 64 bits, to be written by the caller.
    explicit Column(std::size_t count)
        : size_(static_cast<Py_ssize_t>(count)), wide_(true),
          data_(std::malloc(count * sizeof(std::int64_t))) {
        if (data_ == nullptr) throw std::bad_alloc();
    }
    ~Column() { std::free(data_); }
    Column(Column &&other) noexcept
        : size_(other.size_), wide_(other.wide_), data_(std::exchange(other.data_, nullptr)) {}

    [[nodiscard]] std::int64_t *wide() { return static_cast<std::int64_t *>(data_); }

    // A view that keeps it.
    static MemoryView view(Column column);

  private:
    friend struct ColumnObject;

    Py_ssize_t size_;
    bool wide_ = false;
    void *data_;
};

// A column as an object that lends its memory.
struct ColumnObject {
    PyObject_HEAD Column column;

    static int get(PyObject *self, Py_buffer *view, int) {
        static char narrow[] = "i";
        static char wide[] = "q";
        static std::uint32_t nothing = 0;
        auto &column = reinterpret_cast<ColumnObject *>(self)->column;
        *view = {};
        view->itemsize = column.wide_ ? sizeof(std::int64_t) : sizeof(std::int32_t);
        view->buf = column.data_ == nullptr ? &nothing : column.data_;
        view->len = column.size_ * view->itemsize;
        view->ndim = 1;
        view->format = column.wide_ ? wide : narrow;
        view->shape = &column.size_;
        view->strides = nullptr;
        view->obj = Py_NewRef(self);
        return 0;
    }

    static void release(PyObject *self) {
        auto *const type = Py_TYPE(self);
        reinterpret_cast<ColumnObject *>(self)->column.~Column();
        PyObject_Free(self);
        Py_DECREF(type);
    }

    static PyTypeObject *make_type() {
        PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void *>(&get)},
                               {Py_tp_dealloc, reinterpret_cast<void *>(&release)},
                               {0, nullptr}};
        PyType_Spec spec = {"mtkit._native.Column", sizeof(ColumnObject), 0, Py_TPFLAGS_DEFAULT,
                            slots};
        PyObject *made = PyType_FromSpec(&spec);
        if (made == nullptr) nb::raise_python_error();
        return reinterpret_cast<PyTypeObject *>(made);
    }
};

inline MemoryView Column::view(Column column) {
    static PyTypeObject *const type = ColumnObject::make_type();
    auto *const owner = PyObject_New(ColumnObject, type);
    if (owner == nullptr) nb::raise_python_error();
    new (&owner->column) Column(std::move(column));
    const nb::object kept = nb::steal(reinterpret_cast<PyObject *>(owner));
    PyObject *made = PyMemoryView_FromObject(kept.ptr());
    if (made == nullptr) nb::raise_python_error();
    return nb::steal<MemoryView>(made);
}
