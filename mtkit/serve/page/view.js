// Messages on the screen. Long conversations are built from their end, the rest while nothing else happens.

const RECENT = 30, CHUNK_MS = 12;
const has_anchor = CSS.supports("overflow-anchor", "auto");
const views = new Map();
const [later, cancel_later] = window.requestIdleCallback ? [requestIdleCallback, cancelIdleCallback] : [(act) => setTimeout(act, 50), clearTimeout];
let first_shown = null, idle = 0;

class MessageView {
  constructor(node) {
    this.node = node;
    this.is_first = false;  // of those that are sent
    this.body = element("div", {class: "body", dir: "auto"});
    this.row = element("div", {class: "row"});
    const name = {user: "You", assistant: "Assistant", tool: "Result of a tool"}[node.role];
    this.article = element("article", {class: node.role, "data-id": node.id}, element("h2", {class: node.role === "tool" ? null : "hidden"}, name));
    if (node.role === "assistant") {
      this.summary = element("summary");
      const inner = element("div", {class: "text"});
      this.thought = element("details", {class: "thought", hidden: true}, this.summary, inner);
      this.thoughts = new Markdown(inner);
      this.markdown = new Markdown(this.body);
      this.calls = element("div", {class: "calls"});
      this.notice = element("p", {class: "notice"});
      this.article.append(this.thought);
    }
    const files = (node.files ?? []).map((file) => file.url ? element("img", {class: "picture", src: file.url, alt: file.name, load: () => part("down").hidden && to_end()}) : element("details", {class: "file"},
      element("summary", {}, icon("file"), element("span", {dir: "auto"}, file.name)), element("pre", {dir: "auto", tabindex: "0"}, file.text)));
    this.article.append(...files, this.body, ...(this.markdown ? [this.calls, this.notice] : []), this.row);
    this.update(running?.node === node);
    this.fill_row();
  }

  /** Show what the message is now. */
  update(is_running) {
    const {node} = this;
    this.article.classList.toggle("running", is_running);
    if (this.markdown) {
      this.thought.hidden = !node.reasoning;
      if (node.reasoning) {
        const is_thinking = is_running && !node.text && !node.calls?.length;
        this.summary.textContent = is_thinking ? "Thinking …" : node.seconds !== undefined ? `Thought for ${duration(node.seconds)}` : "Thoughts";
        this.thoughts.update(node.reasoning);
      }
      if (!this.has_tokens) this.markdown.update(node.text);
      if (node.calls) this.show_calls(is_running);
      this.show_notice(is_running);
    } else this.body.textContent = node.text;
    if (!is_running && this.figures) this.figures.textContent = node.figures ?? "";
  }

  show_calls(is_running) {
    const {node} = this, fields = [];
    const is_last = !is_running && !chat.children(node.id).length;
    const cards = node.calls.map((call) => {
      let text = call.arguments;
      try {
        text = JSON.stringify(JSON.parse(call.arguments), null, 2);
      } catch {}  // it is not complete, or no JSON
      const {code, node: block} = code_block(text, "json");
      const field = element("textarea", {rows: "2", "aria-label": `Result of ${call.name}`, placeholder: "Result"});
      if (is_last) fields.push(field);
      return element("section", {class: "call", "aria-label": `Call of ${call.name}`}, element("h3", {}, icon("tool"), call.name), text && block, is_last ? field : null);
    });
    if (is_last) cards.push(button("Send results", () => send_results(node, fields.map((field) => field.value))));
    this.calls.replaceChildren(...cards);
  }

  show_notice(is_running) {
    const {finish = ""} = this.node;
    const limit = settings.max_tokens ? ` of ${counted(Number(settings.max_tokens), "token")}` : "";
    const text = {
      length: `Cut: the answer reached the limit${limit}.`,
      context: "Cut: the context is full. To continue, the oldest messages are left out.",
      stopped: "Stopped.",
    }[finish] ?? (finish.startsWith("error: ") ? `Incomplete. ${finish.slice(7)}` : "");
    this.notice.hidden = is_running || !text;
    if (this.notice.hidden) this.notice.replaceChildren();
    else this.notice.replaceChildren(element("span", {}, text), this.node.calls?.length ? "" : button("Continue", () => continue_answer(this.node)));
  }

  /** Fill the row of what can be done with the message. */
  fill_row() {
    const {node} = this;
    const copy = button("Copy", () => copy_text(node.text || JSON.stringify(node.calls), copy), "copy");
    this.figures = element("span", {class: "figures"}, node.figures ?? "");
    this.tokens = button("Tokens", () => this.toggle_tokens(), "tokens", {"aria-pressed": "false"});
    this.branches = element("span", {class: "branches"});
    this.row.append(this.branches, copy, button("Edit", () => this.edit(), "edit"),
      node.role === "assistant" ? button("Regenerate", () => regenerate(node), "again") : "",
      this.tokens, button("Delete", () => delete_message(node), "trash"), this.figures);
    this.mark();
  }

