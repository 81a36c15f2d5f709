// Pictures of numbers; beside each stands a table with the same numbers.

const COLORS = 8;
const color = (at) => `c${at % COLORS}`;

/** One bar of parts: [name, value, text]. */
function stacked(label, parts) {
  const total = parts.reduce((sum, [, value]) => sum + value, 0) || 1;
  const bar = element("div", {class: "stacked", role: "img", "aria-label": label});
  parts.forEach(([name, value], at) => {
    const share = value / total;
    const made = element("span", {class: color(at), title: `${name}: ${percent(share)}`},
      share > 0.06 ? name : null);
    made.style.flexGrow = String(Math.max(share, 0.002));
    bar.append(made);
  });
  return bar;
}

/** Bars with their names before them and their numbers behind: a table that is a picture. */
function bars(caption, rows, show = grouped) {
  const most = Math.max(...rows.map(([, value]) => value), 1);
  const total = rows.reduce((sum, [, value]) => sum + value, 0) || 1;
  return element(
    "table", {class: "bars"}, element("caption", {}, caption),
    element("thead", {class: "unseen"}, element("tr", {}, ["", "", "number", "share"].map(
      (head) => element(head ? "th" : "td", {scope: head ? "col" : null}, head),
    ))),
    element("tbody", {}, rows.map(([name, value]) => {
      const bar = element("span", {class: "bar"});
      bar.style.width = `${Math.max(100 * value / most, value ? 0.5 : 0)}%`;
      return element(
        "tr", {}, element("th", {scope: "row"}, name),
        element("td", {class: "room", "aria-hidden": "true"}, bar),
        element("td", {class: "right"}, show(value)),
        element("td", {class: "right dim"}, percent(value / total)),
      );
    })),
  );
}

/** Columns side by side: [name, value]; a picture of a distribution. */
function histogram(label, rows, {wide = 560, high = 180} = {}) {
  const most = Math.max(...rows.map(([, value]) => value), 1);
  const step = wide / rows.length;
  const made = drawing("svg", {
    viewBox: `0 0 ${wide} ${high + 22}`, role: "img", "aria-label": label, class: "histogram",
  });
  rows.forEach(([name, value], at) => {
    const tall = value ? Math.max(high * value / most, 1) : 0;
    made.append(drawing(
      "rect", {x: at * step + 1, y: high - tall, width: Math.max(step - 2, 1), height: tall, rx: 2},
      drawing("title", {}, `${name}: ${grouped(value)}`),
    ));
    if (rows.length <= 20 || at % Math.ceil(rows.length / 12) === 0) made.append(drawing(
      "text", {x: (at + 0.5) * step, y: high + 16, "text-anchor": "middle"}, name,
    ));
  });
  made.append(drawing("line", {x1: 0, x2: wide, y1: high + 0.5, y2: high + 0.5}));
  return made;
}

const MOST_TILES = 1500;

/**
 * Boxes in boxes, as large as what they stand for, laid out for the room that there is.
 * groups: [{name, parts: [{name, value, color, open, says}]}]
 */
function treemap(label, groups) {
  const frame = element("div");
  const room = () => Math.min(1120, Math.max(innerWidth - 48, 240));
  const draw = () => frame.replaceChildren(boxes(label, groups, room(), room() < 700 ? Math.round(1.5 * room()) : 520));
  let drawn = room();
  addEventListener("resize", () => {
    if (drawn === room()) return;
    drawn = room();
    draw();
  });
  draw();
  return frame;
}

function boxes(label, groups, wide, high) {
  const made = drawing("svg", {
    viewBox: `0 0 ${wide} ${high}`, class: "treemap", role: "group", "aria-label": label,
  });
  const weighed = groups.map((group) => ({
    ...group, value: group.parts.reduce((sum, one) => sum + one.value, 0),
  })).filter((group) => group.value > 0);
  const tiles = [];
  for (const {item, x, y, w, h} of inOrder(weighed, {x: 0, y: 0, w: wide, h: high})) {
    const titled = w > 46 && h > 34;
    const head = titled ? 17 : 0;
    const inner = {x: x + 1.5, y: y + 1.5 + head, w: Math.max(w - 3, 0.5), h: Math.max(h - 3 - head, 0.5)};
    const parts = item.parts.filter((one) => one.value > 0)
      .sort((one, other) => other.value - one.value);
    const box = drawing("g", {});
    if (titled) box.append(drawing(
      "text", {x: x + 5, y: y + 14, class: "group"}, cut(item.name, w - 8, 7),
    ));
    for (const place of squarified(parts, inner)) {
      if (tiles.length >= MOST_TILES) break;
      const tile = drawing(
        "g", {role: "button", tabindex: tiles.length ? "-1" : "0", "aria-label": place.item.says},
        drawing("title", {}, place.item.says),
        drawing("rect", {
          x: place.x, y: place.y, width: Math.max(place.w - 1, 0.4),
          height: Math.max(place.h - 1, 0.4), rx: Math.min(3, place.w / 4, place.h / 4),
          class: color(place.item.color),
        }),
      );
      const line = (text, down) => drawing(  // beside the tile, whose name says it in full
        "text", {x: place.x + 5, y: place.y + down, "aria-hidden": "true"}, fitting(text, place.w - 7, 7),
      );
      tile.addEventListener("click", place.item.open);
      tiles.push(tile);
      box.append(tile);
      if (place.w > 16 && place.h > 16) box.append(line(place.item.name, 14));
      if (place.w > 52 && place.h > 32) box.append(line(size(place.item.value), 28));
    }
    made.append(box);
  }
  made.addEventListener("keydown", (event) => {
    const at = tiles.indexOf(event.target.closest("[role=button]"));
    if (at < 0) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      tiles[at].dispatchEvent(new MouseEvent("click"));
    }
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
    const to = {Home: 0, End: tiles.length - 1}[event.key] ?? (step && at + step);
    if (to === undefined || !tiles[to]) return;
    event.preventDefault();
    tiles[at].setAttribute("tabindex", "-1");
    tiles[to].setAttribute("tabindex", "0");
    tiles[to].focus();
  });
  return made;
}

