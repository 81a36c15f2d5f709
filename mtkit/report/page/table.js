// Tables of any length: of a hundred thousand rows those are elements that are seen.

const ROW = 30;
const AROUND = 8;
const TALLEST = 12e6;  // browsers lay out no more than some 17 million pixels
const PRINTED = 200;
const tables = new Set();

class Table {
  /**
   * @param {object} about
   *   label, count, columns, searched, open, idle
   *   columns: head, right, width, cell(row), sort: "none" or () => keys of all rows
   *   searched(text, marks): marks the rows that have a text
   *   open(row): shows one row
   *   idle(): makes what the first search would wait for
   */
  constructor(about) {
    this.about = about;
    this.filters = [];
    this.query = "";
    this.sorted = null;
    this.current = 0;
    this.keys = new Map();
    this.rows = upTo(about.count);
    this.build();
    tables.add(this);
  }

  build() {
    const {label, columns} = this.about;
    this.search = element("input", {type: "search", autocomplete: "off", spellcheck: "false"});
    this.search.addEventListener("input", () => this.find(this.search.value));
    this.status = element("span", {class: "status", role: "status"});
    this.tools = element(
      "div", {class: "tools"}, element("label", {}, `Search ${label.toLowerCase()}`, this.search),
    );
    this.heads = columns.map((column, at) => {
      const button = element("button", {type: "button", title: column.title}, column.head);
      button.addEventListener("click", () => this.sortBy(at));
      return element("th", {
        scope: "col", class: column.right ? "right" : null, "aria-sort": "none",
      }, column.sort === "none" ? column.head : button);
    });
    this.body = element("tbody");
    const widths = element("colgroup", {}, columns.map((column) => {
      const made = element("col");
      made.style.width = column.width;
      return made;
    }));
    this.table = element(
      "table", {class: "long"}, element("caption", {class: "unseen"}, label), widths,
      element("thead", {}, element("tr", {}, this.heads)), this.body,
    );
    this.scroller = element(
      "div", {class: "scroller", role: "region", tabindex: "0", "aria-label": `${label}, scrolls`},
      this.table,
    );
    let waiting = false;
    this.scroller.addEventListener("scroll", () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        this.draw();
      });
    }, {passive: true});
    this.body.addEventListener("click", (event) => this.opened(event));
    this.body.addEventListener("keydown", (event) => this.moved(event));
    this.root = element("div", {class: "table"}, this.tools, this.status, this.scroller);
    this.note();
  }

  /** Add a choice among the names of a column: its rows alone are shown. */
  addChoice(label, column, numbers) {
    const select = element(
      "select", {}, element("option", {value: ""}, "all"),
      column.names.map((name, at) => element("option", {value: String(at)}, name || "none")),
    );
    const own = {numbers, wanted: -1};
    this.filters.push(own);
    select.addEventListener("change", () => {
      own.wanted = select.value === "" ? -1 : Number(select.value);
      this.find(this.query);
    });
    this.tools.append(element("label", {}, label, select));
    return select;
  }

  find(query) {
    const begun = performance.now();
    this.query = query;
    const count = this.about.count;
    const marks = new Uint8Array(count);
    if (query) this.about.searched(query, marks);
    else marks.fill(1);
    for (const {numbers, wanted} of this.filters) {
      if (wanted < 0) continue;
      for (let row = 0; row < count; row += 1) if (numbers[row] !== wanted) marks[row] = 0;
    }
    let many = 0;
    const found = new Uint32Array(count);
    for (let row = 0; row < count; row += 1) if (marks[row]) found[many++] = row;
    this.rows = found.slice(0, many);
    this.order();
    this.current = 0;
    this.scroller.scrollTop = 0;
    this.note();
    this.draw();
    performance.measure("search", {start: begun});
  }

  sortBy(at) {
    const begun = performance.now();
    const {sorted} = this;
    if (sorted && sorted.at === at) this.sorted = sorted.down ? null : {at, down: true};
    else this.sorted = {at, down: false};
    this.heads.forEach((head, place) => head.setAttribute(
      "aria-sort",
      this.sorted?.at !== place ? "none" : this.sorted.down ? "descending" : "ascending",
    ));
    if (this.sorted) this.order();
    else this.rows.sort();
    this.scroller.scrollTop = 0;
    this.current = 0;
    this.draw();
    performance.measure("sort", {start: begun});
  }

  order() {
    if (!this.sorted) return;
    const keys = this.keysOf(this.sorted.at);
    const sign = this.sorted.down ? -1 : 1;
    this.rows.sort((one, other) => sign * (keys[one] - keys[other]) || one - other);
  }

  /** Numbers in the order of a column; texts are put in order once. */
  keysOf(at) {
    if (!this.keys.has(at)) {
      const given = this.about.columns[at].sort();
      const isText = Array.isArray(given) && typeof given[0] === "string";
      this.keys.set(at, isText ? ranks(given) : given);
    }
    return this.keys.get(at);
  }

  note() {
    const {count, label} = this.about, many = this.rows.length;
    this.status.textContent = many === count ? grouped(count)
      : `${grouped(many)} of ${grouped(count)}`;
    this.status.setAttribute("aria-label", `${this.status.textContent} ${label.toLowerCase()}`);
  }

  draw() {
    const {rows, scroller} = this, many = rows.length;
    const view = scroller.clientHeight || 480;
    const tall = Math.min(many * ROW, TALLEST);
    const seen = Math.ceil(view / ROW);
    let first = Math.floor(scroller.scrollTop / ROW), above = 0;
    if (many * ROW > TALLEST) {
      const share = scroller.scrollTop / Math.max(tall - view, 1);
      first = Math.floor(Math.min(share, 1) * Math.max(many - seen + 2, 0));
      above = scroller.scrollTop;
    }
    let last = Math.min(first + seen + AROUND, many);
    if (above) above = Math.min(above, tall - (last - first) * ROW);
    else {
      first = Math.max(first - AROUND, 0);
      above = first * ROW;
    }
    if (this.printing) [first, last, above] = [0, Math.min(many, PRINTED), 0];
    const held = this.body.contains(document.activeElement);
    const below = this.printing ? 0 : Math.max(tall - above - (last - first) * ROW, 0);
    const made = [spacer(above)];
    for (let at = first; at < last; at += 1) made.push(this.row(at));
    this.table.setAttribute("aria-rowcount", many + 1);
    this.body.replaceChildren(...made, spacer(below));
    if (held) this.focused(true);
  }

  row(at) {
    const row = this.rows[at], {columns, open} = this.about;
    const cells = columns.map((column, place) => {
      const shown = column.cell(row);
      const inner = place || !open ? shown : element(
        "button", {type: "button", tabindex: at === this.current ? "0" : "-1"}, shown,
      );
      const classes = [column.right && "right", column.letters && "letters"];
      return element(
        place ? "td" : "th",
        {class: classes.filter(Boolean).join(" ") || null, scope: place ? null : "row"}, inner,
      );
    });
    return element("tr", {"data-at": at, "aria-rowindex": at + 2, class: open && "opens"}, cells);
  }

  opened(event) {
    const line = event.target.closest("tr[data-at]");
    if (!line || !this.about.open || String(getSelection()).length) return;
    this.current = Number(line.dataset.at);
    this.about.open(this.rows[this.current]);
  }

  moved(event) {
    const page = Math.max(Math.floor(this.scroller.clientHeight / ROW) - 2, 1);
    const end = this.rows.length - 1;
    const to = {
      ArrowDown: this.current + 1, ArrowUp: this.current - 1, PageDown: this.current + page,
      PageUp: this.current - page, Home: 0, End: end,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.current = Math.min(Math.max(to, 0), end);
    this.focused(false);
  }

  /** Give the current row the focus; where it is out of sight, scroll to it. */
  focused(asItIs) {
    const button = () => this.body.querySelector(`tr[data-at="${this.current}"] button`);
    if (!asItIs) {
      const {scroller} = this, head = ROW + 4, top = this.current * ROW;
      if (this.rows.length * ROW > TALLEST) {
        scroller.scrollTop = this.current / this.rows.length * scroller.scrollHeight;
      } else if (top < scroller.scrollTop) scroller.scrollTop = top;
      else if (top + ROW > scroller.scrollTop + scroller.clientHeight - head) {
        scroller.scrollTop = top + ROW - scroller.clientHeight + head;
      }
      this.draw();
    }
    button()?.focus({preventScroll: true});
  }
}

function spacer(height) {
  const made = element("tr", {"aria-hidden": "true", class: "space"}, element("td"));
  made.firstChild.style.height = `${height}px`;
  return made;
}

/** 0, 1, 2 …: `from` with a function takes ten times as long. */
function upTo(count) {
  const found = new Uint32Array(count);
  for (let row = 0; row < count; row += 1) found[row] = row;
  return found;
}

function ranks(texts) {
  const order = upTo(texts.length);
  order.sort((one, other) => {
    if (texts[one] === texts[other]) return one - other;
    return texts[one] < texts[other] ? -1 : 1;
  });
  const found = new Uint32Array(texts.length);
  let rank = 0;
  order.forEach((row, at) => {
    if (at && texts[row] !== texts[order[at - 1]]) rank = at;
    found[row] = rank;
  });
  return found;
}

function printing(now) {
  for (const table of tables) {
    table.printing = now;
    table.draw();
  }
}
addEventListener("beforeprint", () => printing(true));
addEventListener("afterprint", () => printing(false));
