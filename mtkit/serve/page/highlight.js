// Colors of code: comments, strings, numbers, keywords and calls, by the family of a language.

const words = (text) => new Set(text.split(" "));
const C_WORDS = words("abstract as async auto await bool boolean break byte case catch char class const constexpr continue crate debugger def default defer delegate delete do double dyn else enum explicit export extends extern false final finally float fn for foreach from func function go goto if impl implements import in inline instanceof int interface internal is let long loop map match mod module move mut namespace native new nil null nullptr object of operator out override package private protected pub public range readonly ref register return sealed select self short signed sizeof static string struct super switch synchronized template this throw throws trait true try type typedef typename typeof undefined union unsafe unsigned use using val var virtual void volatile when where while with yield");
const QUOTED = String.raw`"(?:\\[^]|[^"\\\n])*"?|'(?:\\[^]|[^'\\\n])*'?`;
const HASH = String.raw`#[^\n]*`;
const SLASHES = String.raw`\/\/[^\n]*|\/\*(?:[^*]|\*(?!\/))*(?:\*\/)?`;
const TICKS = "`(?:\\\\[^]|[^`\\\\])*`?";
const FAMILIES = {
  c: {comment: SLASHES, string: `${QUOTED}|${TICKS}`, words: C_WORDS},
  python: {
    comment: HASH,
    string: String.raw`"""(?:[^"\\]|\\[^]|"(?!""))*(?:""")?|'''(?:[^'\\]|\\[^]|'(?!''))*(?:''')?|${QUOTED}`,
    words: words("False None True and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return self try while with yield"),
  },
  ruby: {comment: HASH, string: QUOTED, words: words("alias and begin break case class def do else elsif end ensure false for if in module next nil not or redo rescue retry return self super then true undef unless until when while yield require puts")},
  shell: {comment: String.raw`(?<=^|\s)${HASH}`, string: QUOTED, words: words("if then else elif fi for while until do done case esac in function return local export readonly set unset echo cd exit source alias sudo test")},
  sql: {comment: String.raw`--[^\n]*|\/\*(?:[^*]|\*(?!\/))*(?:\*\/)?`, string: QUOTED, words: words("add all alter and as asc avg begin between by case check column commit constraint count create database default delete desc distinct drop else end exists foreign from full group having if in index inner insert int integer into is join key left like limit max min not null offset on or order outer primary references right rollback select set sum table text then top union unique update values varchar view when where with"), is_caseless: true},
  lua: {comment: String.raw`--[^\n]*`, string: QUOTED, words: words("and break do else elseif end false for function if in local nil not or repeat return then true until while let where data module import type case of deriving instance class newtype")},
  markup: {comment: String.raw`<!--(?:[^-]|-(?!->))*(?:-->)?`, string: QUOTED, words: words(""), more: String.raw`<\/?[A-Za-z][\w:-]*|\/?>`},
  data: {comment: String.raw`(?<=^|\s)(?:#|;)[^\n]*`, string: QUOTED, words: words("true false null yes no on off"), more: String.raw`^[ \t-]*[\w.-]+(?=\s*[:=])|^\s*\[[^\]\n]*\]`},
  json: {comment: SLASHES, string: QUOTED, words: words("true false null"), more: String.raw`"(?:\\[^]|[^"\\\n])*"(?=\s*:)`},
  css: {comment: SLASHES, string: QUOTED, words: words("important"), more: String.raw`@[\w-]+|[\w-]+(?=\s*:)|[.#][A-Za-z][\w-]*`},
  diff: {comment: String.raw`^@@[^\n]*`, string: String.raw`^\+[^\n]*`, words: words(""), more: String.raw`^-[^\n]*`},
};
const LANGUAGES = new Map(Object.entries({
  c: "c h cc cpp c++ cxx hpp cs csharp java js javascript jsx mjs ts typescript tsx go golang rust rs php swift kotlin kt scala dart groovy zig solidity objc objective-c glsl cuda proto",
  python: "python py python3 starlark", ruby: "ruby rb elixir crystal r perl julia nim",
  shell: "bash sh shell zsh console fish powershell ps1 dockerfile docker makefile make cmake",
  sql: "sql mysql postgresql sqlite plsql", lua: "lua haskell hs elm ada", markup: "html xml svg xhtml vue svelte markdown-html",
  data: "yaml yml toml ini conf properties env cfg", json: "json jsonc json5 jsonl", css: "css scss less sass",
  diff: "diff patch",
}).flatMap(([family, names]) => names.split(" ").map((name) => [name, family])));
const MOST_COLORED = 200_000;
const patterns = new Map();

function pattern_of(family) {
  if (!patterns.has(family)) {
    const {comment, string, more} = FAMILIES[family];
    const name = more ? `(?<name>${more})|` : "";
    patterns.set(family, new RegExp(
      `${name}(?<comment>${comment})|(?<string>${string})|(?<number>\\b\\d[\\w.]*)|(?<word>[\\p{L}_$][\\p{L}\\p{N}_$]*)`, "gmu"));
  }
  return patterns.get(family);
}

/** A block of code whose text grows: only what follows the last line that is over is colored anew. */
class Code {
  constructor(language) {
    this.family = LANGUAGES.get(language.toLowerCase());
    this.node = element("code", {dir: "ltr"});
    this.text = "";
    this.safe = 0;  // characters and nodes that stay
    this.count = 0;
  }

  update(text) {
    if (text === this.text) return;
    if (!text.startsWith(this.text.slice(0, this.safe))) this.safe = this.count = 0;
    this.text = text;
    while (this.node.childNodes.length > this.count) this.node.lastChild.remove();
    if (!this.family || text.length > MOST_COLORED) {
      this.node.append(text.slice(this.safe));
      [this.safe, this.count] = [text.length, this.node.childNodes.length];
      return;
    }
    const pattern = pattern_of(this.family);
    const {words: keywords, is_caseless} = FAMILIES[this.family];
    let at = this.safe;
    const nodes = [];
    const keep = this.safe, before = this.count;
    pattern.lastIndex = at;
    for (let match; (match = pattern.exec(text)); ) {
      const [token] = match, end = match.index + token.length, groups = match.groups;
      let kind = groups.comment ? "comment" : groups.string ? "string" : groups.number ? "number" : groups.name ? "name" : "";
      if (!kind) {
        const word = is_caseless ? token.toLowerCase() : token;
        kind = keywords.has(word) ? "keyword" : text[end] === "(" ? "call" : "";
      }
      const break_at = text.slice(at, match.index).lastIndexOf("\n");
      if (break_at >= 0 && match.index > keep) {
        const cut = at + break_at + 1;  // whatever precedes a line break between tokens stays
        nodes.push(text.slice(at, cut));
        [this.safe, this.count, at] = [cut, before + nodes.length, cut];
      }
      if (!kind) continue;
      if (match.index > at) nodes.push(text.slice(at, match.index));
      nodes.push(element("span", {class: kind}, token));
      at = end;
    }
    if (at < text.length) nodes.push(text.slice(at));
    this.node.append(...nodes);
  }
}
