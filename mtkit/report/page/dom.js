"use strict";
// Elements and texts. Text from a file becomes text nodes and nothing else.

const part = (id) => document.getElementById(id);

/** Make an element; children are texts and elements, nothing for null. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  return filled(made, attributes, children);
}

function drawing(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  return filled(made, attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== ""));
  return made;
}

const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");
const counted = (number, what) => `${grouped(number)} ${what}${number === 1 ? "" : "s"}`;

function scaled(number, units) {
  let value = number, at = 0;
  while (value >= 999.5 && at + 1 < units.length) {
    value /= 1000;
    at += 1;
  }
  return `${value.toFixed(at === 0 || value >= 99.95 ? 0 : 1)} ${units[at]}`.trim();
}

const size = (bytes) => scaled(bytes, ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"]);
const amount = (number) => scaled(number, ["", "k", "M", "B", "T"]);

function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 0.05) return "<0.1%";
  return `${value.toFixed(value >= 9.95 ? 0 : 1)}%`;
}

function decimal(number) {
  if (typeof number !== "number") return String(number ?? "");
  if (Number.isInteger(number) && Math.abs(number) < 1e15) return grouped(number);
  return String(Number(number.toPrecision(6)));
}

/** A value of JSON as text. */
function plain(value) {
  if (Array.isArray(value)) {
    if (value.length > 12) return `${value.slice(0, 12).map(plain).join(", ")} … (${value.length})`;
    return value.map(plain).join(", ");
  }
  return typeof value === "number" ? decimal(value) : String(value);
}

/** Facts with their names before them. */
function facts(rows) {
  const shown = rows.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return element("dl", {class: "facts"}, shown.map(([name, value]) => element(
    "div", {}, element("dt", {}, name), element("dd", {}, value),
  )));
}

/** A small table that is there whole; numbers stand on the right. */
function smallTable(caption, heads, rows) {
  const right = (at) => (heads[at].endsWith(">") ? "right" : null);
  return element("div", {class: "wide", role: "region", tabindex: "0", "aria-label": caption}, element(
    "table", {class: "small"},
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, heads.map((head, at) => element(
      "th", {scope: "col", class: right(at)}, head.replace(">", ""),
    )))),
    element("tbody", {}, rows.map((row) => element("tr", {}, row.map((cell, at) => element(
      at ? "td" : "th", {scope: at ? null : "row", class: right(at)}, cell,
    ))))),
  ));
}

function section(id, title, remark, ...children) {
  return element(
    "section", {id, "aria-labelledby": `${id}-title`},
    element("h2", {id: `${id}-title`}, title, remark ? element("small", {}, ` ${remark}`) : null),
    ...children,
  );
}

/** Show something about one row in front of the page. */
function showDetail(title, ...children) {
  part("detail-name").replaceChildren(title);
  part("detail-body").replaceChildren(...children.flat().filter((child) => child !== null));
  part("detail").showModal();
}
