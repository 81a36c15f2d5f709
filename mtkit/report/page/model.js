// A GGUF: sizes, tensors, metadata.

async function modelSections(file) {
  const {model} = file, {inspect} = model;
  const tensors = model.tensors.count ? await tensorTable(file) : null;
  const found = [];
  if (tensors) found.push(sizes(model, inspect, tensors), tensors.section);
  found.push(metadata(model.metadata));
  return found;
}

function sizes(model, inspect, tensors) {
  const {layers} = model, types = inspect.quantization.map((mix) => mix.type);
  const groups = layers.map((name) => ({name, parts: []}));
  if (model.tensors.count <= MOST_TILES) {
    tensors.rows.forEach(({name, layer, type, bytes}, row) => groups[layer].parts.push({
      name: shortName(name, layers[layer]), value: bytes, color: types.indexOf(type),
      says: `${name}, ${type}: ${size(bytes)}`, open: () => tensors.open(row),
    }));
  } else {
    for (const [layer, type, many, , bytes] of model.sizes) groups[layer].parts.push({
      name: type, value: bytes, color: types.indexOf(type),
      says: `${layers[layer]}, ${type}: ${size(bytes)}, ${counted(many, "tensor")}`,
      open: () => tensors.choose(layer, type),
    });
  }
  const total = inspect.memory.weights;
  return section(
    "sizes", "Sizes", `${size(total)} in ${counted(inspect.quantization.reduce(
      (sum, mix) => sum + mix.tensors, 0), "tensor")}`,
    element("p", {class: "dim"}, "Each box is a layer, each tile in it as large as its bytes, " +
      "with the color of its type. A click, or Enter, shows it; arrow keys go from tile to tile."),
    element("ul", {class: "legend"}, types.map((type, at) => element(
      "li", {}, element("span", {class: `swatch ${color(at)}`}), type,
    ))),
    treemap("Bytes by layer and type", groups),
    element("details", {}, element("summary", {}, "The same as a table"), smallTable(
      "Bytes by layer and type", ["layer", "type", "tensors>", "parameters>", "bytes>", "share>"],
      model.sizes.slice(0, 2000).map(([layer, type, many, parameters, bytes]) => [
        layers[layer], type, grouped(many), amount(parameters), size(bytes), percent(bytes / total),
      ]),
    )),
    element("h3", {}, "Quantization"),
    stacked("Bytes by type", inspect.quantization.map((mix) => [mix.type, mix.bytes])),
    smallTable(
      "Types", ["type", "tensors>", "parameters>", "bytes>", "bits per weight>", "share>"],
      inspect.quantization.map((mix) => [
        mix.type, grouped(mix.tensors), amount(mix.parameters), size(mix.bytes),
        mix.parameters ? (8 * mix.bytes / mix.parameters).toFixed(2) : "", percent(mix.bytes / total),
      ]),
    ),
    element("h3", {}, "Purpose"),
    bars("Bytes by purpose", Object.entries(inspect.places), size),
  );
}

/** What is left of a tensor's name inside its layer: attn_q. */
function shortName(name, layer) {
  return (/\d$/.test(layer) ? name.replace(`${layer}.`, "") : name).replace(/\.weight$/, "");
}

