// A tokenizer: stages, distributions, tokens, how merges make one, chat templates.

async function tokenSections(file) {
  const {tokens} = file;
  if (!tokens) {
    return file.error ? [section("tokens", "Tokens", "", element("p", {class: "bad"}, file.error))] : [];
  }
  const found = [tokenizer(tokens), await tokenTable(tokens)];
  if (file.templates.length) found.push(templates(file.templates));
  return found;
}

function tokenizer(tokens) {
  const remarks = [...tokens.warnings, ...tokens.assumptions.map((text) => `assumed: ${text}`)];
  return section(
    "tokenizer", "Tokenizer", tokens.title,
    element("ol", {class: "stages", "aria-label": "Stages, in the order of work"},
      tokens.stages.map(([stage, name, settings]) => element(
        "li", {}, element("small", {}, stage.replace("_", "-")), element("b", {}, name),
        settings.map(([key, value]) => element("span", {class: "setting"},
          `${key.replaceAll("_", " ")} `, element("code", {}, cut(value, 120, 1)))),
      )),
    ),
    tokens.special.length ? smallTable("Special ids", ["role", "id>", "token"],
      tokens.special.map(([role, id, text]) => [role, String(id), element("code", {class: "special"}, text)]),
    ) : null,
    remarks.length ? element("ul", {class: "dim"}, remarks.map((text) => element("li", {}, text))) : null,
    element("div", {class: "pair"},
      element("div", {}, element("h3", {}, "Length"), element("p", {class: "dim"}, "Characters of the tokens that stand for text."),
        histogram("Tokens by length in characters", tokens.lengths),
        element("details", {}, element("summary", {}, "The same as a table"), bars("Tokens by length in characters", tokens.lengths))),
      element("div", {}, element("h3", {}, "Script"), bars("Tokens by script", shortList(tokens.scripts, 12))),
    ),
  );
}

function shortList(rows, most) {
  if (rows.length <= most + 1) return rows;
  const rest = rows.slice(most).reduce((sum, [, value]) => sum + value, 0);
  return [...rows.slice(0, most), [`${rows.length - most} others`, rest]];
}

