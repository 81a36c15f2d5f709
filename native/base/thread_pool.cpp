#include "base/thread_pool.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace mtkit {

namespace {

std::atomic<ThreadPool *> pool = nullptr;

} // namespace

// Never destroyed, as its threads run until the process ends. What a fork copies of it has no
// threads, and perhaps a mutex that is locked.
ThreadPool &ThreadPool::of_process() {
#if !defined(_WIN32)
    static const int registered = pthread_atfork(nullptr, nullptr, [] { pool = nullptr; });
    static_cast<void>(registered);
#endif
    auto *current = pool.load();
    if (current != nullptr) return *current;
    auto *const made = new ThreadPool;
    if (pool.compare_exchange_strong(current, made)) return *made;
    delete made;
    return *current;
}

void ThreadPool::run(std::size_t others, const FunctionRef<> &help, const FunctionRef<> &own) {
    if (others == 0) return own();
    struct Help { // ends, too, where `own` throws
        ThreadPool &pool;
        Job job;
        Help(std::size_t others, const FunctionRef<> &help)
            : pool(of_process()), job{help, others, {}, {}} {
            pool.add(job);
        }
        ~Help() { pool.end(job); }
    } const helping(others, help);
    own();
}

void ThreadPool::add(Job &job) {
    const std::size_t most = std::max(1U, std::thread::hardware_concurrency());
    const std::lock_guard lock(mutex_);
    jobs_.push_back(&job);
    const std::size_t woken = std::min(job.open, idle_);
    for (std::size_t i = 0; i < woken; ++i) wake_.notify_one();
    try {
        for (std::size_t i = woken; i < job.open && threads_ < most; ++i) {
            std::thread([this] { wait_for_jobs(); }).detach();
            ++threads_;
        }
    } catch (const std::system_error &) { // as many as the system gives
    }
}

void ThreadPool::end(Job &job) {
    std::unique_lock lock(mutex_);
    std::erase(jobs_, &job);
    lock.unlock();
    // Most have all but ended, and sleeping takes longer than what is left to do.
    const auto sleep = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
    while (job.busy != 0 && std::chrono::steady_clock::now() < sleep) {
    }
    lock.lock(); // a thread that has ended leaves the job before it unlocks
    job.done.wait(lock, [&] { return job.busy == 0; });
}

void ThreadPool::wait_for_jobs() {
    std::unique_lock lock(mutex_);
    while (true) {
        ++idle_;
        wake_.wait(lock, [&] { return !jobs_.empty(); });
        --idle_;
        Job &job = *jobs_.back();
        ++job.busy;
        if (--job.open == 0) jobs_.pop_back();
        lock.unlock();
        job.help();
        lock.lock();
        if (--job.busy == 0) job.done.notify_one();
    }
}

} // namespace mtkit
