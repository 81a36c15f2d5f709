// How merges make a token: the model run on its spelling, as the tokenizer runs it on a word.

const BYTE = 0xdc00;  // a byte that is not valid UTF-8 is a unit of its own

/** Undo the escapes of a spelling. */
function unescaped(text) {
  if (!text.includes("\\")) return text;
  return text.replace(
    /\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))/g,
    (_, byte, short, long, letter) => {
      if (byte) {
        const code = parseInt(byte, 16);
        return String.fromCharCode(code < 0x80 ? code : BYTE + code);
      }
      if (short || long) return String.fromCodePoint(parseInt(short ?? long, 16));
      return {n: "\n", r: "\r", t: "\t"}[letter] ?? letter;
    },
  );
}

class Merges {
  /** @param spelled Texts: how the vocabulary spells its tokens */
  constructor(model, spelled) {
    this.model = model;
    this.spelled = spelled;
  }

  /** Unpack what is needed, at the first question. */
  async ready() {
    this.made ??= this.prepare();
    return this.made;
  }

  async prepare() {
    const {model, spelled} = this;
    const unlisted = model.unlisted ? await textsOf(model.unlisted) : null;
    this.size = model.size;
    this.parts = this.size + (unlisted?.count ?? 0);
    this.ids = new Map();
    this.same = new Uint32Array(this.parts);
    const roles = model.roles ? await numbersOf(model.roles) : null;
    this.whole = new Set();
    this.longest = 0;
    const hidden = new Set(model.hidden);
    for (let id = 0; id < this.parts; id += 1) {
      const text = unescaped(id < this.size ? spelled.get(id) : unlisted.get(id - this.size));
      const open = id >= this.size || (!hidden.has(id) && (!roles || roles[id]));
      if (open && !this.ids.has(text)) this.ids.set(text, id);
      if (roles && roles[id] === 2) {
        this.whole.add(text);
        this.longest = Math.max(this.longest, text.length);
      }
      this.same[id] = this.ids.get(text) ?? id;
    }
    if (model.pairs) this.pairs = await numbersOf(model.pairs);
    if (model.scores) this.scores = await numbersOf(model.scores);
  }

  /** The symbols that are left, each a tree {text, id, rank, left, right}, and merges in order. */
  run(text) {
    const rank = {pairs: this.byPairs, ranks: this.byRanks, scores: this.byScores}[this.model.kind]
      .call(this, text);
    const symbols = this.start(text).map((unit) => {
      const id = this.idOf(unit);
      return {text: unit, id, fixed: this.whole.has(unit) || (this.model.before && id === null)};
    });
    const steps = [];
    for (;;) {
      let best = null, place = -1;
      for (let at = 0; at + 1 < symbols.length; at += 1) {
        const one = symbols[at], other = symbols[at + 1];
        if (one.fixed || other.fixed) continue;
        const found = rank(one, other);
        if (found !== null && (best === null || found < best)) [best, place] = [found, at];
      }
      if (best === null) return {symbols, steps};
      const [left, right] = symbols.slice(place, place + 2);
      const joined = left.text + right.text;
      const made = {text: joined, id: this.idOf(joined), rank: best, left, right};
      symbols.splice(place, 2, made);
      steps.push(made);
    }
  }

  idOf(text) {
    return this.ids.get(text) ?? null;
  }

  start(text) {
    if (!this.whole.size) return [...text];
    const units = [];
    for (let at = 0; at < text.length;) {
      let end = Math.min(at + this.longest, text.length);
      while (end > at && !this.whole.has(text.slice(at, end))) end -= 1;
      if (end === at) end += text.codePointAt(at) > 0xffff ? 2 : 1;
      units.push(text.slice(at, end));
      at = end;
    }
    return units;
  }

  /** Of all pairs keep those whose halves stand in the text: one look at the list. */
  byPairs(text) {
    const inside = new Uint8Array(this.parts);
    const units = [...text];
    for (let from = 0; from < units.length; from += 1) {
      for (let to = from + 1, part = ""; to <= units.length; to += 1) {
        part += units[to - 1];
        const id = this.ids.get(part);
        if (id !== undefined) inside[id] = 1;
      }
    }
    const found = new Map(), {pairs, same} = this, first = this.model.first;
    for (let at = 0; at < pairs.length; at += 2) {
      const left = first ? same[pairs[at]] : pairs[at];
      const right = first ? same[pairs[at + 1]] : pairs[at + 1];
      if (!inside[left] || !inside[right]) continue;
      const key = left * this.parts + right;
      if (!first || !found.has(key)) found.set(key, at / 2);
    }
    return (one, other) => {
      if (one.id === null || other.id === null) return null;
      if (!first && this.idOf(one.text + other.text) === null) return null;
      return found.get(one.id * this.parts + other.id) ?? null;
    };
  }

  byRanks() {
    return (one, other) => this.idOf(one.text + other.text);
  }

  byScores() {
    const {floor} = this.model;
    return (one, other) => {
      const id = this.idOf(one.text + other.text);
      if (id === null || (floor !== null && !(this.scores[id] > floor))) return null;
      return -this.scores[id];
    };
  }
}

/** Draw a tree of merges: each token above the two that merge to it. */
function mergeTree(node, show) {
  const made = element("li", {}, element(
    "span", {class: "node"}, element("b", {class: "letters"}, show(node)),
    element("small", {}, [
      node.id === null ? "no token" : `id ${node.id}`,
      node.rank === undefined ? null : show.rank(node.rank),
    ].filter(Boolean).join(" · ")),
  ));
  if (node.left) {
    made.append(element("ul", {}, mergeTree(node.left, show), mergeTree(node.right, show)));
  }
  return made;
}
