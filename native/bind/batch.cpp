// Bindings of many texts in one call: conversions, the GIL and threads.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "bind/bound_engine.hpp"
#include "bind/text_argument.hpp"

using namespace nb::literals;

namespace {

using Numbers = nb::typed<nb::list, int>;

// Consecutive texts of a batch, whose ids lie behind each other.
struct Share {
    std::size_t from = 0;
    std::size_t to = 0;
    mtkit::IdList ids;
    std::exception_ptr error;
};

class Batch {
  public:
    // Encode at once.
    Batch(const BoundEngine &engine, const Texts &texts, bool add_special_tokens,
          Choice parse_special, std::size_t threads)
        : add_special_tokens_(add_special_tokens), parse_special_(parse_special),
          texts_(arguments_of(texts)), sizes_(texts_.size()) {
        for (const auto &text : texts_)
            if (text) bytes_ += text->text().size();
        engine.use([&](const mtkit::Engine &core) { run(core, threads); });
    }

    [[nodiscard]] std::vector<Share> &shares() { return shares_; }
    // Number of ids of a text; nothing where the pipeline has to take it.
    [[nodiscard]] std::optional<std::size_t> size(std::size_t text) const {
        return sizes_[text] == LEFT ? std::nullopt : std::optional(sizes_[text]);
    }
    [[nodiscard]] std::size_t count() const { return sizes_.size(); }

  private:
    // Encode, the GIL released; `threads` at most, this one among them: no more than there are
    // processors, and than have enough to do.
    void run(const mtkit::Engine &core, std::size_t threads) {
        threads = std::min<std::size_t>(threads, std::max(1U, std::thread::hardware_concurrency()));
        divide(threads > 1 ? threads * SHARES : 1);
        threads = std::min({threads, shares_.size(), bytes_ / LEAST_BYTES + 1});
        const nb::gil_scoped_release unlocked;
        std::atomic<std::size_t> next = 0;
        const auto work = [&] {
            for (std::size_t at = next++; at < shares_.size(); at = next++)
                encode(core, shares_[at]);
        };
        std::vector<std::thread> others;
        try {
            while (others.size() + 1 < threads) others.emplace_back(work);
        } catch (const std::system_error &) { // as many as the system gives
        }
        work();
        for (auto &other : others) other.join();
        for (const auto &share : shares_)
            if (share.error) std::rethrow_exception(share.error);
    }

    // Make shares of about as many bytes each.
    void divide(std::size_t count) {
        shares_ = std::vector<Share>(std::max<std::size_t>(1, std::min(count, texts_.size())));
        std::size_t text = 0;
        std::size_t seen = 0;
        for (std::size_t i = 0; i < shares_.size(); ++i) {
            shares_[i].from = text;
            const std::size_t end = bytes_ / shares_.size() * (i + 1);
            while (text < texts_.size() && (seen < end || i + 1 == shares_.size())) {
                if (texts_[text]) seen += texts_[text]->text().size();
                ++text;
            }
            shares_[i].to = text;
        }
    }

    void encode(const mtkit::Engine &core, Share &share) noexcept {
        try {
            mtkit::Engine::Encoder encoder(core);
            for (std::size_t i = share.from; i < share.to; ++i)
                sizes_[i] = texts_[i] ? encode(encoder, *texts_[i], share.ids) : LEFT;
        } catch (...) {
            share.error = std::current_exception();
        }
    }

    std::size_t encode(mtkit::Engine::Encoder &encoder, const TextArgument &text,
                       mtkit::IdList &ids) const {
        const std::size_t before = ids.size();
        const auto options = text.options(add_special_tokens_, parse_special_);
        if (answers([&] { encoder.encode(text.text(), options, ids); })) return ids.size() - before;
        ids.truncate(before);
        return LEFT;
    }

    static constexpr std::size_t LEFT = ~std::size_t{0};
    static constexpr std::size_t SHARES = 8; // for each thread, as texts take unlike long
    // For each thread but the first: starting it takes as long.
    static constexpr std::size_t LEAST_BYTES = 64U << 10;
    bool add_special_tokens_;
    Choice parse_special_;
    TextArguments texts_;
    std::size_t bytes_ = 0;
    std::vector<std::size_t> sizes_;
    std::vector<Share> shares_;
};

using Lists = nb::typed<nb::tuple, nb::typed<nb::list, Numbers>, Numbers>;
using Arrays = nb::typed<nb::tuple, MemoryView, MemoryView, Numbers>;

Numbers left_of(const Batch &batch) {
    Numbers left;
    for (std::size_t i = 0; i < batch.count(); ++i)
        if (!batch.size(i)) left.append(i);
    return left;
}

Lists encode_batch_ids(BoundEngine &engine, const Texts &texts, bool add_special_tokens,
                       Choice parse_special, std::size_t threads) {
    Batch batch(engine, texts, add_special_tokens, parse_special, threads);
    const auto lists = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(batch.count())));
    for (const auto &share : batch.shares()) {
        auto ids = share.ids.ids();
        for (std::size_t i = share.from; i < share.to; ++i) {
            const std::size_t size = batch.size(i).value_or(0);
            set_item(lists.ptr(), static_cast<Py_ssize_t>(i),
                     engine.to_list(ids.first(size)).release().ptr());
            ids = ids.subspan(size);
        }
    }
    return Lists(nb::make_tuple(lists, left_of(batch)));
}

Arrays encode_batch_arrays(BoundEngine &engine, const Texts &texts, bool add_special_tokens,
                           Choice parse_special, std::size_t threads) {
    Batch batch(engine, texts, add_special_tokens, parse_special, threads);
    auto &whole = batch.shares().front().ids;
    for (std::size_t i = 1; i < batch.shares().size(); ++i) {
        auto &part = batch.shares()[i].ids;
        whole.append(part.ids());
        part.clear();
    }
    const auto rows = Column::view(batch.count() + 1, [&](std::int64_t *row) {
        *row = 0;
        for (std::size_t i = 0; i < batch.count(); ++i, ++row)
            row[1] = row[0] + static_cast<std::int64_t>(batch.size(i).value_or(0));
    });
    return Arrays(nb::make_tuple(Column::view(whole), rows, left_of(batch)));
}

} // namespace

void bind_batch(nb::class_<BoundEngine> &engine) {
    engine
        .def("encode_batch_ids", &encode_batch_ids, "texts"_a, "add_special_tokens"_a,
             "parse_special"_a.none(), "threads"_a,
             "The ids of each text, and which are left to the pipeline: theirs are empty.")
        .def("encode_batch_arrays", &encode_batch_arrays, "texts"_a, "add_special_tokens"_a,
             "parse_special"_a.none(), "threads"_a,
             "The ids of all texts (int32), where each row starts and the last ends (int64), and"
             " which texts are left to the pipeline: their rows are empty.");
}
