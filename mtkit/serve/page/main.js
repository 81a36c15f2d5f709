// What is pressed and typed, and the beginning.

function busy(is_now) {
  part("stop").hidden = !is_now;
  if (is_now && document.activeElement === part("send")) part("stop").focus();
  part("send").hidden = is_now;
  part("talk").setAttribute("aria-busy", String(is_now));
}

const can_fit = CSS.supports("field-sizing", "content");

/** Let the field grow with its text, where style alone does not. */
function fit_field() {
  if (can_fit) return;
  part("text").style.height = "auto";
  part("text").style.height = `${part("text").scrollHeight + 2}px`;
}

function is_send_key(event) {
  if (event.key !== "Enter" || event.isComposing || event.shiftKey) return false;
  return settings.enter === "enter" || event.ctrlKey || event.metaKey;
}

function open_settings(id = "") {
  for (const name of Object.keys(DEFAULTS)) if (part(name)) part(name).value = settings[name];
  part("settings").showModal();
  if (id) part(id).focus();
}

function edit_last() {
  const last = chat.path().findLast(({role}) => role === "user");
  if (!last) return;
  views.get(last.id)?.edit();
}

function start() {
  part("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (reading && !(await reading)) return;
    const text = part("text").value;
    if (text.trim() || attached.length) say(text);
  });
  let draft_timer = 0;
  part("text").addEventListener("input", () => {
    fit_field();
    clearTimeout(draft_timer);
    draft_timer = setTimeout(() => remember("draft", part("text").value), 300);
  });
  part("text").addEventListener("keydown", (event) => {
    if (is_send_key(event)) {
      event.preventDefault();
      part("form").requestSubmit();
    } else if (event.key === "ArrowUp" && !part("text").value) {
      event.preventDefault();
      edit_last();
    }
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      const menu = document.querySelector(".menu[open]");
      if (menu) menu.open = false;
      else if (document.body.classList.contains("side-open")) close_side();
      else if (!document.querySelector("dialog[open]") && !event.target.closest?.("form.edit, #list input")) running?.controller.abort();
    }
    if (event.key.toLowerCase() === "o" && event.shiftKey && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      part("fresh").click();
    }
  });
  addEventListener("click", (event) => {
    const menu = document.querySelector(".menu[open]");
    if (menu && !event.target.closest(".menu > summary")) menu.open = false;
  });
  part("stop").addEventListener("click", () => running?.controller.abort());
  part("down").addEventListener("click", to_end);
  main().addEventListener("scroll", () => (part("down").hidden = is_at_end()), {passive: true});
  part("open-settings").addEventListener("click", () => open_settings());
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close();
    });
  }
  part("close-settings").addEventListener("click", () => part("settings").close());
  for (const name of Object.keys(DEFAULTS)) part(name)?.addEventListener("change", () => keep_setting(name, part(name).value));
  part("reset").addEventListener("click", () => {
    const {key, theme, enter, model} = settings;
    Object.assign(settings, DEFAULTS, {key, theme, enter, model});
    part("settings").close();
    remember("settings", settings);
    open_settings();
  });
  part("delete").addEventListener("click", () => chat.nodes.length && remove_conversation(chat));
  addEventListener("pagehide", () => running && write_conversation(running.conversation));
  addEventListener("offline", go_offline);
  watch_files();
  watch_side();
  show_settings();
  part("text").value = remembered("draft", "");
  fit_field();
  const id = location.hash.slice(1);
  render();
  describe_server();
  open_store().then(async () => {
    if (id) await open_conversation(id);
    else show_list();
  });
}

start();
