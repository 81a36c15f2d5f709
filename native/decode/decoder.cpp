#include "decode/decoder.hpp"

#include <algorithm>

#include "base/reader.hpp"
#include "text/alphabet.hpp"
#include "text/sets.hpp"
#include "text/utf8.hpp"

namespace mtkit {

namespace {

constexpr auto HIDDEN = static_cast<std::uint8_t>(IdFlag::HIDDEN);
constexpr auto ABSENT = static_cast<std::uint8_t>(IdFlag::ABSENT);
constexpr auto BYTE = static_cast<std::uint8_t>(IdFlag::BYTE);
constexpr auto PLAIN = static_cast<std::uint8_t>(IdFlag::PLAIN);

} // namespace

Decoder::Decoder(Tables tables) : tables_(std::move(tables)) {
    Reader program(tables_.copy("DECO"));
    const auto version = program.scalar<std::uint32_t>("decoder.version");
    if (version != DECODER_VERSION)
        throw FormatError("is " + std::to_string(version) + ", this core takes " +
                              std::to_string(DECODER_VERSION),
                          "decoder.version");
    vocab_size_ = program.scalar<std::uint32_t>("vocab_size");
    const auto family = program.scalar<std::uint8_t>("family");
    const auto spelling = program.scalar<std::uint8_t>("spelling");
    if (family > 3) throw FormatError("is " + std::to_string(family), "family");
    if (spelling > 5) throw FormatError("is " + std::to_string(spelling), "spelling");
    family_ = static_cast<Family>(family);
    spelling_ = static_cast<Spelling>(spelling);
    known_ = read_flag(program, "known");
    unknown_ = read_text(program, "unknown");
    const auto drops = program.scalar<std::uint8_t>("drop_marks");
    drops_ = drops != 0;
    drops_all_ = drops == 2;
    normalizer_ = make_normalizer(program, tables_);
    bos_ = read_id(program, "bos");
    pieces_ = {tables_, "PCSB", "PCSE"};
    listed_ = read_numbers(program, "listed");
    ends_ = read_numbers(program, "listed.ends");
    flags_ = read_text(program, "listed.flags");
    texts_ = PieceTable(read_text(program, "listed.texts"), ends_);
    if (ends_.size() != listed_.size() || flags_.size() != listed_.size())
        throw FormatError("differ in number", "listed");
    if (!std::is_sorted(listed_.begin(), listed_.end()))
        throw FormatError("is not ascending", "listed");
    marked_.resize(pieces_.size());
    for (const auto id : listed_)
        if (id < marked_.size()) marked_[id] = true;
    const auto count = program.count(program.scalar<std::uint32_t>("steps"), 1, "steps");
    for (std::size_t i = 0; i < count; ++i) steps_.push_back(make_decode_step(program, tables_));
    if (!program.at_end()) throw FormatError("has bytes behind its end", "DECO", program.offset());
    std::size_t at = 0;
    const auto next_is = [&](DecodeStep::Kind kind) {
        return at < steps_.size() && steps_[at]->kind() == kind && ++at > 0;
    };
    if (next_is(DecodeStep::Kind::ALONE)) alone_ = steps_[0].get();
    byte_runs_ = next_is(DecodeStep::Kind::BYTE_RUNS);
    if (next_is(DecodeStep::Kind::JOIN) && family_ != Family::ROLES) joined_ = at;
}

// What stands for an id: its entry in the list, else its piece.
inline Decoder::Found Decoder::find(std::uint32_t id) const {
    if (id < marked_.size() && !marked_[id]) [[likely]]
        return {pieces_[id], 0, false};
    return find_listed(id);
}
Decoder::Found Decoder::find_listed(std::uint32_t id) const {
    const auto at = std::lower_bound(listed_.begin(), listed_.end(), id);
    if (at != listed_.end() && *at == id) {
        const auto place = static_cast<std::size_t>(at - listed_.begin());
        return {texts_[place], static_cast<std::uint8_t>(flags_[place]), true};
    }
    if (known_) return {unknown_, 0, true};
    return {{}, ABSENT, true};
}

void Decoder::spell(std::string_view piece, std::string &out) const {
    switch (spelling_) {
    case Spelling::AS_IS:
        out += piece;
        return;
    case Spelling::BYTES:
        for (std::size_t at = 0; at < piece.size();) {
            const auto c = mtkit::decode(piece, at);
            const int byte = ALPHABET.byte_of(c.value);
            if (byte < 0) throw Deferred();
            out.push_back(static_cast<char>(byte));
            at += c.size;
        }
        return;
    case Spelling::LETTERS:
        for (const char c : piece) append(out, ALPHABET.letter[static_cast<unsigned char>(c)]);
        return;
    case Spelling::WORDS:
        if (piece.starts_with("##")) {
            piece.remove_prefix(2);
        } else {
            const bool bracketed = piece.starts_with('[') && piece.ends_with(']');
            if (!piece.starts_with(MARK) && !bracketed) out.push_back(' ');
        }
        break;
    case Spelling::MARKS:
        break;
    }
    append_replaced(piece, MARK, " ", out);
}

void Decoder::gather(std::span<const std::uint32_t> ids, bool skip, bool joined,
                     TokenTexts &out) const {
    const bool stays = family_ == Family::ROLES; // a token that is not shown is still one
    for (const auto id : ids) {
        const Found found = find(id);
        const bool absent = (found.flags & ABSENT) != 0;
        const bool hidden = absent || (skip && (found.flags & HIDDEN) != 0);
        if (hidden && !stays) continue;
        if (!hidden) {
            if (found.listed || spelling_ == Spelling::AS_IS)
                out.text += found.text;
            else
                spell(found.text, out.text);
        }
        if (!joined) out.close();
    }
}

// What gather() and the steps that end in one token of all make, in one go.
void Decoder::join(std::span<const std::uint32_t> ids, bool skip, bool lossy,
                   TokenTexts &texts) const {
    auto &out = texts.text;
    std::size_t run = 0; // bytes of byte tokens, which are the last
    const auto end_run = [&] {
        const std::size_t start = out.size() - run;
        if (lossy && valid_prefix(std::string_view(out).substr(start)) != run) {
            out.resize(start);
            for (; run > 0; --run) out += REPLACEMENT;
        }
        run = 0;
    };
    std::string spelled;
    for (const auto id : ids) {
        const Found found = find(id);
        if ((found.flags & ABSENT) != 0 || (skip && (found.flags & HIDDEN) != 0)) continue;
        std::string_view token = found.text;
        if (!found.listed && spelling_ != Spelling::AS_IS) {
            spelled.clear();
            spell(token, spelled);
            token = spelled;
        }
        texts.given += token.size() + 1;
        const int byte = byte_runs_ ? named_byte(token, true) : -1;
        if (byte >= 0) {
            out.push_back(static_cast<char>(byte));
            ++run;
            continue;
        }
        if (run > 0) end_run();
        if (alone_ == nullptr) {
            out += token;
            continue;
        }
        alone_->append(token, out);
        // So much may still become right by what follows; the pipeline knows all of it.
        if (out.size() > texts.most()) throw Deferred();
    }
    if (run > 0) end_run();
}

void Decoder::decode(std::span<const std::uint32_t> ids, bool skip, bool lossy,
                     std::string &out) const {
    if (family_ == Family::SUBWORDS) {
        subwords(ids, out);
        return;
    }
    if (family_ == Family::AFTER_BOS) {
        after_bos(ids, skip, out);
        return;
    }
    TokenTexts tokens;
    TokenTexts changed;
    tokens.text.reserve(4 * ids.size());
    if (joined_ > 0) {
        join(ids, skip, lossy, tokens);
        tokens.close();
    } else {
        if (!steps_.empty()) tokens.ends.reserve(ids.size());
        gather(ids, skip, steps_.empty(), tokens);
        tokens.given = tokens.text.size() + tokens.ends.size();
    }
    changed.given = tokens.given;
    for (std::size_t at = joined_; at < steps_.size(); ++at) {
        changed.clear();
        steps_[at]->run(tokens, lossy, changed);
        changed.require(changed.text.size());
        std::swap(tokens, changed);
    }
    out = std::move(tokens.text);
}

// google/sentencepiece, Decode.
void Decoder::subwords(std::span<const std::uint32_t> ids, std::string &out) const {
    std::string waiting;
    bool drops = drops_;
    bool seen_mark = false;
    for (const auto id : ids) {
        if (id >= pieces_.size()) throw Deferred(); // the pipeline says what is wrong
        const Found found = find(id);
        if ((found.flags & BYTE) != 0) {
            waiting += found.text;
            continue;
        }
        if (!waiting.empty()) spell_byte_run(waiting, out);
        waiting.clear();
        drops = drops && out.empty() && !seen_mark;
        if ((found.flags & PLAIN) != 0) {
            out += found.text;
            continue;
        }
        std::string_view piece = found.text;
        if (drops && piece.starts_with(MARK)) {
            piece.remove_prefix(MARK.size());
            seen_mark = !drops_all_;
        }
        append_replaced(piece, MARK, " ", out);
    }
    spell_byte_run(waiting, out);
    if (!normalizer_ || out.empty()) return;
    Arena arena;
    Part part{out, nullptr, {0, 0}, true, true};
    normalizer_->run(part, arena);
    out = std::string(part.text);
}

// karpathy/llama2.c, decode.
void Decoder::after_bos(std::span<const std::uint32_t> ids, bool skip, std::string &out) const {
    std::uint32_t previous = NONE;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto id = ids[i];
        if (id >= pieces_.size()) throw Deferred();
        const Found found = find(id);
        const bool hidden = skip && (found.flags & HIDDEN) != 0;
        if (!hidden && !(i == 0 && id == bos_)) {
            std::string_view piece = found.text;
            if (previous != NONE && previous == bos_ && piece.starts_with(' '))
                piece.remove_prefix(1);
            scan_byte(piece, out);
        }
        previous = id;
    }
}

} // namespace mtkit
