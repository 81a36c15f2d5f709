// Bindings of many texts in one call: conversions, the GIL and threads.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/thread_pool.hpp"
#include "bind/bound_engine.hpp"
#include "bind/text_argument.hpp"

using namespace nb::literals;

namespace {

using Numbers = nb::typed<nb::list, int>;

// Consecutive texts of a batch, and their ids, end to end; null: they are not encoded yet, or
// taken.
struct Share {
    std::size_t from = 0;
    std::size_t to = 0;
    std::size_t bytes = 0;
    std::unique_ptr<mtkit::IdList> ids;
};

// The GIL, released for as long as this lives but for what `hold` runs.
class Unlocked {
  public:
    Unlocked() : state_(PyEval_SaveThread()) {}
    ~Unlocked() { PyEval_RestoreThread(state_); }
    Unlocked(const Unlocked &) = delete;
    Unlocked &operator=(const Unlocked &) = delete;
    template <typename Run> void hold(const Run &run) {
        struct Held {
            PyThreadState *&state;
            ~Held() { state = PyEval_SaveThread(); }
        } const held{state_};
        PyEval_RestoreThread(state_);
        run();
    }

  private:
    PyThreadState *state_;
};

class Batch {
  public:
    Batch(const Texts &texts, bool add_special_tokens, Choice parse_special, std::size_t threads)
        : add_special_tokens_(add_special_tokens), parse_special_(parse_special),
          texts_(arguments_of(texts)), sizes_(texts_.size()) {
        for (const auto &text : texts_) bytes_ += text.bytes();
        // No more than there are processors, and than have enough to do.
        threads_ =
            std::min<std::size_t>({std::max<std::size_t>(threads, 1), bytes_ / LEAST_BYTES + 1,
                                   std::max(1U, std::thread::hardware_concurrency())});
    }

    [[nodiscard]] std::size_t count() const { return sizes_.size(); }
    // Number of ids of a text; nothing where the pipeline has to take it.
    [[nodiscard]] std::optional<std::size_t> size(std::size_t text) const {
        return sizes_[text] == LEFT ? std::nullopt : std::optional(sizes_[text]);
    }
    [[nodiscard]] Numbers left() const {
        Numbers left;
        for (std::size_t i = 0; i < count(); ++i)
            if (!size(i)) left.append(i);
        return left;
    }

    // The ids of all texts, end to end. Called without the GIL, as encode_shares().
    void encode_flat(const mtkit::Engine &core, mtkit::IdList &whole) {
        whole.reserve(bytes_ + count());
        if (threads_ == 1) {
            mtkit::Engine::Encoder encoder(core);
            Utf8Room room;
            encode({0, count(), 0, nullptr}, encoder, room, whole);
            return;
        }
        std::size_t placed = 0; // shares, with the mutex
        const auto place = [&](std::size_t at, std::unique_ptr<mtkit::IdList> ids) {
            std::unique_lock lock(mutex_);
            shares_[at].ids = std::move(ids);
            // Those whose turn it is now, as far as there is room without moving others.
            std::size_t next = placed;
            auto *to = whole.data() + whole.size();
            const auto fits = [&] {
                const auto &share = shares_[placed].ids;
                return share != nullptr && share->size() <= whole.left();
            };
            for (; placed < shares_.size() && fits(); ++placed)
                whole.advance(shares_[placed].ids->size());
            const std::size_t end = placed;
            lock.unlock();
            for (; next < end; ++next) {
                auto &part = shares_[next].ids;
                to = std::copy_n(part->data(), part->size(), to);
                give_back(std::move(part));
            }
        };
        encode_shares(core, place, [](bool) {});
        for (; placed < shares_.size(); ++placed) whole.append(shares_[placed].ids->ids());
    }

    // The ids of all shares: `put(share)` gets them with the GIL, in any order.
    template <typename Put>
    void encode_lists(const mtkit::Engine &core, Unlocked &unlocked, const Put &put) {
        std::vector<std::size_t> ready; // shares, with the mutex
        std::size_t ids_ready = 0;
        const auto keep = [&](std::size_t at, std::unique_ptr<mtkit::IdList> ids) {
            const std::lock_guard lock(mutex_);
            ids_ready += ids->size();
            shares_[at].ids = std::move(ids);
            ready.push_back(at);
        };
        const auto put_ready = [&](bool all) {
            std::vector<std::size_t> now;
            {
                const std::lock_guard lock(mutex_);
                if (all ? ready.empty() : ids_ready < MANY_IDS) return;
                ids_ready = 0;
                now.swap(ready);
            }
            unlocked.hold([&] {
                for (const auto at : now) put(shares_[at]);
            });
            for (const auto at : now) give_back(std::move(shares_[at].ids));
        };
        encode_shares(core, keep, put_ready);
        put_ready(true);
    }

  private:
    // Each thread takes the next share, and gives its ids to `keep`. This one calls `between` after
    // each share, and, with true, when there is no more to take.
    template <typename Keep, typename Between>
    void encode_shares(const mtkit::Engine &core, const Keep &keep, const Between &between) {
        divide();
        std::atomic<std::size_t> next = 0;
        std::exception_ptr error; // with the mutex
        const auto work = [&](const auto &pause) {
            try {
                mtkit::Engine::Encoder encoder(core);
                Utf8Room room;
                for (std::size_t at = next++; at < shares_.size(); at = next++) {
                    auto ids = buffer();
                    encode(shares_[at], encoder, room, *ids);
                    keep(at, std::move(ids));
                    pause(false);
                }
                pause(true);
            } catch (...) {
                next = shares_.size();
                const std::lock_guard lock(mutex_);
                error = std::current_exception();
            }
        };
        mtkit::ThreadPool::run(
            threads_ - 1, [&] { work([](bool) {}); }, [&] { work(between); });
        if (error) std::rethrow_exception(error);
    }

