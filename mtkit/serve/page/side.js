// The list of conversations: search, rename, delete, export and import.

let turns = 0;

async function show_list() {
  const turn = (turns += 1), wanted = part("search").value.trim().toLowerCase();
  const all = await all_conversations();
  if (turn !== turns) return;  // a later call shows more
  const rows = wanted ? all.filter((row) => [row.title, ...row.nodes.map((node) => node.text)].some((text) => text.toLowerCase().includes(wanted))) : all;
  const items = [];
  let day = "";
  for (const row of rows) {
    const name = day_of(row.changed);
    if (name !== day) items.push(element("li", {class: "day"}, (day = name)));
    const is_open = row.id === chat.id;
    items.push(element("li", {class: is_open ? "open" : null},
      element("button", {type: "button", dir: "auto", "aria-current": is_open && "page", title: row.title, click: () => open_conversation(row.id)}, row.title || "New chat"),
      button(`Rename ${row.title}`, (event) => rename(row, event.currentTarget.closest("li")), "edit"),
      button(`Delete ${row.title}`, () => remove_conversation(row), "trash")));
  }
  part("list").replaceChildren(...items);
  part("none").textContent = rows.length ? "" : wanted ? "No conversation contains this." : "Conversations are kept in this browser.";
}

function day_of(time) {
  const days = Math.floor((new Date().setHours(24, 0, 0, 0) - time) / 86_400_000);
  return days < 1 ? "Today" : days < 2 ? "Yesterday" : days < 7 ? "Last 7 days" : days < 30 ? "Last 30 days" : "Older";
}

async function open_conversation(id) {
  const fields = running?.conversation.id === id ? null : await read_conversation(id);
  if (fields === undefined) return show_conversation(new Conversation());
  show_conversation(fields ? new Conversation(fields) : running.conversation);
}

function show_conversation(conversation) {
  chat = conversation;
  part("failure").replaceChildren();
  part("figures").textContent = "";
  views.clear();
  part("talk").replaceChildren();
  first_shown = null;
  render();
  to_end();
  show_list();
  close_side();
  part("text").focus();
}

/** Show the name in the tab and the header; its address brings the conversation back. */
function show_name() {
  part("title").textContent = chat.title;
  history.replaceState(null, "", chat.nodes.length ? `#${chat.id}` : location.pathname);
  document.title = [chat.title, part("name").textContent].filter(Boolean).join(" · ");
}

function rename(row, item) {
  const field = element("input", {"aria-label": "Title", dir: "auto", value: row.title, maxlength: "200"});
  let is_over = false;
  const end = async (is_kept) => {
    if (is_over) return;
    is_over = true;
    const title = field.value.trim();
    const own = row.id === chat.id ? chat : running?.conversation.id === row.id ? running.conversation : new Conversation(await read_conversation(row.id));
    if (is_kept && title) own.title = title;
    await save(own);
    show_name();
  };
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "Escape") end(event.key === "Enter");
  });
  field.addEventListener("blur", () => end(true));
  item.replaceChildren(field);
  field.focus();
  field.select();
}

async function remove_conversation(row) {
  const is_open = row.id === chat.id;
  for (const own of [chat, running?.conversation]) if (own?.id === row.id) own.is_deleted = true;
  if (running?.conversation.id === row.id) running.controller.abort();
  const fields = (await read_conversation(row.id)) ?? row;
  await delete_conversation(row.id);
  if (is_open) show_conversation(new Conversation());
  else show_list();
  toast(`“${row.title}” is deleted.`, "Undo", async () => {
    await write_conversation(new Conversation(fields));
    if (is_open) open_conversation(row.id);
    else show_list();
  });
}

function download(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  element("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

const file_name = (title, ending) => `${title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60) || "chat"}.${ending}`;

function export_json(name, conversations) {
  const rows = conversations.map((row) => (row instanceof Conversation ? row.fields() : row));
  download(name, JSON.stringify({form: FORM, conversations: rows}, null, 1), "application/json");
}

async function import_file(file) {
  try {
    const conversations = conversations_of(await file.text());
    for (const conversation of conversations) await write_conversation(conversation);
    toast(`${counted(conversations.length, "conversation")} imported.`);
    show_list();
  } catch (error) {
    show_failure(new Failure(`${file.name}: ${error.message}.`));
  }
}

const is_wide = () => matchMedia("(min-width: 50rem)").matches;

function watch_side() {
  part("open-side").setAttribute("aria-expanded", String(is_wide()));
  part("fresh").addEventListener("click", () => show_conversation(new Conversation()));
  part("search").addEventListener("input", show_list);
  part("export-all").addEventListener("click", async () => export_json("conversations.json", await all_conversations()));
  part("import").addEventListener("click", () => part("imported").click());
  part("imported").addEventListener("change", async () => {
    const [file] = part("imported").files;
    if (file) await import_file(file);
    part("imported").value = "";
  });
  part("export-json").addEventListener("click", () => export_json(file_name(chat.name(), "json"), [chat]));
  part("export-markdown").addEventListener("click", () => download(file_name(chat.name(), "md"), chat.markdown(), "text/markdown"));
  part("open-side").addEventListener("click", () => {
    const wide = is_wide(), has_class = document.body.classList.toggle(wide ? "side-closed" : "side-open");
    part("open-side").setAttribute("aria-expanded", String(has_class !== wide));
    if (!wide && has_class) part("fresh").focus();
  });
  part("shade").addEventListener("click", close_side);
}

function close_side() {
  document.body.classList.remove("side-open");
  if (!is_wide()) part("open-side").setAttribute("aria-expanded", "false");
}
