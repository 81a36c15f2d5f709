// The first look, what check finds, and what differs between two files.

function overview(file) {
  const {model, tokens, check} = file, inspect = model?.inspect;
  const cards = [];
  const card = (name, value, note) => value && cards.push(element(
    "li", {}, element("small", {}, name), element("b", {}, value), note ? element("span", {}, note) : null,
  ));
  if (inspect?.parameters) {
    card("Parameters", amount(inspect.parameters), `${grouped(inspect.tensor_count)} tensors`);
    card("Weights", size(inspect.memory.weights), `${inspect.bits_per_weight.toFixed(2)} bits per weight`);
    card("Type", inspect.file_type || inspect.quantization[0]?.type);
    const layers = model.layers.filter((name) => /\.\d+$/.test(name)).length;
    card("Layers", layers ? grouped(layers) : "");
    card("Context", inspect.memory.context ? grouped(inspect.memory.context) : "", "tokens in training");
  }
  if (tokens) card("Vocabulary", grouped(tokens.count), "tokens");
  else if (inspect?.tokenizer) card("Vocabulary", grouped(inspect.tokenizer.tokens), "tokens");
  card(file.about ? "Folder" : "File", size(file.bytes), inspect ? file.about ? "weights in the folder" : `GGUF v${inspect.version}` : tokens?.title);
  card("Check", verdict(check), "");
  const rows = inspect ? [
    ["content", inspect.content.kind], ["architecture", inspect.architecture],
    ...Object.entries(inspect.content.facts).map(([name, value]) => [name, plain(value)]),
    ...Object.entries(inspect.hyperparameters).map(([name, value]) => [name, plain(value)]),
    ["byte order", inspect.byte_order], ["alignment", String(inspect.alignment)],
    ["KV cache", inspect.memory.cache_per_token ? `${size(inspect.memory.cache_per_token)} a token of context` : ""],
    ["files", inspect.shards ? grouped(inspect.shards) : ""],
  ] : [];
  const counts = tokens ? tokens.counts.map(([name, many]) => [name.replace("_", " "), grouped(many)]) : [];
  return section(
    "overview", inspect?.name || file.name, inspect?.name ? file.name : "",
    file.about ? element("p", {class: "dim"}, file.about) : null,
    element("ul", {class: "cards"}, cards),
    rows.length ? facts(rows) : null,
    counts.length ? element("h3", {}, "Tokens by role") : null,
    counts.length ? facts(counts) : null,
  );
}

const SIGNS = {error: "✗", warning: "!", note: "·"};
const ROLES = {error: "bad", warning: "warn", note: "dim"};

function verdict(check) {
  const counts = ["error", "warning", "note"].map((severity) => [
    severity, check.findings.filter((one) => one.severity === severity).length,
  ]).filter(([, many]) => many);
  const worst = counts[0]?.[0];
  const good = !worst || worst === "note";
  return element("span", {class: good ? "good" : ROLES[worst]},
    `${good ? "✓" : SIGNS[worst]} ${counts.map(([name, many]) => counted(many, name)).join(", ") || "nothing found"}`);
}

function findings(check) {
  const rules = new Map();
  for (const one of check.findings) rules.set(one.code, [...(rules.get(one.code) ?? []), one]);
  const order = ["error", "warning", "note"];
  const groups = [...rules.values()].sort(
    (one, other) => order.indexOf(one[0].severity) - order.indexOf(other[0].severity),
  );
  return section(
    "check", "Check", "", element("p", {}, verdict(check)),
    element("p", {}, `Checked: ${check.checked.join(", ")}.`),
    check.skipped.length ? element("p", {}, `Not checked: ${check.skipped.map(({part: name, why}) => `${name} (${why})`).join("; ")}.`) : null,
    groups.map((group) => {
      const [first] = group;
      const places = group.map((one) => element("li", {},
        element("code", {}, one.field), one.offset === null ? "" : ` at ${one.offset}`, `: ${one.what}`));
      return element(
        "article", {class: `finding ${first.severity}`},
        element("h3", {}, element("span", {class: ROLES[first.severity]}, `${SIGNS[first.severity]} ${first.severity}`),
          ` ${first.code}`, element("small", {}, first.source)),
        element("ul", {}, places.slice(0, 5)),
        places.length > 5 ? element("details", {}, element("summary", {}, `${places.length - 5} more like this`),
          element("ul", {}, places.slice(5))) : null,
        first.advice ? element("p", {class: "hint"}, first.advice) : null,
      );
    }),
  );
}

