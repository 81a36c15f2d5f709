#include "encode/chunk_out.hpp"
#include "encode/chunked.hpp"
#include "encode/scratch_lease.hpp"
#include "encode/walk.hpp"
#include "text/alphabet.hpp"
#include "text/made_valid.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

Frame read_frame(Reader &program, const char *field) {
    const bool works = read_flag(program, field);
    auto ids = read_numbers(program, field);
    return works ? Frame(std::move(ids)) : std::nullopt;
}

} // namespace

Engine::~Engine() {
    delete spare_.load();
}

Engine::Engine(Tables tables, std::size_t cache_bytes, bool know_words)
    : tables_(std::move(tables)), cache_bytes_(cache_bytes) {
    Reader program(tables_.copy("PROG"));
    const auto version = program.scalar<std::uint32_t>("version");
    if (version != PROGRAM_VERSION)
        throw FormatError("is " + std::to_string(version) + ", this core takes " +
                              std::to_string(PROGRAM_VERSION),
                          "version");
    const auto invalid = program.scalar<std::uint8_t>("invalid_utf8");
    if (invalid > static_cast<std::uint8_t>(InvalidUtf8::WIDE))
        throw FormatError("is " + std::to_string(invalid), "invalid_utf8");
    invalid_utf8_ = static_cast<InvalidUtf8>(invalid);
    vocabulary_.raw = read_flag(program, "raw");
    cacheable_ = read_flag(program, "cacheable");
    vocabulary_.words = WordTable(tables_);
    vocabulary_.pieces = vocabulary_.words.pieces();
    vocabulary_.types = tables_.numbers<std::uint8_t>("KIND");
    vocabulary_.own_words = tables_.numbers<std::uint8_t>("OWNW");
    if (vocabulary_.own_words.size() > vocabulary_.pieces.size() / 8 + 1)
        throw FormatError("has more bits than there are pieces", "OWNW");
    added_ = std::make_unique<AddedTokens>(program);
    normalizer_ = make_normalizer(program, tables_);
    pre_tokenizer_ = make_pre_tokenizer(program, tables_);
    needs_extents_ = pre_tokenizer_ && pre_tokenizer_->needs_extents();
    breaks_characters_ = normalizer_ && normalizer_->may_break_characters();
    if (pre_tokenizer_) pattern_split_ = pre_tokenizer_->pattern_split();
    if (pattern_split_.pattern != nullptr)
        word_starts_ = word_starts(pattern_split_.pattern->family());
    model_ = make_model(program, tables_, vocabulary_);
    merges_bytes_ = model_->merges_bytes();
    looks_words_up_ = model_->looks_words_up();
    is_cut_ = model_->is_cut();
    in_chunks_ = cacheable_ && !vocabulary_.raw && !added_->late() &&
                 pattern_split_.pattern == nullptr && !needs_extents_;
    prefix_ = read_numbers(program, "prefix_ids");
    special_ = read_frame(program, "special");
    plain_ = read_frame(program, "plain");
    if (!program.at_end()) throw FormatError("has bytes behind its end", "PROG", program.offset());
    if (know_words) learn_vocabulary();
}

std::size_t Engine::cached_bytes() const {
    ScratchLease lease(*this);
    const std::lock_guard lock(process_mutex<Engine>());
    return (*lease).cached() + pooled_;
}

bool Engine::Ids::take_part(const Part &part) {
    if (part.extents != nullptr) return false;
    const auto *how = engine_.find_chunks(part.text.size(), scratch_);
    return how != nullptr &&
           Chunked(*how, scratch_, ChunkOut<false>(engine_, *how, scratch_, out_, out_))
               .run(part, 0);
}

void Engine::encode(std::string_view text, const EncodeOptions &options, IdList &out) const {
    ScratchLease lease(*this);
    encode(text, options, *lease, out);
}

Engine::Encoder::Encoder(const Engine &engine)
    : engine_(engine), lease_(std::make_unique<ScratchLease>(engine)) {}

Engine::Encoder::~Encoder() = default;

void Engine::Encoder::encode(std::string_view text, const EncodeOptions &options, IdList &out) {
    Scratch &scratch = **lease_;
    scratch.arena.reset();
    engine_.encode(text, options, scratch, out);
}

