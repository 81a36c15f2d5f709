// Words that a corpus has most often, with their ids, as the cache has them: a file carries them in
// the table SEED, and its first text finds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "encode/engine.hpp"

namespace mtkit {

class SeedCounter {
  public:
    // Words are counted as an engine cuts them that has seen much text.
    explicit SeedCounter(const Engine &engine) : engine_(engine) { engine.warm(); }

    // Count the short words of a text.
    void add(std::string_view text);

    // The words that came most often, more than once.
    [[nodiscard]] WordCache most_frequent() const;

  private:
    static constexpr std::size_t MOST_COUNTED = 1U << 20;
    static constexpr std::size_t MOST_KEPT = 48U << 10;
    static constexpr std::size_t TABLE_BYTES = 4U << 20; // half of it is the table of short words

    void forget_the_rare();

    const Engine &engine_;
    // A word, and behind it whether it is a part of one.
    std::unordered_map<std::string, std::uint32_t> counts_;
    std::string key_;
};

} // namespace mtkit
