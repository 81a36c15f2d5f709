// The tokens of a message in colors; a click on one of an answer shows what could be in its place.

async function show_tokens(node, body) {
  const {tokens} = await (await post("/tokenize", {model: settings.model || "served", content: node.text, parse_special: false, with_pieces: true})).json();
  const view = element("div", {class: "tokens", dir: "auto"});
  let before = "";
  for (const {id, piece} of tokens) {
    const is_part = Array.isArray(piece);  // of a character
    const text = is_part ? piece.map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("") : piece.replaceAll("\n", "⏎\n");
    const prefix = before;
    const shown = {title: `${id}`, class: is_part ? "control" : null};
    if (node.role !== "assistant" || is_part) view.append(element("span", shown, text));
    else view.append(element("button", {...shown, type: "button", click: (event) => show_alternatives(node, prefix, event.currentTarget)}, text));
    before += is_part ? "" : piece;
  }
  body.replaceChildren(view);
  return counted(tokens.length, "token");
}

/** Ask how probable other tokens are behind a part of an answer; choosing one is a new branch. */
async function show_alternatives(node, prefix, token) {
  const panel = part("alternatives");
  panel.replaceChildren(element("p", {role: "status"}, "…"));
  panel.showModal();
  try {
    const body = {...request_settings(), ...messages_of(node, prefix), max_tokens: 1, logprobs: true, top_logprobs: 8, stream: false};
    delete body.response_format;
    const {choices: [choice]} = await (await post("/v1/chat/completions", body)).json();
    const rows = choice.logprobs?.content?.[0]?.top_logprobs ?? [];
    if (!rows.length) throw new Failure("The server sent no probabilities for this place.");
    const parts = rows.map((row) => {
      const share = Math.exp(row.logprob);
      const meter = element("meter", {min: 0, max: 1, value: share, "aria-hidden": "true"});
      const label = row.token.replaceAll("\n", "⏎") || "end of the answer";
      const figure = `${(100 * share).toFixed(share < .0995 ? 1 : 0)} %`;
      return element("li", {}, element("button", {
        type: "button", "aria-pressed": String(row.token === token.textContent.replace("⏎\n", "\n")),
        click: () => { panel.close(); if (row.token) branch_from(node, prefix + row.token); },
      }, element("code", {}, label), meter, element("span", {}, figure)));
    });
    panel.replaceChildren(element("h2", {}, "Instead of this token"), element("ol", {}, parts),
      element("p", {}, "Choose one to continue from it in a new branch."), button("Close", () => panel.close()));
    panel.querySelector("button").focus();
  } catch (error) {
    panel.replaceChildren(element("p", {class: "error"}, error.message), button("Close", () => panel.close()));
  }
}
