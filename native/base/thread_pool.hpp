// Threads that help with work: one set for the process, made when first wanted. They wait between
// calls and end with the process; a child that was forked makes its own.
//
// A thread that helps may begin late or not at all, as where all processors are busy: nobody waits
// for one that has not begun, so that work with help takes no longer than without.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <vector>

#include "base/function_ref.hpp"

namespace mtkit {

class ThreadPool {
  public:
    // Call `own`, and on up to `others` threads `help`, which does not throw; returns when all have
    // ended that began.
    static void run(std::size_t others, const FunctionRef<> &help, const FunctionRef<> &own);

  private:
    struct Job {
        const FunctionRef<> &help;
        std::size_t open;                  // threads that may still begin
        std::atomic<std::size_t> busy = 0; // those that have begun
        std::condition_variable done;
    };

    static ThreadPool &of_process();
    void add(Job &job);
    void end(Job &job);
    void wait_for_jobs();

    std::mutex mutex_;
    std::condition_variable wake_;
    std::vector<Job *> jobs_; // that threads may begin with
    std::size_t threads_ = 0;
    std::size_t idle_ = 0;
};

} // namespace mtkit
