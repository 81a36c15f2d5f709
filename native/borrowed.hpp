// How a call of the engine comes by its working memory.
#pragma once

#include "engine.hpp"

namespace mtkit {

// Working memory for one call: from the pool, and back to it unless that is full.
class Engine::Borrowed {
  public:
    explicit Borrowed(const Engine &engine) : engine_(engine) {
        {
            const std::lock_guard lock(engine.mutex_);
            if (!engine.pool_.empty()) {
                scratch_ = std::move(engine.pool_.back());
                engine.pool_.pop_back();
            }
        }
        if (!scratch_) scratch_ = std::make_unique<Scratch>();
    }
    ~Borrowed() {
        scratch_->arena.reset();
        const std::lock_guard lock(engine_.mutex_);
        if (engine_.pool_.size() < POOL) engine_.pool_.push_back(std::move(scratch_));
    }
    Borrowed(const Borrowed &) = delete;
    Borrowed &operator=(const Borrowed &) = delete;
    Scratch &operator*() { return *scratch_; }

  private:
    const Engine &engine_;
    std::unique_ptr<Scratch> scratch_;
};

} // namespace mtkit
