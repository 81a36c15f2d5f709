// How a reader of ordinary files leaves the others to the readable code; it never reaches Python.
#pragma once

namespace mtkit {

struct GiveUp {};

inline void require(bool holds) {
    if (!holds) throw GiveUp();
}

} // namespace mtkit
