// A method of mtkit's Tokenizer that is called most, without a frame of Python in between: for a
// short text that would take as long as encoding it.
//
// The object takes one argument and flags by name. What it cannot answer (a wrong argument, an
// error, a text that is the pipeline's) goes to `otherwise`, a Python function of the same
// parameters, which answers or raises.
#pragma once

#include <nanobind/nanobind.h>

#include <structmember.h>

#include <array>
#include <cstddef>

namespace nb = nanobind;

class DirectCall {
  public:
    using Function = nb::typed<nb::callable, nb::ellipsis, nb::object>;
    // A flag: its name and what it is where it is not given: 1, 0, or -1 for None.
    struct Flag {
        const char *name;
        int usual;
    };
    static constexpr std::size_t MOST_FLAGS = 2;
    using Values = std::array<int, MOST_FLAGS>;

    // A call of `Answer(core, argument, values)`, which returns a new reference or throws.
    // `owner` is what Python knows the core as.
    template <auto Answer, const auto &Flags, typename Core>
    static nb::object make(nb::handle owner, Core &core, nb::handle otherwise) {
        auto *const made = PyObject_GC_New(Object, type());
        if (made == nullptr) nb::raise_python_error();
        made->vectorcall = &call<Answer, Flags, Core>;
        made->core = &core;
        made->owner = Py_NewRef(owner.ptr());
        made->otherwise = Py_NewRef(otherwise.ptr());
        PyObject_GC_Track(reinterpret_cast<PyObject *>(made));
        return nb::steal(reinterpret_cast<PyObject *>(made));
    }

  private:
    struct Object {
        PyObject_HEAD vectorcallfunc vectorcall;
        void *core;
        PyObject *owner;
        PyObject *otherwise;
    };

    template <auto Answer, const auto &Flags, typename Core>
    static PyObject *call(PyObject *self, PyObject *const *args, std::size_t count,
                          PyObject *names) {
        const auto &own = *reinterpret_cast<Object *>(self);
        Values values{};
        if (PyVectorcall_NARGS(count) == 1 && read<Flags>(args + 1, names, values)) {
            try {
                return Answer(*static_cast<Core *>(own.core), args[0], values);
            } catch (nb::python_error &error) {
                if (!error.matches(PyExc_Exception)) { // an interrupt does not come again
                    error.restore();
                    return nullptr;
                }
            } catch (...) { // whatever it is, it comes again
            }
        }
        return PyObject_Vectorcall(own.otherwise, args, count, names);
    }

    // Whether all that is given are flags.
    template <const auto &Flags>
    static bool read(PyObject *const *given, PyObject *names, Values &values) {
        for (std::size_t flag = 0; flag < Flags.size(); ++flag) values[flag] = Flags[flag].usual;
        const Py_ssize_t count = names == nullptr ? 0 : PyTuple_Size(names);
        for (Py_ssize_t at = 0; at < count; ++at) {
            PyObject *const name = PyTuple_GetItem(names, at);
            std::size_t flag = 0;
            while (flag < Flags.size() && !is<Flags>(name, flag)) ++flag;
            if (flag == Flags.size()) return false;
            if (given[at] == Py_True)
                values[flag] = 1;
            else if (given[at] == Py_False)
                values[flag] = 0;
            else if (given[at] != Py_None || Flags[flag].usual >= 0)
                return false;
        }
        return true;
    }

    // Names of arguments are interned as a rule: the same object.
    template <const auto &Flags> static bool is(PyObject *name, std::size_t flag) {
        static const auto interned = [] {
            std::array<PyObject *, Flags.size()> made{};
            for (std::size_t i = 0; i < made.size(); ++i)
                made[i] = PyUnicode_InternFromString(Flags[i].name);
            return made;
        }();
        return name == interned[flag] ||
               PyUnicode_CompareWithASCIIString(name, Flags[flag].name) == 0;
    }

    static int traverse(PyObject *self, visitproc visit, void *arg) {
        const auto &own = *reinterpret_cast<Object *>(self);
        Py_VISIT(Py_TYPE(self));
        Py_VISIT(own.owner);
        Py_VISIT(own.otherwise);
        return 0;
    }
    static void release(PyObject *self) {
        auto *const type = Py_TYPE(self);
        PyObject_GC_UnTrack(self);
        auto &own = *reinterpret_cast<Object *>(self);
        Py_CLEAR(own.owner);
        Py_CLEAR(own.otherwise);
        PyObject_GC_Del(self);
        Py_DECREF(type);
    }
    // What it lacks is that of `otherwise`: name, documentation, how it is pickled.
    static PyObject *attribute(PyObject *self, PyObject *name) {
        PyObject *const otherwise = reinterpret_cast<Object *>(self)->otherwise;
        for (const char *own : {"__class__", "__wrapped__"})
            if (PyUnicode_CompareWithASCIIString(name, own) == 0)
                return PyObject_GenericGetAttr(self, name);
        return PyObject_GetAttr(otherwise, name);
    }
    static PyTypeObject *type() {
        static PyTypeObject *const made = make_type();
        return made;
    }
    static PyTypeObject *make_type() {
        static PyMemberDef members[] = {
            {"__vectorcalloffset__", T_PYSSIZET, offsetof(Object, vectorcall), READONLY, nullptr},
            {"__wrapped__", T_OBJECT_EX, offsetof(Object, otherwise), READONLY, nullptr},
            {nullptr, 0, 0, 0, nullptr}};
        PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void *>(&PyVectorcall_Call)},
                               {Py_tp_getattro, reinterpret_cast<void *>(&attribute)},
                               {Py_tp_traverse, reinterpret_cast<void *>(&traverse)},
                               {Py_tp_dealloc, reinterpret_cast<void *>(&release)},
                               {Py_tp_members, members},
                               {0, nullptr}};
        PyType_Spec spec = {"mtkit._native.DirectCall", sizeof(Object), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
                            slots};
        PyObject *made = PyType_FromSpec(&spec);
        if (made == nullptr) nb::raise_python_error();
        return reinterpret_cast<PyTypeObject *>(made);
    }
};