async function tensorTable(file) {
  const {model} = file, columns = model.tensors, {layers, values} = model;
  const [names, shapes] = [await textsOf(columns.name), await textsOf(columns.shape)];
  const [layer, type, parameters, bytes, offset] = await Promise.all(
    ["layer", "type", "parameters", "bytes", "offset"].map((name) => numbersOf(columns[name])),
  );
  const kinds = columns.type.names;
  const all = (get) => () => Array.from({length: columns.count}, (_, row) => get(row));
  const table = new Table({
    label: "Tensors", count: columns.count, searched: (text, marks) => names.mark(text, marks),
    open: (row) => tensor(row),
    columns: [
      {head: "Name", width: "36%", letters: true, cell: (row) => names.get(row),
        sort: all((row) => names.get(row))},
      {head: "Layer", width: "12%", cell: (row) => layers[layer[row]], sort: () => layer},
      {head: "Type", width: "10%", cell: (row) => kinds[type[row]],
        sort: all((row) => kinds[type[row]])},
      {head: "Shape", width: "17%", title: "the fastest axis first", right: true, cell: (row) => shapes.get(row),
        sort: () => parameters},
      {head: "Parameters", width: "12%", right: true, cell: (row) => amount(parameters[row]),
        sort: () => parameters},
      {head: "Bytes", width: "13%", right: true, cell: (row) => size(bytes[row]), sort: () => bytes},
    ],
  });
  const byLayer = table.addChoice("Layer", {names: layers}, layer);
  const byType = table.addChoice("Type", columns.type, type);

  function tensor(row) {
    const found = values?.[row];
    showDetail(
      names.get(row),
      facts([
        ["layer", layers[layer[row]]], ["type", kinds[type[row]]],
        ["shape", shapes.get(row)], ["parameters", grouped(parameters[row])],
        ["bytes", grouped(bytes[row])], ["offset in the data", grouped(offset[row])],
      ]),
      found === undefined ? element("p", {class: "dim"},
        "mtkit report --histograms shows the values of tensors.") : tensorValues(found),
    );
  }

  function choose(wanted, kind) {
    for (const [select, value] of [[byLayer, wanted], [byType, kinds.indexOf(kind)]]) {
      select.value = String(value);
      select.dispatchEvent(new Event("change"));
    }
    part("tensors").scrollIntoView();
    byLayer.focus({preventScroll: true});
  }

  const rows = columns.count <= MOST_TILES ? Array.from({length: columns.count}, (_, row) => (
    {name: names.get(row), layer: layer[row], type: kinds[type[row]], bytes: bytes[row]}
  )) : [];
  const made = section("tensors", "Tensors", grouped(columns.count), table.root);
  return {section: made, rows, choose, open: tensor};
}

function tensorValues(found) {
  if (typeof found === "string") return element("p", {}, found);
  const rows = found.bins.map(([low, high, many]) => [
    `${decimal(low)} to ${decimal(high)}`, many,
  ]);
  return [
    facts([
      ["least", decimal(found.least)], ["greatest", decimal(found.greatest)],
      ["mean", decimal(found.mean)], ["deviation", decimal(found.deviation)],
      ["zeros", grouped(found.zeros)],
      ["not finite", found.nan + found.infinite
        ? `${grouped(found.nan)} NaN, ${grouped(found.infinite)} infinite` : "none"],
    ]),
    rows.length ? histogram("How often values occur", found.bins.map(
      ([low, , many], at) => [at % 4 ? "" : decimal(Number(low.toPrecision?.(2) ?? low)), many],
    )) : null,
    rows.length ? element("details", {}, element("summary", {}, "The same as a table"),
      bars("Values", rows)) : null,
  ];
}

function metadata(rows) {
  const texts = new Texts(rows.map((row) => row.join("\t").replaceAll("\n", "⏎")).join("\n"), rows.length);
  const table = new Table({
    label: "Metadata", count: rows.length, searched: (text, marks) => texts.mark(text, marks),
    open: (row) => showDetail(
      rows[row][0], element("p", {class: "dim"}, rows[row][1]),
      element("pre", {tabindex: "0"}, rows[row][2]),
    ),
    columns: [
      {head: "Key", width: "38%", letters: true, cell: (row) => rows[row][0],
        sort: () => rows.map((row) => row[0])},
      {head: "Type", width: "10%", cell: (row) => rows[row][1], sort: () => rows.map((row) => row[1])},
      {head: "Value", width: "52%", letters: true,
        cell: (row) => rows[row][2].slice(0, 300).replaceAll("\n", "⏎"),
        sort: () => rows.map((row) => row[2])},
    ],
  });
  if (rows.length < 14) table.scroller.classList.add("short");
  return section("metadata", "Metadata", counted(rows.length, "key"), table.root);
}
