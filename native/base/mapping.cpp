#include "base/mapping.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#ifndef _WIN32
#include <csignal>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace mtkit {

namespace {

// All entries there ever were; new ones are put in front.
std::atomic<Mapping *> all = nullptr;
std::mutex changes;

#ifndef _WIN32

struct sigaction earlier; // what the handler here passes on to

// Whether the system says that a read failed, and not a process by kill() or raise().
bool is_fault(const siginfo_t &info) {
#ifdef BUS_MCEERR_AR
    if (info.si_code == BUS_MCEERR_AR) return false; // broken memory is no shorter file
#endif
    return info.si_code > 0;
}

void pass_on(int number, siginfo_t *info, void *context) {
    if ((earlier.sa_flags & SA_SIGINFO) != 0) {
        earlier.sa_sigaction(number, info, context);
    } else if (earlier.sa_handler == SIG_IGN && !is_fault(*info)) {
        return;
    } else if (earlier.sa_handler == SIG_DFL || earlier.sa_handler == SIG_IGN) {
        // The process ends as it would have without us: by the same read, or by the same signal.
        struct sigaction usual = {};
        usual.sa_handler = SIG_DFL;
        sigaction(number, &usual, nullptr);
        if (!is_fault(*info)) raise(number);
    } else {
        earlier.sa_handler(number);
    }
}

void on_bus_error(int number, siginfo_t *info, void *context) {
    const int kept = errno;
    const bool done = is_fault(*info)
                          ? Mapping::put_zeros(reinterpret_cast<std::uintptr_t>(info->si_addr))
                          // Python's faulthandler, enabled after us, raises the signal again, which
                          // says no place. The read comes again, too, and then to us alone.
                          : Mapping::any_is_short();
    if (!done) pass_on(number, info, context);
    errno = kept;
}

bool is_ours(const struct sigaction &action) {
    return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &on_bus_error;
}

// Whether the handler here is asked first. It is put over another one once, and never again over
// one that came later and may pass on to it: each would call the other for ever.
bool handles() {
    static const bool put = [] {
        struct sigaction ours = {};
        if (sigaction(SIGBUS, nullptr, &earlier) != 0) return false;
        ours.sa_sigaction = &on_bus_error;
        // As the earlier one wants to be called; on a stack of its own, where the thread has one.
        ours.sa_mask = earlier.sa_mask;
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (earlier.sa_flags & SA_NODEFER);
        return sigaction(SIGBUS, &ours, nullptr) == 0;
    }();
    struct sigaction now = {};
    return put && sigaction(SIGBUS, nullptr, &now) == 0 && is_ours(now);
}

#else

bool handles() {
    return true;
}

#endif

} // namespace

Mapping *Mapping::begin(std::span<const std::byte> file, std::string path) {
    if (file.empty() || !handles()) return nullptr;
    const std::lock_guard lock(changes);
    Mapping *entry = all.load();
    while (entry != nullptr && entry->start_.load() != 0) entry = entry->next_;
    const bool is_new = entry == nullptr;
    if (is_new) entry = new Mapping;
    entry->cut_ = false;
    entry->path_ = std::move(path);
    entry->size_ = file.size();
    entry->start_ = reinterpret_cast<std::uintptr_t>(file.data());
    if (is_new) {
        entry->next_ = all.load();
        all.store(entry);
    }
    entry->seal_ = entry->last_words(); // zeros where they are gone already, which is_whole() says
    return entry;
}

void Mapping::end() {
    const std::lock_guard lock(changes);
    start_ = 0;
}

const Mapping *Mapping::of(const void *place) {
    const auto address = reinterpret_cast<std::uintptr_t>(place);
    for (const auto *entry = all.load(); entry != nullptr; entry = entry->next_) {
        const std::uintptr_t start = entry->start_;
        if (start != 0 && address >= start && address - start < entry->size_) return entry;
    }
    return nullptr;
}

// The last page can be read as far as it goes: behind the file are zeros.
Mapping::Seal Mapping::last_words() const {
    Seal words{};
    const std::size_t end = (size_ + WORD - 1) / WORD;
    const std::size_t count = std::min(SEAL, end);
    // Others change them: they are read each time, after whatever was read before.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const auto *const from =
        reinterpret_cast<const volatile std::uint64_t *>(start_.load()) + (end - count);
    for (std::size_t i = 0; i < count; ++i) words[i] = from[i];
    return words;
}

bool Mapping::is_whole() const {
    if (!cut_.load(std::memory_order_relaxed) && last_words() == seal_) return !cut_.load();
    cut_ = true;
    return false;
}

bool Mapping::put_zeros(std::uintptr_t place) {
#ifndef _WIN32
    const auto *const mapping = of(reinterpret_cast<const void *>(place));
    if (mapping == nullptr) return false;
    mapping->cut_ = true; // before anybody can read a zero
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t from = place / page * page;
    const std::uintptr_t to = mapping->start_ + mapping->size_;
    // mmap() is no function that POSIX lists for handlers; where there is SIGBUS, it is a call of
    // the system and nothing else.
    return mmap(reinterpret_cast<void *>(from), to - from, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
#else
    return place == 0;
#endif
}

bool Mapping::any_is_short() {
#ifndef _WIN32
    // The system reads a name where the last byte of the file is: that fails without a signal.
    for (const auto *entry = all.load(); entry != nullptr; entry = entry->next_) {
        const std::uintptr_t start = entry->start_;
        if (start == 0) continue;
        const auto *const last = reinterpret_cast<const char *>(start + entry->size_ - 1);
        if (access(last, F_OK) != 0 && errno == EFAULT) return true;
    }
#endif
    return false;
}

} // namespace mtkit
