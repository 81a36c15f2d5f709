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
const is_blank = (line) => !line.trim();
const indent_of = (line) => line.length - line.trimStart().length;

/** Whether a line ends a paragraph before it. */
function begins(line) {
  const item = ITEM.exec(line);
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line)
    || (item && item[1].length < 4 && item[3] !== "" && !/^0?[2-9]|^\d{2}/.test(item[2]))
    || MATH.some(([open]) => line.startsWith(open));
}

/** Return the blocks of lines: where each begins, and a function that makes its node. */
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
    return {end, code: text, language: "", make: () => code_block(text, "").node};
  }
  return paragraph(lines, at);
}

/** Headings of an answer are below those of the page. */
const heading = (level, text) =>
  element(`h${Math.min(level + 2, 6)}`, {dir: "auto", class: `level-${level}`}, inline_nodes(text.trim()));

function paragraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && !is_blank(lines[end]) && !begins(lines[end])
    && !(lines[end].includes("|") && DELIMITERS.test(lines[end + 1] ?? ""))) {
    if (UNDERLINE.test(lines[end])) break;
    end += 1;
  }
  const text = lines.slice(at, end).map((line) => line.trimStart()).join("\n").trimEnd();
  if (UNDERLINE.test(lines[end] ?? "")) {
    const level = lines[end].trim()[0] === "=" ? 1 : 2;
    return {end: end + 1, make: () => heading(level, text)};
  }
  return {end, text, make: () => element("p", {dir: "auto"}, inline_nodes(text))};
}

function fence(lines, at, [, indent, marks, info]) {
  let end = at + 1;
  const close = new RegExp(`^ {0,3}${marks[0]}{${marks.length},}[ \\t]*$`);
  while (end < lines.length && !close.test(lines[end])) end += 1;
  const cut = new RegExp(`^ {0,${indent.length}}`);
  const text = lines.slice(at + 1, end).map((line) => line.replace(cut, "")).join("\n");
  const language = info.trim().split(/[\s{,:]/)[0];
  return {end: Math.min(end + 1, lines.length), code: text, language, make: () => code_block(text, language).node};
}

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
  return {end, make: () => element("blockquote", {dir: "auto"}, blocks(rows, depth + 1).map((row) => row.make()))};
}

function list(lines, at, [, margin, marker], depth) {
  const is_ordered = /\d/.test(marker), items = [];
  let end = at, width = 0, is_loose = false, gap = false;
  for (; end < lines.length; end += 1) {
    const line = lines[end].replace(/^\t+/, (tabs) => " ".repeat(4 * tabs.length)), indent = indent_of(line);
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
  return {end, make: () => element(is_ordered ? "ol" : "ul", {start, dir: "auto"}, items.map((rows) => list_item(rows, is_loose, depth)))};
}

function list_item(rows, is_loose, depth) {
  const task = /^\[([ xX])\][ \t]+/.exec(rows[0]);
  if (task) rows = [rows[0].slice(task[0].length), ...rows.slice(1)];
  const children = blocks(rows, depth + 1).flatMap((row) =>
    row.text === undefined || is_loose ? [row.make()] : inline_nodes(row.text));
  return element("li", {class: task && "task"}, task ? (task[1] === " " ? "☐ " : "☑ ") : null, children);
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
  return {end, make: () => element("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Table"},
    element("table", {}, element("thead", {}, row(lines[at], "th")), element("tbody", {}, lines.slice(at + 2, end).map((line) => row(line, "td")))))};
}

/** The nodes of a text that grows, in an element of its own. */
class Markdown {
  constructor(root) {
    this.root = root;
    this.clear();
  }

  clear() {
    this.root.replaceChildren();
    this.text = "";
    this.from = 0;  // where the blocks begin that may still change
    this.count = 0;  // nodes before them
    this.open = null;  // the code in the last block
  }

  update(text) {
    text = text.replace(/\r\n?/g, "\n");
    if (text === this.text) return;
    if (!text.startsWith(this.text)) this.clear();
    this.text = text;
    const lines = text.slice(this.from).split("\n");
    const rows = blocks(lines);
    if (!rows.length) return;
    const last = rows.at(-1);
    if (this.open && rows.length === 1 && last.code !== undefined && last.language === this.open.language) {
      this.open.code.update(last.code);
      return;
    }
    while (this.root.childNodes.length > this.count) this.root.lastChild.remove();
    this.open = null;
    for (const row of rows.slice(0, -1)) this.root.append(row.make());
    if (last.code === undefined) this.root.append(last.make());
    else {
      const {code, node} = code_block(last.code, last.language);
      this.open = {code, language: last.language};
      this.root.append(node);
    }
    // A short line may become an item of the list before it.
    const free = Math.min(rows.length, last.text !== undefined && last.text.length < SHORT ? 2 : 1);
    this.count = this.root.childNodes.length - free;
    this.from += lines.slice(0, rows.at(-free).at).reduce((sum, line) => sum + line.length + 1, 0);
  }
}