/** Lay out what precedes the layers, the layers in rows as one reads, and what follows them. */
function inOrder(groups, box) {
  const isLayer = (group) => /\.\d+$/.test(group.name);
  const first = groups.findIndex(isLayer), last = groups.findLastIndex(isLayer);
  if (first < 0) return squarified(groups.sort((one, other) => other.value - one.value), box);
  const parts = [groups.slice(0, first), groups.slice(first, last + 1), groups.slice(last + 1)];
  const sums = parts.map((items) => items.reduce((sum, item) => sum + item.value, 0));
  const whole = sums.reduce((sum, value) => sum + value, 0), isWide = box.w >= box.h;
  const found = [];
  let {x, y} = box;
  parts.forEach((items, at) => {
    const share = sums[at] / whole;
    const own = isWide ? {x, y, w: box.w * share, h: box.h} : {x, y, w: box.w, h: box.h * share};
    if (items.length) found.push(...(at === 1 ? inRows(items, own) : squarified(items.sort((one, other) => other.value - one.value), own)));
    if (isWide) x += own.w;
    else y += own.h;
  });
  return found;
}

/** Lay out items in rows, in their order, with as many in a row as make the boxes most square. */
function inRows(items, {x, y, w, h}) {
  const total = items.reduce((sum, item) => sum + item.value, 0);
  const shape = (many) => {  // of a box of usual size, a little wider than high
    const rows = Math.ceil(items.length / many);
    return Math.abs(Math.log(w / many / (h / rows) / 1.4));
  };
  let many = 1;
  for (let next = 2; next <= items.length; next += 1) if (shape(next) < shape(many)) many = next;
  const found = [];
  for (let at = 0; at < items.length; at += many) {
    const row = items.slice(at, at + many), sum = row.reduce((whole, item) => whole + item.value, 0);
    const tall = h * sum / total;
    let left = x;
    for (const item of row) {
      found.push({item, x: left, y, w: w * item.value / sum, h: tall});
      left += w * item.value / sum;
    }
    y += tall;
  }
  return found;
}

/** A label that fits as a whole, the shorter one without its family, or none. */
function fitting(name, room, letter) {
  const short = name.replace(/^(attn|ffn|self_attn|mlp)[._]/, "");
  return [name, short].find((text) => text.length * letter <= room) ?? "";
}

function cut(text, room, letter) {
  const most = Math.floor(room / letter);
  return text.length <= most ? text : most > 2 ? `${text.slice(0, most - 1)}…` : "";
}

/** Lay out weighed items, largest first, in boxes that are as square as they can be. */
function squarified(items, box) {
  const found = [];
  let {x, y, w, h} = box;
  let left = items.reduce((sum, item) => sum + item.value, 0);
  for (let at = 0; at < items.length;) {
    const side = Math.min(w, h), scale = w * h / left;
    const row = [];
    let sum = 0, worst = Infinity;
    while (at + row.length < items.length) {
      const next = items[at + row.length];
      const whole = sum + next.value;
      const thick = whole * scale / side;
      const least = Math.min(...[...row, next].map((item) => item.value)) * scale / thick;
      const most = Math.max(...[...row, next].map((item) => item.value)) * scale / thick;
      const ratio = Math.max(thick / least, most / thick);
      if (row.length && ratio > worst) break;
      row.push(next);
      [sum, worst] = [whole, ratio];
    }
    const thick = sum * scale / side;
    let along = 0;
    for (const item of row) {
      const length = item.value * scale / thick;
      found.push(w >= h ? {item, x, y: y + along, w: thick, h: length}
        : {item, x: x + along, y, w: length, h: thick});
      along += length;
    }
    if (w >= h) [x, w] = [x + thick, w - thick];
    else [y, h] = [y + thick, h - thick];
    left -= sum;
    at += row.length;
  }
  return found;
}
