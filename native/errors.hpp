// The errors of the core; module.cpp turns them into the classes of mtkit/errors.py.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace mtkit {

// What is wrong with a file, and where. `field` is always a string literal.
struct FormatError : std::runtime_error {
    FormatError(const std::string &what, const char *field_, std::size_t offset_ = 0)
        : std::runtime_error(what), field(field_), offset(offset_) {}
    const char *field;
    std::size_t offset;
};

// The caller asked for something that makes no sense (an id without a token, broken text).
struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The input is fine, the core cannot do this with it.
struct UnsupportedError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

} // namespace mtkit
