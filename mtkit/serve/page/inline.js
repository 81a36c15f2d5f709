// Markdown within a line: emphasis, code, links, formulas. No text becomes markup unchecked.

const TAGS = words("b i u s em strong sub sup kbd mark small del ins");
const ENTITIES = {amp: "&", lt: "<", gt: ">", quot: "\"", apos: "'", nbsp: "\u00a0", mdash: "—", ndash: "–", hellip: "…", copy: "©", times: "×", rarr: "→", larr: "←", deg: "°", bull: "•"};
const MOST_FORMULA = 2000;  // characters
const MOST_MARKS = 2000;  // of one paragraph; the rest is text
const INLINE = new RegExp([
  String.raw`(?<math>\\[([])`,
  String.raw`(?<escape>\\[!-\/:-@\[-${"`"}{-~])`,
  "(?<!`)(?<ticks>`{1,20})(?!`)",
  String.raw`\$\$(?<double>[^$]{1,2000})\$\$`,
  String.raw`(?<![\w$\\])\$(?<dollar>[^\s$](?:[^$\n]{0,500}[^\s$\\])?)\$(?![\w$])`,
  String.raw`<(?<address>https?:\/\/[^\s<>]{1,2000})>|<br ?\/?>(?<line>)|<(?<tag>\/?[a-z]{1,6})>`,
  String.raw`(?<bare>\bhttps?:\/\/[^\s<>"${"`"}|\\^{}]{1,2000})`,
  String.raw`(?<open>!?\[)|(?<close>\])`,
  String.raw`(?<marks>\*{1,20}|_{1,20}|~{1,2})`,
  String.raw`&(?:#(?<code>\d{1,7})|#[xX](?<hex>[\da-fA-F]{1,6})|(?<entity>[a-zA-Z]{2,8}));`,
  String.raw`(?<newline> {0,99}\\?\n)`,
].join("|"), "gu");
const TARGET = /\(\s*(?:<([^<>\n]*)>|((?:[^\s()\\]|\\.|\([^\s()]*\))*))(?:\s+(?:"[^"]*"|'[^']*'|\([^()]*\)))?\s*\)/yu;

/** Make a link, of http and https only; null for any other address. */
function link(address, ...children) {
  let url;
  try {
    url = new URL(address.replace(/\\([!-\/:-@[-`{-~])/g, "$1"));
  } catch {
    return null;
  }
  if (!/^https?:$/.test(url.protocol) || url.username || url.password) return null;
  return element("a", {href: url.href, target: "_blank", rel: "noopener noreferrer", title: url.href}, children);
}

/** Return the nodes of a text. */
function inline_nodes(text) {
  const items = [];  // nodes, texts, and the marks that may become emphasis or links
  const brackets = [], tags = [];
  const missing = new Map();  // what closes nothing behind here
  let at = 0, marks = 0;
  const push = (...nodes) => items.push(...nodes);
  INLINE.lastIndex = 0;
  const pattern = new RegExp(INLINE);  // a nested call has its own place
  for (let match; (match = pattern.exec(text)); ) {
    const {index} = match, groups = match.groups, [token] = match;
    let end = index + token.length, node = null;
    if (groups.math) {
      const close = groups.math === "\\(" ? "\\)" : "\\]";
      if (!missing.has(close) && text.indexOf(close, end) < 0) missing.set(close, true);
      const length = missing.has(close) ? -1 : text.slice(end, end + MOST_FORMULA).indexOf(close);
      node = length > 0 ? formula(text.slice(end, end + length)) : token[1];
      if (length > 0) end += length + close.length;
    } else if (groups.escape) node = groups.escape[1];
    else if (groups.double ?? groups.dollar) node = formula(groups.double ?? groups.dollar);
    else if (groups.ticks) {
      const close = closing_ticks(text, end, groups.ticks, missing);
      if (close >= 0) {
        const code = text.slice(end, close).replaceAll("\n", " ");
        node = element("code", {dir: "ltr"}, /^ .*[^ ].* $/.test(code) ? code.slice(1, -1) : code);
        end = close + groups.ticks.length;
      }
    } else if (groups.address) node = link(groups.address, groups.address);
    else if (groups.line !== undefined || groups.newline !== undefined) node = element("br");
    else if (groups.tag) {
      const name = groups.tag.replace("/", "");
      if (!TAGS.has(name) || ++marks > MOST_MARKS) continue;
      if (groups.tag[0] !== "/") node = {tag: name, text: token};
      else {
        const place = tags.findLastIndex((open) => open.tag === name);
        const open = place < 0 ? -1 : items.lastIndexOf(tags[place]);
        if (open < 0) continue;
        tags.length = place;
        push(text.slice(at, index));
        push(element(name, {}, nodes_of(items.splice(open).slice(1))));
        at = end;
        continue;
      }
      tags.push(node);
    } else if (groups.bare) {
      let address = groups.bare.replace(/[.,;:!?'*_~]+$/u, "");
      while (/[)\]]$/.test(address) && unbalanced(address)) address = address.slice(0, -1).replace(/[.,;:!?'*_~]+$/u, "");
      node = link(address, address);
      end = index + address.length;
    } else if (groups.open) {
      if (++marks > MOST_MARKS) continue;
      node = {bracket: groups.open, text: token};
      brackets.push(node);
    } else if (groups.close) {
      const open = brackets.pop();
      TARGET.lastIndex = end;
      const target = open && TARGET.exec(text);
      if (!target) continue;
      const place = items.lastIndexOf(open);
      if (place < 0) continue;
      push(text.slice(at, index));
      const inner = nodes_of(items.splice(place).slice(1));
      const address = target[1] ?? target[2];
      const anchor = link(address, open.bracket === "![" ? ["🖼 ", ...inner] : inner);
      if (open.bracket === "[") brackets.length = 0;  // no link in a link
      at = pattern.lastIndex = end + target[0].length;
      push(...(anchor ? [anchor] : [open.bracket, ...inner, `](${address})`]));
      continue;
    } else if (groups.marks) {
      if (++marks > MOST_MARKS) continue;
      const before = text[index - 1] ?? " ", after = text[end] ?? " ";
      const is_word = (letter) => /[\p{L}\p{N}]/u.test(letter);
      const opens = !/\s/.test(after) && !(token[0] === "_" && is_word(before));
      const closes = !/\s/.test(before) && !(token[0] === "_" && is_word(after));
      if (token === "~" || !(opens || closes)) continue;
      node = {mark: token[0], count: token.length, opens, closes};
    } else {
      const code = groups.code ? Number(groups.code) : parseInt(groups.hex, 16);
      node = groups.entity ? ENTITIES[groups.entity] : code > 0 && code < 0x110000 && !(code >= 0xd800 && code < 0xe000) ? String.fromCodePoint(code) : null;
    }
    if (node === null || node === undefined) {
      pattern.lastIndex = Math.max(end, index + 1);
      continue;
    }
    if (index > at) push(text.slice(at, index));
    push(node);
    at = pattern.lastIndex = end;
  }
  if (at < text.length) push(text.slice(at));
  return nodes_of(items);
}

/** Return where as many backticks follow, -1 for nowhere; ``missing`` remembers that for a length. */
function closing_ticks(text, from, ticks, missing) {
  if (missing.has(ticks)) return -1;
  for (let at = text.indexOf(ticks, from); at >= 0; at = text.indexOf(ticks, at)) {
    let end = at;
    while (text[end] === "`") end += 1;
    if (end - at === ticks.length) return at;
    at = end;
  }
  missing.set(ticks, true);
  return -1;
}

function unbalanced(address) {
  const count = (letter) => address.split(letter).length;
  return address.endsWith(")") ? count(")") > count("(") : count("]") > count("[");
}

/** Return nodes with emphasis where marks match, by the delimiter runs of CommonMark. */
function nodes_of(items) {
  const stack = [{children: []}];  // open runs, each with what follows it
  const spell = (run) => run.mark.repeat(run.count);
  const collapse = (depth) => {
    while (stack.length > depth) {
      const run = stack.pop();
      stack.at(-1).children.push(spell(run), ...run.children);
    }
  };
  for (const item of items) {
    if (!item.mark) {
      stack.at(-1).children.push(item.bracket || item.tag ? item.text : item);
      continue;
    }
    const run = {...item, children: []};
    while (run.closes && run.count) {
      const place = stack.findLastIndex((open) => open.mark === run.mark);
      if (place < 1) break;
      const open = stack[place];
      const width = run.mark === "~" ? 2 : Math.min(2, open.count, run.count);
      if (width > open.count || width > run.count) break;
      collapse(place + 1);
      stack.pop();
      const tag = run.mark === "~" ? "del" : width === 2 ? "strong" : "em";
      const node = element(tag, {}, open.children);
      open.count -= width;
      run.count -= width;
      if (open.count) stack.push({...open, children: [node]});
      else stack.at(-1).children.push(node);
    }
    if (!run.count) continue;
    if (run.opens && stack.length < 100) stack.push(run);
    else stack.at(-1).children.push(spell(run));
  }
  collapse(1);
  return stack[0].children;
}