async function tokenTable(tokens) {
  const [texts, spelled, kind, script, bytes, scores] = await Promise.all([
    textsOf(tokens.text), tokens.same_spelling ? null : textsOf(tokens.spelling),
    numbersOf(tokens.kind), numbersOf(tokens.script), numbersOf(tokens.bytes),
    tokens.score ? numbersOf(tokens.score) : null,
  ]);
  const kinds = tokens.kind.names, scripts = tokens.script.names;
  const spelling = spelled ?? texts;
  const merges = tokens.merges ? new Merges(tokens.merges, spelling) : null;
  const special = kinds.map((name) => ["control", "unknown", "added"].includes(name));
  const all = (get) => () => Array.from({length: tokens.count}, (_, row) => get(row));
  const table = new Table({
    label: "Tokens", count: tokens.count,
    searched(text, marks) {
      const id = /^\d+$/.test(text) ? Number(text) : -1;
      if (id >= 0 && id < tokens.count) marks[id] = 1;
      texts.mark(text.replaceAll(" ", "·"), marks);
      if (spelled) spelled.mark(text.replaceAll(" ", "·"), marks);
    },
    open: (row) => token(row),
    idle: () => [texts, spelled].forEach((one) => one?.low()),
    columns: [
      {head: "Id", width: "8%", right: true, cell: (row) => String(row),
        sort: () => upTo(tokens.count)},
      {head: "Token", width: "32%", letters: true, cell: (row) => element(
        "span", {class: special[kind[row]] ? "special" : null}, texts.get(row)), sort: all((row) => texts.get(row))},
      ...(spelled ? [{head: "Spelling", width: "22%", letters: true, cell: (row) => spelled.get(row),
        sort: all((row) => spelled.get(row))}] : []),
      {head: "Type", width: "12%", cell: (row) => kinds[kind[row]].replace("_", " "), sort: all((row) => kinds[kind[row]])},
      {head: "Script", width: "13%", cell: (row) => scripts[script[row]].replace("_", " "),
        sort: all((row) => scripts[script[row]])},
      {head: "Bytes", width: "9%", right: true, cell: (row) => String(bytes[row]), sort: () => bytes},
      ...(scores ? [{head: "Score", width: "12%", right: true, sort: () => scores,
        cell: (row) => (Number.isNaN(scores[row]) ? "" : decimal(scores[row]))}] : []),
    ],
  });
  table.addChoice("Type", {names: kinds.map((name) => name.replace("_", " "))}, kind);
  table.addChoice("Script", {names: scripts.map((name) => name.replace("_", " "))}, script);

  async function token(row) {
    const drawn = element("div", {class: "trees"});
    showDetail(
      texts.get(row) || "(nothing)",
      facts([
        ["id", String(row)], ["type", kinds[kind[row]].replace("_", " ")],
        ["script", scripts[script[row]]], ["bytes", String(bytes[row])],
        ["spelling", spelled ? spelled.get(row) : ""],
        ["score", scores && !Number.isNaN(scores[row]) ? decimal(scores[row]) : ""],
      ]),
      element("h3", {}, "Merges"), drawn,
    );
    drawn.append(...await tree(row));
  }

  async function tree(row) {
    const said = (text) => [element("p", {class: "dim"}, text)];
    if (!merges) return said("The model of this tokenizer does not merge.");
    const text = row < tokens.merges.size ? unescaped(spelling.get(row)) : "";
    if (special[kind[row]] || !text) return said("It is found in the text as it is, not merged.");
    if ([...text].length > 256) return said("It is too long to be drawn.");
    await merges.ready();
    const {symbols, steps} = merges.run(text);
    const show = (node) => (node.id !== null && node.id < tokens.count ? texts.get(node.id)
      : printable(node.text));
    show.rank = (rank) => (tokens.merges.kind === "scores" ? `score ${decimal(-rank)}`
      : tokens.merges.kind === "ranks" ? null : `merge ${grouped(rank)}`);
    const note = symbols.length > 1
      ? `Merges leave ${symbols.length} tokens: they never make this one.`
      : steps.length ? `${counted(steps.length, "merge")}, the first at the bottom.`
        : "It is where merging begins.";
    return [...said(note), ...symbols.map((node) => element(
      "ul", {class: "tree"}, mergeTree(node, show),
    ))];
  }

  return section("tokens", "Tokens", grouped(tokens.count),
    element("p", {class: "dim"}, "A space is ·, a line break ⏎; a click on a token shows how merges make it."),
    table.root);
}

/** Bytes that are not valid UTF-8, of a part that is no token, as escapes. */
function printable(text) {
  return text.replace(/[\udc80-\udcff]/g, (byte) => `\\x${(byte.charCodeAt(0) - 0xdc00).toString(16)}`);
}

function templates(found) {
  return section(
    "templates", "Chat template", found.length > 1 ? grouped(found.length) : "",
    found.map((one) => element(
      "article", {}, found.length > 1 ? element("h3", {}, one.name) : null,
      one.error ? element("p", {class: "bad"}, one.error) : [
        element("p", {class: "dim"}, `A short conversation as the model reads it: ${counted(one.count, "token")}` +
          (one.tokens.length < one.count ? `, the first ${grouped(one.tokens.length)} of them` : "")),
        element("pre", {class: "example", tabindex: "0"}, one.tokens.map(([id, text, special], at) => element(
          "span", {class: special ? "special" : at % 2 ? "odd" : "even", title: `id ${id}`},
          text.replaceAll("⏎", "⏎\n").replaceAll("·", " "),
        ))),
      ],
      element("details", {}, element("summary", {}, "The template"), element("pre", {tabindex: "0"}, one.text)),
    )),
  );
}