  /** Show which of several branches this is, and what is above it. */
  mark() {
    const siblings = chat.children(this.node.parent);
    const is_first = this.node.id === chat.first && this.node.parent !== null;
    if (is_first !== this.is_first) {
      this.is_first = is_first;
      this.article.querySelector(".dropped")?.remove();
      const text = `Messages above are no longer sent: the context${server.context ? ` of ${server.context.toLocaleString("en")} tokens` : ""} is full.`;
      if (is_first) this.article.prepend(element("p", {class: "dropped", role: "note"}, text));
    }
    const at = siblings.indexOf(this.node), count = siblings.length;
    const state = `${at + 1}/${count}`;
    if (this.state === state) return;
    this.state = state;
    const step = (by) => async () => {
      chat.choose(siblings[at + by]);
      render();
      save(chat);
      views.get(siblings[at + by].id)?.row.querySelector(`.branches button:nth-of-type(${by < 0 ? 1 : 2})`)?.focus();
    };
    const arrows = count < 2 ? [] : [
      button("Previous branch", step(-1), "left", {disabled: at === 0}), element("span", {}, state),
      button("Next branch", step(1), "right", {disabled: at === count - 1})];
    this.branches.replaceChildren(...arrows);
  }

  async toggle_tokens() {
    const is_on = !this.has_tokens;
    try {
      if (is_on) this.figures.textContent = await show_tokens(this.node, this.body);
    } catch (error) {
      return show_failure(error);
    }
    this.has_tokens = is_on;
    this.tokens.setAttribute("aria-pressed", String(is_on));
    if (is_on) return;
    this.markdown?.clear();
    this.update(false);
    this.figures.textContent = this.node.figures ?? "";
  }

  edit() {
    if (this.article.querySelector("form")) return;
    const {node} = this;
    const field = element("textarea", {dir: "auto", "aria-label": "Edited message"});
    field.value = node.text;
    const close = () => {
      form.replaceWith(this.body);
      this.row.hidden = false;
      this.row.querySelector("[aria-label=Edit]").focus();
    };
    const form = element("form", {class: "edit", submit: (event) => {
      event.preventDefault();
      if (field.value === node.text) return close();
      if (is_busy()) return;
      close();
      const {role, files, reasoning, seconds, calls, call} = node;
      const own = {role, text: field.value, ...Object.fromEntries(Object.entries({files, reasoning, seconds, calls, call}).filter(([, value]) => value))};
      const branch = chat.add(node.parent, own);
      if (role === "user") reply_to(branch);
      else render();
      save(chat);
    }}, field, element("div", {class: "row"}, element("button", {class: "main"}, node.role === "user" ? "Send" : "Save"), button("Cancel", close)));
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") close();
      if (is_send_key(event)) {
        event.preventDefault();
        form.requestSubmit();
      }
    });
    this.body.replaceWith(form);
    this.row.hidden = true;
    field.focus();
  }
}

function duration(seconds) {
  return seconds < 10 ? `${seconds.toFixed(1)} s` : seconds < 60 ? `${Math.round(seconds)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

/** Show the chosen branch: what is there stays, what differs is built. */
function render() {
  const path = chat.path(), talk = part("talk");
  let start = path.findIndex(({id}) => id === first_shown);
  if (start < 0) start = Math.max(0, path.length - RECENT);
  first_shown = path[start]?.id ?? null;
  const nodes = path.slice(start);
  let same = 0;
  while (same < nodes.length && talk.children[same]?.dataset.id === String(nodes[same].id) && views.get(nodes[same].id)?.node === nodes[same]) same += 1;
  while (talk.children.length > same) {
    views.delete(Number(talk.lastChild.dataset.id));
    talk.lastChild.remove();
  }
  for (const view of views.values()) view.mark();
  talk.append(...nodes.slice(same).map(view_of));
  document.body.classList.toggle("empty", path.length === 0);
  show_name();
  cancel_later(idle);
  if (start > 0) idle = later(() => build_older(path, start));
}

function view_of(node) {
  const view = new MessageView(node);
  views.set(node.id, view);
  return view.article;
}

function build_older(path, start) {
  const end = performance.now() + CHUNK_MS, articles = [];
  while (start > 0 && performance.now() < end) articles.push(view_of(path[(start -= 1)]));
  const from_end = has_anchor || main().scrollHeight - main().scrollTop;
  part("talk").prepend(...articles.reverse());
  if (!has_anchor) main().scrollTop = main().scrollHeight - from_end;
  first_shown = path[start].id;
  if (start > 0) idle = later(() => build_older(path, start));
}

const main = () => part("main");
const is_at_end = () => main().scrollHeight - main().scrollTop - main().clientHeight < 80;

function to_end() {
  main().scrollTop = main().scrollHeight;
}

/** Change what is shown, and stay at the end if that is where the reader is. */
function follow(change) {
  const is_following = is_at_end();
  change();
  if (is_following) to_end();
  part("down").hidden = is_at_end();
}

function delete_message(node) {
  if (running?.conversation === chat) running.controller.abort();
  const conversation = chat, before = structuredClone(chat.fields());
  chat.remove(node);
  render();
  save(chat);
  part("text").focus();
  toast("The message and what followed it are deleted.", "Undo", () => {
    Object.assign(conversation, before);
    conversation.index();
    save(conversation);
    if (chat === conversation) render();
  });
}

function show_failure(error) {
  const actions = error.status === 401 ? [button("Open settings", () => open_settings("key"))] : [];
  if (!(error instanceof Failure)) console.error(error);
  part("failure").replaceChildren(element("p", {}, error.message), ...actions,
    button("Close", () => part("failure").replaceChildren(), "close"));
}
