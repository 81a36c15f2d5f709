// The errors of the core; module.cpp turns them into the classes of mtkit/errors.py.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace mtkit {

// What is wrong with a file, and where.
struct FormatError : std::runtime_error {
    FormatError(const std::string &what, std::string_view field_, std::size_t offset_ = 0)
        : std::runtime_error(what), field(field_), offset(offset_) {}
    std::string field;
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

// Bytes that are not valid UTF-8, where the tokenizer takes none.
struct InvalidText : std::runtime_error {
    InvalidText(std::string_view bytes, std::size_t offset_)
        : std::runtime_error("is not valid UTF-8"),
          byte(static_cast<unsigned char>(bytes[offset_])), offset(offset_) {}
    unsigned byte;
    std::size_t offset;
};

// A step makes a text longer than it may become; `field` is the step.
struct ResourceError : std::runtime_error {
    ResourceError(const std::string &what, std::string_view field_)
        : std::runtime_error(what), field(field_) {}
    std::string field;
};

// A text that the pipeline has to take; the caller hands it over.
struct Deferred : std::runtime_error {
    Deferred() : std::runtime_error("left to the pipeline") {}
};

// A step has to know what the characters stand for, although nobody asks for offsets.
struct NeedsExtents : std::runtime_error {
    NeedsExtents() : std::runtime_error("needs extents") {}
};

// The model has no token for a part of the text, not even an unknown one.
struct NoToken : std::runtime_error {
    explicit NoToken(std::string_view bytes)
        : std::runtime_error("no token for a part of the text"), text(bytes) {}
    std::string text;
};

} // namespace mtkit
