"use strict";
// Elements, buttons and icons. Text of a model becomes text nodes and nothing else.

const part = (id) => document.getElementById(id);

/** Make an element; an attribute that is null or false is left out, a function listens. */
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== ""));
  return node;
}

const ICONS = {
  menu: "M4 6h16M4 12h16M4 18h16", plus: "M12 5v14M5 12h14", up: "M12 19V5M6 11l6-6 6 6",
  down: "M12 5v14M6 13l6 6 6-6", stop: "M8 8h8v8H8z", left: "M14.5 6l-6 6 6 6",
  right: "M9.5 6l6 6-6 6", close: "M6 6l12 12M18 6L6 18", check: "M5 12.5l4.5 4.5L19 7",
  copy: "M9 9h10v11H9zM15 6V4H5v11h2", edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  again: "M19 12a7 7 0 1 1-2.5-5.4M19 3v4.5h-4.5", trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  tokens: "M4 7h6v4H4zM13 7h7v4h-7zM4 14h9v4H4zM16 14h4v4h-4z", more: "M5 12h.1M12 12h.1M19 12h.1",
  clip: "M18 11l-6.5 6.5a4 4 0 0 1-5.7-5.7L13 4.6a2.7 2.7 0 0 1 3.8 3.8l-7 7a1.3 1.3 0 0 1-1.9-1.9l6.2-6.1",
  gear: "M4 8h9M19 8h1M4 16h1M11 16h9M16 5.5v5M8 13.5v5", play: "M8 5.5v13l10-6.5z",
  file: "M6 3h8l4 4v14H6zM14 3v4h4", tool: "M14 6a4 4 0 0 1 5-1l-3 3 1 2 2 1 3-3a4 4 0 0 1-6 5L8 21l-3-3 8-8a4 4 0 0 1 1-4z",
};

function icon(name) {
  const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ICONS[name]);
  drawing.setAttribute("viewBox", "0 0 24 24");
  drawing.setAttribute("aria-hidden", "true");
  drawing.append(path);
  return drawing;
}

/** Make a button; one with an icon shows its label when pointed at. */
function button(label, act, image = null, attributes = {}) {
  const own = image ? {"aria-label": label, title: label, class: "icon"} : {};
  return element("button", {type: "button", ...own, ...attributes, click: act}, image ? icon(image) : label);
}

/** Say something to a screen reader. */
function announce(text) {
  part("status").textContent = text;
}

let toast_timer = 0;

/** Show a line for a while, with a button where there is something to do. */
function toast(text, label = "", act = null) {
  clearTimeout(toast_timer);
  const hide = () => part("toast").replaceChildren();
  const action = act && button(label, () => { hide(); act(); });
  part("toast").replaceChildren(element("div", {}, element("span", {}, text), action));
  toast_timer = setTimeout(hide, 8000);
}

async function copy_text(text, from) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // only pages of this machine or with TLS have a clipboard
    const field = element("textarea", {class: "hidden"});
    field.value = text;
    document.body.append(field);
    field.select();
    const is_copied = document.execCommand("copy");
    field.remove();
    if (!is_copied) return toast("The browser does not let this page copy: select the text instead.");
  }
  announce("Copied");
  const image = from?.querySelector("svg");
  if (!image) return;
  image.replaceWith(icon("check"));
  setTimeout(() => from.querySelector("svg")?.replaceWith(icon("copy")), 1500);
}

const counted = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
