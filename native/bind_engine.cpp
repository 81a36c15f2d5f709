// Bindings of the engine.
#include <nanobind/nanobind.h>

#include "tables.hpp"

namespace nb = nanobind;
using namespace nb::literals;

void bind_engine(nb::module_ &m) {
    m.def(
        "build_info", [] { return mtkit::build_info(); },
        "What the core was built with, for mtkit --version.");
}
