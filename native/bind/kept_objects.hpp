// Python objects by number, which are made when they are first asked for.
//
// A vocabulary may have 150,000, and a special token, one of the last, often comes first. Memory
// that the system gives is zero, but takes no page before something is written there: a vector,
// which writes, took 250 pages and half a millisecond for the first text.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <new>

// Used with the GIL.
class KeptObjects {
  public:
    KeptObjects() = default;
    ~KeptObjects() {
        for (std::size_t i = 0; i < size_; ++i) Py_XDECREF(objects_[i]);
        std::free(objects_);
    }
    KeptObjects(const KeptObjects &) = delete;
    KeptObjects &operator=(const KeptObjects &) = delete;

    // A borrowed reference; nullptr: there is none yet.
    PyObject *operator[](std::size_t number) const {
        return number < size_ ? objects_[number] : nullptr;
    }
    // Keep an object, too: the caller's reference stays his.
    void put(std::size_t number, PyObject *object) {
        if (number >= size_) grow(std::bit_ceil(number + 1));
        PyObject *const former = objects_[number];
        objects_[number] = Py_NewRef(object);
        Py_XDECREF(former);
    }

  private:
    void grow(std::size_t size) {
        auto *const more = static_cast<PyObject **>(std::calloc(size, sizeof(PyObject *)));
        if (more == nullptr) throw std::bad_alloc();
        std::copy_n(objects_, size_, more);
        std::free(objects_);
        objects_ = more;
        size_ = size;
    }

    PyObject **objects_ = nullptr;
    std::size_t size_ = 0;
};
