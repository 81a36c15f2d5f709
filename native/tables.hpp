// Flat tables of the engine.
#pragma once

namespace mtkit {

const char *build_info();

} // namespace mtkit