void Engine::encode(std::string_view text, const EncodeOptions &options, Scratch &scratch,
                    IdList &out) const {
    scratch.model.places = false;
    const Frame &frame = options.add_special_tokens ? special_ : plain_;
    if (!frame) throw Deferred();
    constexpr std::size_t NOWHERE = ~std::size_t{0};
    std::size_t start = NOWHERE;
    std::size_t size = 0;
    for (const auto id : *frame) {
        if (id != NONE) {
            out.push_back(id);
        } else if (start == NOWHERE) {
            start = out.size();
            one_text(text, options, scratch, out);
            size = out.size() - start;
        } else {
            out.repeat(start, size);
        }
    }
    if (start == NOWHERE) { // it can fail for all that
        IdList unused;
        one_text(text, options, scratch, unused);
    }
}

// What `make` gives takes the words of a text; where they have to be taken once more, with extents,
// `undo` is called before.
template <typename Make, typename Undo>
void Engine::walk_text(std::string_view text, const EncodeOptions &options, Scratch &scratch,
                       const Make &make, const Undo &undo) const {
    const auto [valid, surrogates] = checked(text, options.valid, scratch);
    if (!needs_extents_) {
        try {
            const Part whole{valid, nullptr, {0, 0}, true, true};
            walk(whole, options.parse_special, scratch, make());
            return;
        } catch (const NeedsExtents &) {
            if (!aligns()) throw Deferred();
            undo();
            scratch.arena.begin(valid.size());
        }
    }
    const Part whole = own_part(valid, false, 0, true, scratch.arena);
    walk(whole, options.parse_special, scratch, make());
}

// The ids of a text with nothing around it.
void Engine::one_text(std::string_view text, const EncodeOptions &options, Scratch &scratch,
                      IdList &out) const {
    out.expect(text.size());
    out.append(prefix_);
    const std::size_t before = out.size();
    walk_text(
        text, options, scratch, [&] { return Ids(*this, scratch, out); },
        [&] { out.truncate(before); });
}

Engine::Checked Engine::checked(std::string_view text, bool known, Scratch &scratch) const {
    const std::size_t good = known ? text.size() : valid_prefix(text);
    Loose found{.bytes = good < text.size()};
    auto valid = text;
    if (found.bytes && invalid_utf8_ != InvalidUtf8::KEEP) {
        if (invalid_utf8_ == InvalidUtf8::ERROR) throw InvalidText(text, good);
        const bool beyond = invalid_utf8_ == InvalidUtf8::WIDE;
        found = invalid_utf8_ == InvalidUtf8::REPLACE
                    ? replace_invalid(text, good, scratch.valid)
                    : read_loosely(text, good, beyond, scratch.valid);
        valid = scratch.valid;
    }
    if (valid.size() > 0x7FFFFFFF) throw UsageError("the text is longer than 2 GiB");
    scratch.arena.begin(valid.size());
    // A broken character could reach over a cut.
    scratch.model.whole_characters = !found.bytes && !breaks_characters_;
    return {valid, SurrogatesAsCharacters(found.surrogates)};
}

std::vector<std::uint8_t> Engine::own_words() const {
    // Bytes. The table is stored in .mtok files: another number needs another PROGRAM_VERSION.
    constexpr std::size_t LONGEST = 255;
    if (!merges_bytes_) return {};
    ScratchLease lease(*this);
    Scratch &scratch = *lease;
    std::vector<std::uint8_t> bits((vocabulary_.pieces.size() + 7) / 8);
    for (std::uint32_t id = 0; id < vocabulary_.pieces.size(); ++id) {
        const auto piece = vocabulary_.pieces[id];
        if (piece.size() > LONGEST || vocabulary_.words.find(piece) != id) continue;
        scratch.tokens.clear();
        encode_word(piece, {.part = true}, scratch);
        if (scratch.tokens.size() == 1 && scratch.tokens[0].id == id)
            bits[id / 8] |= static_cast<std::uint8_t>(1U << (id % 8));
    }
    return bits;
}

void Engine::encode_word(std::string_view word, const Asked &asked, Scratch &scratch) const {
    scratch.model.asked = asked;
    try {
        model_->encode(word, scratch.model, scratch.tokens);
    } catch (const NoToken &error) {
        if (!vocabulary_.raw) throw;
        std::string letters;
        for (const char c : error.text)
            append(letters, ALPHABET.letter[static_cast<unsigned char>(c)]);
        throw NoToken(letters);
    }
}

} // namespace mtkit
