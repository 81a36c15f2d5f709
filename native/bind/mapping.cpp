// Bindings of guarded mappings.
#include <nanobind/nanobind.h>

#include <string>

#include "base/mapping.hpp"
#include "bind/buffer.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// A guard of a mapped file, which has to end before the mapping does. It keeps no buffer: the
// mapping keeps the guard.
class Guard {
  public:
    Guard(nb::handle mapped, std::string path)
        : mapping_(mtkit::Mapping::begin(Buffer(mapped).bytes(), std::move(path))) {
        if (mapping_ == nullptr) throw mtkit::UnsupportedError("SIGBUS has another handler");
    }
    ~Guard() { mapping_->end(); }
    Guard(const Guard &) = delete;
    Guard &operator=(const Guard &) = delete;

    void require_whole() const { mapping_->require_whole(); }

  private:
    mtkit::Mapping *mapping_;
};

} // namespace

void bind_mapping(nb::module_ &m) {
    nb::class_<Guard>(m, "Guard",
                      "Makes an error of a mapped file that is truncated, see mapping.hpp.")
        .def(nb::init<nb::handle, std::string>(), "mapped"_a, "path"_a)
        .def("require_whole", &Guard::require_whole, "Raise where the file is not what it was.");
}
