// The extension module: errors translated once, and the bind_ functions of the other files called.
//
// Those files convert arguments and release the GIL; they hold no logic. See mtkit/_native.pyi.
#include <nanobind/nanobind.h>

#include <string>

#include "base/errors.hpp"
#include "base/mapping.hpp"

namespace nb = nanobind;
using namespace nb::literals;

void bind_build(nb::module_ &m);
void bind_decoder(nb::module_ &m);
void bind_engine(nb::module_ &m);
void bind_files(nb::module_ &m);
void bind_mapping(nb::module_ &m);
void bind_pattern(nb::module_ &m);
void bind_search(nb::module_ &m);

namespace {

template <typename... Args> void raise(const char *name, Args &&...args) {
    const auto type = nb::module_::import_("mtkit.errors").attr(name);
    PyErr_SetObject(type.ptr(), type(std::forward<Args>(args)...).ptr());
}

void translate(const std::exception_ptr &pending, void *) {
    try {
        std::rethrow_exception(pending);
    } catch (const mtkit::FormatError &error) {
        raise("FormatError", error.what(), "field"_a = error.field.c_str(),
              "offset"_a = error.offset);
    } catch (const mtkit::FileChanged &error) {
        raise("FormatError", error.what(), "source"_a = error.path.c_str(),
              "hint"_a = "load it again; a new version is written beside it and renamed");
    } catch (const mtkit::UsageError &error) {
        raise("UsageError", error.what());
    } catch (const mtkit::UnsupportedError &error) {
        raise("UnsupportedError", error.what());
    } catch (const mtkit::ResourceError &error) {
        raise("ResourceError", error.what(), "field"_a = error.field.c_str());
    } catch (const mtkit::InvalidText &error) {
        static constexpr const char *DIGITS = "0123456789ABCDEF";
        const std::string byte{DIGITS[error.byte >> 4], DIGITS[error.byte & 15]};
        const std::string what = "is not valid UTF-8: byte " + byte;
        raise("UsageError", what.c_str(), "field"_a = "text", "offset"_a = error.offset);
    } catch (const mtkit::NoToken &error) {
        // The pipeline words this error; both say the same.
        const auto words = nb::module_::import_("mtkit.pipeline.models.words");
        const auto value = words.attr("no_token")(nb::bytes(error.text.data(), error.text.size()));
        PyErr_SetObject(nb::handle(reinterpret_cast<PyObject *>(Py_TYPE(value.ptr()))).ptr(),
                        value.ptr());
    }
}

// Of _native.pyi and programs; mtkit/base/native.py has the same number.
constexpr int INTERFACE = 23;

} // namespace

NB_MODULE(_native, m) {
    m.doc() = "Native core of mtkit.";
    m.attr("INTERFACE") = INTERFACE;
    // An interpreter may end while tokenizers are alive; their memory goes with the process.
    nb::set_leak_warnings(false);
    nb::register_exception_translator(translate);
    nb::exception<mtkit::Deferred>(m, "Deferred");
    bind_build(m);
    bind_decoder(m);
    bind_engine(m);
    bind_files(m);
    bind_mapping(m);
    bind_pattern(m);
    bind_search(m);
}