    // Make shares of about as many bytes each.
    void divide() {
        const std::size_t usual = std::clamp(bytes_ / (threads_ * SHARES), LEAST_SHARE, MOST_SHARE);
        Share share;
        for (std::size_t text = 0; text < count(); ++text) {
            share.bytes += texts_[text].bytes();
            share.to = text + 1;
            if (share.bytes < usual && share.to < count()) continue;
            shares_.push_back(std::move(share));
            share = {text + 1, text + 1, 0, nullptr};
        }
    }

    void encode(const Share &share, mtkit::Engine::Encoder &encoder, Utf8Room &room,
                mtkit::IdList &ids) {
        ids.expect(share.bytes);
        for (std::size_t i = share.from; i < share.to; ++i)
            sizes_[i] = encode(texts_[i], encoder, room, ids);
    }
    std::size_t encode(const LaterText &later, mtkit::Engine::Encoder &encoder, Utf8Room &room,
                       mtkit::IdList &ids) const {
        const auto text = later.text(room);
        if (!text) return LEFT;
        const std::size_t before = ids.size();
        const mtkit::EncodeOptions options{add_special_tokens_, as_number(parse_special_),
                                           later.is_str()};
        if (answers([&] { encoder.encode(*text, options, ids); })) return ids.size() - before;
        ids.truncate(before);
        return LEFT;
    }

    // For the ids of a share: memory that was written before, where there is some.
    std::unique_ptr<mtkit::IdList> buffer() {
        const std::lock_guard lock(mutex_);
        if (spare_.empty()) return std::make_unique<mtkit::IdList>();
        auto ids = std::move(spare_.back());
        spare_.pop_back();
        return ids;
    }
    void give_back(std::unique_ptr<mtkit::IdList> ids) {
        ids->truncate(0);
        const std::lock_guard lock(mutex_);
        spare_.push_back(std::move(ids));
    }

    static constexpr std::size_t LEFT = ~std::size_t{0};
    static constexpr std::size_t SHARES = 8; // for each thread, as texts take unlike long
    // Bytes of a share: taking one takes 2 us, and the ids of one stay in the processor.
    static constexpr std::size_t LEAST_SHARE = 24U << 10;
    static constexpr std::size_t MOST_SHARE = 128U << 10;
    static constexpr std::size_t MANY_IDS = 1U << 17; // that are worth taking the GIL
    // For each thread but the first: with less, waking it and learning its words take longer than
    // it saves (200 kB seen before: 0.5 ms on one thread, 1.5 on two).
    static constexpr std::size_t LEAST_BYTES = 256U << 10;
    bool add_special_tokens_;
    Choice parse_special_;
    LaterTexts texts_;
    std::size_t bytes_ = 0; // about
    std::size_t threads_;
    std::vector<std::size_t> sizes_;
    std::vector<Share> shares_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<mtkit::IdList>> spare_; // with the mutex
};

using Lists = nb::typed<nb::tuple, nb::typed<nb::list, Numbers>, Numbers>;
using Arrays = nb::typed<nb::tuple, MemoryView, MemoryView, Numbers>;

Lists encode_batch_ids(BoundEngine &engine, const Texts &texts, bool add_special_tokens,
                       Choice parse_special, std::size_t threads) {
    Batch batch(texts, add_special_tokens, parse_special, threads);
    const auto lists = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(batch.count())));
    if (!lists.is_valid()) nb::raise_python_error();
    PyObject_GC_UnTrack(lists.ptr()); // nobody is to see it before it is full
    const auto put = [&](const Share &share) {
        auto ids = share.ids->ids();
        for (std::size_t i = share.from; i < share.to; ++i) {
            const std::size_t size = batch.size(i).value_or(0);
            set_item(lists.ptr(), static_cast<Py_ssize_t>(i),
                     engine.to_list(ids.first(size)).release().ptr());
            ids = ids.subspan(size);
        }
    };
    {
        Unlocked unlocked;
        engine.use([&](const mtkit::Engine &core) { batch.encode_lists(core, unlocked, put); });
    }
    PyObject_GC_Track(lists.ptr());
    return Lists(nb::make_tuple(lists, batch.left()));
}

Arrays encode_batch_arrays(const BoundEngine &engine, const Texts &texts, bool add_special_tokens,
                           Choice parse_special, std::size_t threads) {
    Batch batch(texts, add_special_tokens, parse_special, threads);
    mtkit::IdList ids;
    engine.use([&](const mtkit::Engine &core) { unlocked([&] { batch.encode_flat(core, ids); }); });
    const auto rows = Column::view(batch.count() + 1, [&](std::int64_t *row) {
        *row = 0;
        for (std::size_t i = 0; i < batch.count(); ++i, ++row)
            row[1] = row[0] + static_cast<std::int64_t>(batch.size(i).value_or(0));
    });
    return Arrays(nb::make_tuple(Column::view(ids), rows, batch.left()));
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
