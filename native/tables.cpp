#include "tables.hpp"

namespace mtkit {

const char *build_info() {
#if defined(__clang__)
    return "clang " __clang_version__;
#elif defined(__GNUC__)
    return "g++ " __VERSION__;
#else
    return "C++";
#endif
}

} // namespace mtkit
