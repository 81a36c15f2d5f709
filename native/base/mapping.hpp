// Files that are mapped while they are in use.
//
// To read a mapping behind the end of its file, as after somebody truncated it, raises SIGBUS,
// which ends the process. A handler puts zeros in place of what is gone, so that every reader, the
// core and Python alike, goes on; is_whole() then says that what was read may be wrong, and whoever
// gives an answer asks it first. Windows does not let a file be truncated while it is mapped.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/errors.hpp"

namespace mtkit {

// A file is not what it was when it was mapped; see errors.py for the words.
struct FileChanged : std::runtime_error {
    explicit FileChanged(const std::string &path_)
        : std::runtime_error("was truncated or overwritten while it was in use"), path(path_) {}
    std::string path;
};

class Mapping {
  public:
    // Guard a mapped file until end(). nullptr: nothing guards it, for some other code has put its
    // own handler over the one here, which may never be asked.
    static Mapping *begin(std::span<const std::byte> file, std::string path);
    void end();

    // The guarded file that a place lies in; nullptr: none.
    static const Mapping *of(const void *place);

    // Whether all is as it was; once it is not, it never is again. The last bytes of the file stand
    // for all of it: of every way to make a file shorter, they are what goes first, and those of a
    // .mtok hold its length and its checksums. It costs some nanoseconds.
    [[nodiscard]] bool is_whole() const;
    void require_whole() const {
        if (!is_whole()) throw FileChanged(path_);
    }

    // For the handler: put zeros from a place to the end of the mapping that it lies in; false
    // where that is none of ours.
    static bool put_zeros(std::uintptr_t place);
    // For the handler: whether the end of one of the files is gone.
    static bool any_is_short();

  private:
    static constexpr std::size_t WORD = sizeof(std::uint64_t);
    static constexpr std::size_t SEAL = 64 / WORD;
    using Seal = std::array<std::uint64_t, SEAL>;
    [[nodiscard]] Seal last_words() const;

    // Read by the handler in any thread. An entry is used again, but never freed.
    std::atomic<std::uintptr_t> start_ = 0; // 0: free
    std::atomic<std::size_t> size_ = 0;
    mutable std::atomic<bool> cut_ = false;
    Seal seal_{};
    std::string path_;
    Mapping *next_ = nullptr;
};

} // namespace mtkit
