// Markdown as it streams: blocks, and only the last of them is made anew when its text grows.

const FENCE = /^( {0,3})(`{3,}|~{3,})[ \t]*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?=[ \t]|$)/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])([ \t]+|$)/;
const UNDERLINE = /^ {0,3}(={3,}|-{3,})[ \t]*$/;
const DELIMITERS = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const MATH = [["$$", "$$"], ["\\[", "\\]"]];
const MOST_DEPTH = 12, SHORT = 12;
const MOST_PARAGRAPH = 2000;  // characters; behind a line that reaches it the next begins, without a gap
const is_blank = (line) => !line.trim();
const indent_of = (line) => line.length - line.trimStart().length;

/** Whether a line ends a paragraph before it. */
function begins(line) {
  const item = ITEM.exec(line);
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line)
    || (item && item[1].length < 4 && item[3] !== "" && !/^0?[2-9]|^\d{2}/.test(item[2]))
    || MATH.some(([open]) => line.startsWith(open));
}

/** Return the blocks of lines: where each begins, and what makes its node; one of a kind can grow in it. */
function blocks(lines, depth = 0) {
  const rows = [];
  for (let at = 0; at < lines.length; ) {
    if (is_blank(lines[at])) {
      at += 1;
      continue;
    }
    const block = block_at(lines, at, depth);
    rows.push({at, ...block});
    at = block.end;
  }
  return rows;
}

function block_at(lines, at, depth) {
  const line = lines[at];
  let match;
  if ((match = FENCE.exec(line))) return fence(lines, at, match);
  if ((match = HEADING.exec(line))) {
    const text = line.slice(match[0].length).trim().replace(/(?:^|[ \t])#+$/, "");
    return {end: at + 1, make: () => heading(match[1].length, text)};
  }
  if (RULE.test(line)) return {end: at + 1, make: () => element("hr")};
  if (depth < MOST_DEPTH && QUOTE.test(line)) return quote(lines, at, depth);
  if (depth < MOST_DEPTH && (match = ITEM.exec(line)) && match[1].length < 4) return list(lines, at, match, depth);
  for (const [open, close] of MATH) if (line.trimStart().startsWith(open)) {
    const block = formula_block(lines, at, open, close);
    if (block) return block;
  }
  if (line.includes("|") && DELIMITERS.test(lines[at + 1] ?? "")) {
    const block = table(lines, at);
    if (block) return block;
  }
  if (/^(?: {4}|\t)/.test(line)) {
    let end = at + 1;
    while (end < lines.length && (/^(?: {4}|\t)/.test(lines[end]) || (is_blank(lines[end]) && /^(?: {4}|\t)/.test(lines[end + 1] ?? "")))) end += 1;
    const text = lines.slice(at, end).map((row) => row.replace(/^(?: {4}|\t)/, "")).join("\n");
    return code_rows(end, text, "");
  }
  return paragraph(lines, at);
}

/** Headings of an answer are below those of the page. */
const heading = (level, text) =>
  element(`h${Math.min(level + 2, 6)}`, {dir: "auto", class: `level-${level}`}, inline_nodes(text.trim()));

function paragraph(lines, at) {
  let end = at + 1, length = lines[at].length;
  for (; end < lines.length && length < MOST_PARAGRAPH && !is_blank(lines[end]) && !begins(lines[end])
    && !(lines[end].includes("|") && DELIMITERS.test(lines[end + 1] ?? "")); end += 1) {
    if (UNDERLINE.test(lines[end])) break;
    length += lines[end].length;
  }
  const text = lines.slice(at, end).map((line) => line.trimStart()).join("\n").trimEnd();
  if (UNDERLINE.test(lines[end] ?? "")) {
    const level = lines[end].trim()[0] === "=" ? 1 : 2;
    return {end: end + 1, make: () => heading(level, text)};
  }
  const is_cut = length >= MOST_PARAGRAPH && end < lines.length && !is_blank(lines[end]);
  return {end, text, make: () => element("p", {dir: "auto", class: is_cut ? "cut" : null}, inline_nodes(text))};
}

function fence(lines, at, [, indent, marks, info]) {
  let end = at + 1;
  const close = new RegExp(`^ {0,3}${marks[0]}{${marks.length},}[ \\t]*$`);
  while (end < lines.length && !close.test(lines[end])) end += 1;
  const cut = new RegExp(`^ {0,${indent.length}}`);
  const text = lines.slice(at + 1, end).map((line) => line.replace(cut, "")).join("\n");
  const language = info.trim().split(/[\s{,:]/)[0];
  return code_rows(Math.min(end + 1, lines.length), text, language);
}

const code_rows = (end, text, language) =>
  ({end, kind: `code ${language}`, make: () => code_block("", language), grow: ({code}) => code.update(text)});

/** Return a block of code, and the Code in it that can grow. */
function code_block(text, language) {
  const code = new Code(language);
  code.update(text);
  const copy = button("Copy code", () => copy_text(code.text, copy), "copy");
  const head = element("div", {class: "head"}, element("span", {}, language.slice(0, 40) || "text"), copy);
  const pre = element("pre", {tabindex: "0", role: "region", "aria-label": `Code, ${language.slice(0, 40) || "text"}`}, code.node);
  return {code, node: element("div", {class: "code", dir: "ltr"}, head, pre)};
}

function formula_block(lines, at, open, close) {
  const first = lines[at].trimStart().slice(open.length);
  for (let end = at; end < lines.length && end < at + 60; end += 1) {
    const line = (end === at ? first : lines[end]).trimEnd();
    if (!line.endsWith(close) || (end === at && line.length === 0)) continue;
    const rows = end === at ? [first] : [first, ...lines.slice(at + 1, end + 1)];
    const text = rows.join("\n").trimEnd().slice(0, -close.length);
    return {end: end + 1, make: () => element("p", {}, formula(text, true))};
  }
  return null;
}

function quote(lines, at, depth) {
  let end = at;
  const rows = [];
  while (end < lines.length && !is_blank(lines[end])) {
    if (!QUOTE.test(lines[end]) && (begins(lines[end]) || is_blank(rows.at(-1)))) break;
    rows.push(lines[end].replace(QUOTE, ""));
    end += 1;
  }
  const make = () => {
    const node = element("blockquote", {dir: "auto"});
    return {node, markdown: new Markdown(node, depth + 1)};
  };
  return {end, kind: "quote", make, grow: ({markdown}) => markdown.update(rows.join("\n"))};
}

function list(lines, at, [, margin, marker], depth) {
  const is_ordered = /\d/.test(marker), items = [];
  let end = at, width = 0, is_loose = false, gap = false;
  for (; end < lines.length; end += 1) {
    const line = lines[end][0] === "\t" ? lines[end].replace(/^\t+/, (tabs) => " ".repeat(4 * tabs.length)) : lines[end], indent = indent_of(line);
    if (is_blank(line)) {
      gap = true;
      items.at(-1).push("");
      continue;
    }
    const item = ITEM.exec(line);
    const is_sibling = item && item[1].length < margin.length + 2 && item[1].length >= margin.length && /\d/.test(item[2]) === is_ordered && !RULE.test(line);
    if (is_sibling) {
      const space = item[3].length > 4 ? 1 : Math.max(item[3].length, 1);
      width = item[1].length + item[2].length + space;
      is_loose ||= gap && items.length > 0;
      items.push([line.slice(width)]);
    } else if (indent >= Math.min(width, margin.length + 2)) {  // models indent by two where three are due
      is_loose ||= gap && !ITEM.test(line);
      items.at(-1).push(line.slice(Math.min(width, indent)));
    } else if (!gap && !begins(line)) {
      items.at(-1).push(line);
    } else break;
    gap = false;
  }
  while (end > at && is_blank(lines[end - 1])) end -= 1;
  const start = is_ordered && Number.parseInt(marker, 10) !== 1 ? Number.parseInt(marker, 10) : null;
  const make = () => ({node: element(is_ordered ? "ol" : "ul", {start, dir: "auto"}), items: []});
  return {end, kind: `list ${is_ordered} ${start}`, make, grow: (state) => grow_list(state, items, is_loose, depth)};
}

/** Change the items of a list that differ: while it streams, the last of them. */
function grow_list({node, items}, rows, is_loose, depth) {
  rows.forEach((lines, at) => {
    const text = lines.join("\n"), [task = ""] = /^\[[ xX]\][ \t]+/.exec(lines[0]) ?? [];
    let item = items[at];
    if (item?.text === text && item.is_loose === is_loose) return;
    if (item?.task !== task || item.is_loose !== is_loose) {
      const own = element("li", {class: task ? "task" : null}, task ? (task[1] === " " ? "☐ " : "☑ ") : null);
      if (item) item.node.replaceWith(own);
      else node.append(own);
      item = items[at] = {node: own, task, is_loose, markdown: new Markdown(own, depth + 1, !is_loose)};
    }
    item.text = text;
    item.markdown.update(text.slice(task.length));
  });
  for (const item of items.splice(rows.length)) item.node.remove();
}

function cells(line) {
  const row = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  const texts = [""];
  for (const [token] of row.matchAll(/\\\||(`{1,20})(?:(?!\1)[^]){0,500}?\1|\||[^|`\\]+|[^]/gu)) {
    if (token === "|") texts.push("");
    else texts[texts.length - 1] += token === "\\|" ? "|" : token;
  }
  return texts.map((text) => text.trim());
}

function table(lines, at) {
  const head = cells(lines[at]), marks = cells(lines[at + 1]);
  if (head.length !== marks.length) return null;
  let end = at + 2;
  while (end < lines.length && !is_blank(lines[end]) && lines[end].includes("|") && !FENCE.test(lines[end])) end += 1;
  const kinds = marks.map((mark) => (mark.endsWith(":") ? (mark.startsWith(":") ? "center" : "right") : null));
  const row = (line, tag) => {
    const texts = cells(line);
    return element("tr", {}, head.map((_, column) =>
      element(tag, {dir: "auto", class: kinds[column], scope: tag === "th" && "col"}, inline_nodes(texts[column] ?? ""))));
  };
  const make = () => {
    const body = element("tbody");
    const node = element("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Table"},
      element("table", {}, element("thead", {}, row(lines[at], "th")), body));
    return {node, body, lines: []};
  };
  const grow = ({body, lines: before}) => {
    const after = lines.slice(at + 2, end);
    const same = after.findIndex((line, place) => line !== before[place]);
    while (body.rows.length > (same < 0 ? after.length : same)) body.lastChild.remove();
    body.append(...after.slice(body.rows.length).map((line) => row(line, "td")));
    before.splice(0, before.length, ...after);
  };
  return {end, kind: `table ${lines[at]}\n${lines[at + 1]}`, make, grow};
}

/** The nodes of a text that grows, in an element of its own; paragraphs of a tight list have none. */
class Markdown {
  constructor(root, depth = 0, is_tight = false) {
    Object.assign(this, {root, depth, is_tight, lead: root.childNodes.length});
    this.clear();
  }

  clear() {
    this.cut(this.lead);
    this.text = "";
    this.from = 0;  // where the blocks begin that may still change
    this.count = this.lead;  // nodes before them
    this.open = null;  // the first of them, if it can grow
  }

  cut(count) {
    while (this.root.childNodes.length > count) this.root.lastChild.remove();
  }

  update(text) {
    text = text.replace(/\r\n?/g, "\n");
    if (text === this.text) return;
    if (!text.startsWith(this.text)) this.clear();
    this.text = text;
    const lines = text.slice(this.from).split("\n");
    const rows = blocks(lines, this.depth);
    if (!rows.length) return;
    const is_same = this.open !== null && rows[0].kind === this.open.kind;
    this.cut(this.count + (is_same ? 1 : 0));
    const states = rows.map((row, at) => this.show(row, at === 0 && is_same ? this.open : null));
    // A short line may become an item of the list before it.
    const last = rows.at(-1);
    const free = states.slice(last.text !== undefined && last.text.length < SHORT ? -2 : -1);
    this.open = free[0].kind ? free[0] : null;
    this.count = this.root.childNodes.length - free.reduce((sum, {size}) => sum + size, 0);
    this.from += lines.slice(0, rows.at(-free.length).at).reduce((sum, line) => sum + line.length + 1, 0);
  }

  show(row, state) {
    if (!row.kind) {
      const nodes = this.is_tight && row.text !== undefined ? inline_nodes(row.text).filter(Boolean) : [row.make()];
      this.root.append(...nodes);
      return {size: nodes.length};
    }
    if (!state) {
      state = {...row.make(), kind: row.kind, size: 1};
      this.root.append(state.node);
    }
    row.grow(state);
    return state;
  }
}