const CHANGES = {added: "+", removed: "−", changed: "~"};

function differenceTable(label, heads, rows) {
  const texts = new Texts(rows.map((row) => row.join("\t").replaceAll("\n", "⏎")).join("\n"), rows.length);
  const table = new Table({
    label, count: rows.length, searched: (text, marks) => texts.mark(text, marks),
    open: (row) => showDetail(rows[row][1], facts([["change", rows[row][0]]]),
      element("h3", {}, "Before"), element("pre", {tabindex: "0"}, rows[row][2] || "—"),
      element("h3", {}, "After"), element("pre", {tabindex: "0"}, rows[row][3] || "—")),
    columns: heads.map((head, at) => ({
      head, width: ["13%", "33%", "27%", "27%"][at], letters: at > 0,
      cell: (row) => (at ? rows[row][at].slice(0, 200).replaceAll("\n", "⏎")
        : element("span", {class: rows[row][0]}, `${CHANGES[rows[row][0]]} ${rows[row][0]}`)),
      sort: () => rows.map((row) => row[at]),
    })),
  });
  if (rows.length < 14) table.scroller.classList.add("short");
  return table.root;
}

/** The tokens from a little before the first that differs on, and how many there are. */
function around(tokens, first, label) {
  const begin = Math.max(first - 2, 0), end = first + 8;
  return element("p", {}, element("small", {}, label, begin ? `${counted(begin, "token")} … ` : ""),
    tokens.slice(begin, end).map((text, at) => element("code", {class: at % 2 ? "odd" : "even"}, text)),
    element("small", {}, end < tokens.length ? ` … ${grouped(tokens.length)} in all` : ""));
}

function comparison(found, files) {
  const {diff, compare} = found;
  const parts = [element("p", {class: "dim"}, `A is ${files[0].name}, B is ${files[1].name}.`)];
  const good = (is, text) => element("p", {class: is ? "good" : "warn"}, `${is ? "✓" : "~"} ${text}`);
  if (diff) {
    parts.push(element("h3", {}, "Files"), good(diff.equal, diff.verdict));
    if (diff.metadata.length) parts.push(differenceTable("Keys that differ", ["Change", "Key", "A", "B"],
      diff.metadata.map((one) => [one.change, one.key, one.before, one.after])));
    const side = (one, at) => `${one.types[at]} ${one.shapes[at].join("×")}`.trim();
    if (diff.tensors.length) parts.push(differenceTable("Tensors that differ", ["Change", "Tensor", "A", "B"],
      diff.tensors.map((one) => [one.change, one.name, side(one, 0), side(one, 1)])));
  }
  if (compare) {
    parts.push(element("h3", {}, "Tokenizers"), good(compare.equal, compare.equal
      ? `the same ids for ${counted(compare.texts, "text")}`
      : `other ids for ${compare.different} of ${counted(compare.texts, "text")}, ${grouped(compare.tokens[0])} and ${grouped(compare.tokens[1])} tokens in all`));
    for (const one of compare.differences) parts.push(element(
      "article", {class: "finding"}, element("h4", {}, `Text ${one.number}`, element("small", {}, one.stage)),
      element("p", {class: "letters"}, cut(one.text.replaceAll(" ", "·"), 300, 1)),
      ["left", "right"].map((name) => around(one[name].tokens, one.first, name === "left" ? "A " : "B ")),
    ));
  }
  if (!diff && !compare) parts.push(element("p", {}, "A model and a tokenizer have nothing to compare."));
  return section("comparison", "What differs", "", ...parts);
}
