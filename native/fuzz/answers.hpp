// What an engine answers, an error included: two engines of the same tables must agree on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/errors.hpp"
#include "decode/decoder.hpp"
#include "encode/engine.hpp"

namespace mtkit::fuzz {

using Answer = std::optional<std::vector<std::uint32_t>>;

// Run something; whether it ended without one of the core's own errors. Others end the process.
template <typename Run> bool answers(const Run &run) {
    try {
        run();
        return true;
    } catch (const FormatError &) {
    } catch (const UsageError &) {
    } catch (const UnsupportedError &) {
    } catch (const ResourceError &) {
    } catch (const InvalidText &) {
    } catch (const NoToken &) {
    } catch (const Deferred &) {
    }
    return false;
}

inline Answer ids_of(const Engine &engine, std::string_view text, const EncodeOptions &options) {
    IdList ids;
    if (!answers([&] { engine.encode(text, options, ids); })) return std::nullopt;
    return std::vector(ids.ids().begin(), ids.ids().end());
}

// Ids, and start and end of each, in characters.
struct Placed {
    std::vector<std::uint32_t> ids;
    std::vector<std::uint32_t> places;
    bool operator==(const Placed &) const = default;
};

inline std::optional<Placed> tokens_of(const Engine &engine, std::string_view text,
                                       const EncodeOptions &options) {
    Tokens tokens;
    if (!answers([&] { engine.encode_tokens(text, options, tokens); })) return std::nullopt;
    Placed found{tokens.ids, {}};
    for (const auto &[start, end] : tokens.offsets)
        found.places.insert(found.places.end(), {start, end});
    return found;
}

inline std::optional<Placed> places_of(const Engine &engine, std::string_view text,
                                       const EncodeOptions &options) {
    IdList ids;
    IdList places;
    if (!answers([&] { engine.encode_offsets(text, options, ids, places); })) return std::nullopt;
    return Placed{{ids.ids().begin(), ids.ids().end()}, {places.ids().begin(), places.ids().end()}};
}

} // namespace mtkit::fuzz
