// Asking and answering: what is sent, what arrives, and what is left out when the context is full.

let chat = new Conversation();
let running = null;  // the answer that is being written: its conversation, message and way to stop it

/** Return the messages of a request that ends before a message, or inside it behind a text. */
function messages_of(node, prefix = null, conversation = chat) {
  const path = conversation.path(node.id).slice(0, -1);
  const start = Math.max(0, path.findIndex(({id}) => id === conversation.first));
  const turn = path.findLastIndex(({role}) => role === "user");  // reasoning of earlier turns is not sent
  const messages = path.slice(start).map((row, at) => message_of(row, at + start > turn));
  const system = settings.system.trim();
  if (system) messages.unshift({role: "system", content: system});
  if (prefix === null || !(prefix || node.reasoning)) return {messages};
  const begun = {role: "assistant", content: prefix, ...(node.reasoning && {reasoning_content: node.reasoning})};
  return {messages: [...messages, begun], continue_final_message: true};
}

function message_of(node, with_reasoning) {
  if (node.role === "tool") return {role: "tool", tool_call_id: node.call, content: node.text};
  const files = node.files ?? [], pictures = files.filter(({url}) => url);
  const content = [...files.filter(({url}) => !url).map(file_block), node.text].join("\n");
  const seen = pictures.map(({url}) => ({type: "image_url", image_url: {url}}));
  if (node.role === "user") return {role: "user", content: seen.length ? [...seen, {type: "text", text: content}] : content};
  const calls = (node.calls ?? []).map((call) => ({id: call.id, type: "function", function: {name: call.name, arguments: call.arguments}}));
  return {role: "assistant", content, ...(calls.length && {tool_calls: calls}), ...(with_reasoning && node.reasoning && {reasoning_content: node.reasoning})};
}

/** Leave out the oldest exchanges until about three quarters of the context are taken. */
function drop_oldest(conversation, node, tokens, most) {
  const path = conversation.path(node.id);
  const start = Math.max(0, path.findIndex(({id}) => id === conversation.first));
  const shortened = (key, value) => key === "url" ? value.slice(0, 1000) : value;
  const sizes = path.map((row) => 20 + JSON.stringify(message_of(row, false), shortened).length);
  const sum = (from) => sizes.slice(from).reduce((total, size) => total + size, settings.system.length);
  const whole = sum(start);
  const turns = [...path.keys()].filter((at) => at > start && path[at].role === "user" && path[at] !== node);
  if (!turns.length) return false;
  const place = turns.find((at) => tokens * sum(at) / whole <= 0.75 * most) ?? turns.at(-1);
  conversation.first = path[place].id;
  if (chat === conversation) render();
  announce("The context is full: the oldest messages are no longer sent");
  return true;
}

/** Do so ahead where the last answer says that the next would have no room. */
function drop_ahead(conversation, node) {
  const path = conversation.path(node.id), last = path.findLastIndex((row) => row.total && row !== node);
  const from = path.findIndex(({id}) => id === conversation.first);
  if (!server.context || last < Math.max(from, 0)) return;
  const added = path.slice(last + 1, -1).reduce((total, row) => total + message_of(row).content.length, 0);
  const tokens = path[last].total + Math.ceil(added / 3);
  const dropped = path.slice(0, last).findLastIndex(({id}) => id === conversation.first);
  if (dropped >= 0 && path[last].first !== conversation.first) return;  // its figure counts what is gone since
  if (tokens > server.context - Math.min(server.context / 8, 512)) drop_oldest(conversation, node, tokens, server.context);
}

async function ask(own, options, node, prefix) {
  const {conversation} = own;
  if (prefix === null) drop_ahead(conversation, node);
  for (;;) {
    const body = {...options, stream: true, stream_options: {include_usage: true}, ...messages_of(node, prefix, conversation)};
    try {
      return await post("/v1/chat/completions", body, own.controller.signal);
    } catch (error) {
      const {n_prompt_tokens: tokens, n_ctx: most} = error.details ?? {};
      if (!tokens) throw error;
      if (!drop_oldest(conversation, node, tokens, most)) {
        throw new Failure(`This message alone has ${counted(tokens, "token")}, and the context holds ${most.toLocaleString("en")}. Shorten it, or start the server with a larger -c.`);
      }
    }
  }
}

/** Have a message answered; return whether anything arrived. A prefix continues the message of that text. */
async function answer(conversation, node, prefix = null) {
  const own = running = {conversation, node, controller: new AbortController()};
  busy(true);
  const began = performance.now();
  let count = 0, frame = 0, last = null, thinking = 0, thought = node.seconds ?? 0, failure = null;
  const paint = () => {
    frame = 0;
    if (chat !== conversation) return;
    follow(() => views.get(node.id)?.update(true));
    const seconds = (performance.now() - began) / 1000;
    part("figures").textContent = count ? `${counted(count, "token")} · ${(count / seconds).toFixed(1)} tokens/s` : "";
  };
  try {
    const options = request_settings();
    const reply = await ask(own, options, node, prefix);
    if (prefix !== null) node.text = prefix;
    [node.finish, node.figures] = ["", ""];
    for await (const event of events(reply)) {
      if (own.controller.signal.aborted) break;
      if (event.error) throw new Failure(`The answer ended with an error: ${event.error.message}.`, {error: event.error});
      const [choice] = event.choices ?? [];
      if (choice) {
        const {delta = {}} = choice;
        if (delta.reasoning_content) {
          thinking ||= performance.now();
          node.reasoning = (node.reasoning ?? "") + delta.reasoning_content;
          node.seconds = thought + (performance.now() - thinking) / 1000;
        }
        if (delta.content) node.text += delta.content;
        for (const call of delta.tool_calls ?? []) {
          const calls = (node.calls ??= []);
          const row = (calls[call.index] ??= {id: "", name: "", arguments: ""});
          row.id ||= call.id ?? "";
          row.name += call.function?.name ?? call.custom?.name ?? "";
          row.arguments += call.function?.arguments ?? call.custom?.input ?? "";
        }
        if (delta.content || delta.reasoning_content || delta.tool_calls) count += 1;
        if (choice.finish_reason) node.finish = choice.finish_reason;
      }
      if (event.usage) last = event;
      frame ||= requestAnimationFrame(paint);  // once a frame: tokens can come by the thousand a second
      if (count % 50 === 49) save_later(conversation);
    }
  } catch (error) {
    if (!own.controller.signal.aborted) failure = error;
  }
  cancelAnimationFrame(frame);
  if (own.controller.signal.aborted) node.finish = "stopped";
  else if (failure) node.finish = `error: ${failure.message}`;
  if (last) {
    node.figures = figures(last);
    node.total = last.usage.total_tokens;
    node.first = conversation.first;
    const is_full = server.context && node.total >= server.context - 1;
    if (node.finish === "length") node.finish = is_full ? "context" : "length";
  }
  node.model = part("name").textContent;
  const is_empty = !node.text && !node.reasoning && !node.calls?.length;
  const is_kept = !failure || !is_empty;
  if (!is_kept) conversation.remove(node);
  running = null;
  busy(false);
  if (failure) show_failure(failure);
  if (chat === conversation) {
    part("figures").textContent = "";
    follow(() => {
      views.get(node.id)?.update(false);
      render();
    });
    if (is_kept) announce(node.text ? `Answer: ${node.text.slice(0, 1000)}` : "The answer is complete");
    if (document.activeElement === document.body || document.activeElement === part("stop")) part("text").focus();
  }
  conversation.changed = Date.now();
  save(conversation);
  return is_kept;
}

function figures(last) {
  const {usage} = last, {predicted_per_second: speed, drafting} = last.timings ?? {};
  const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
  return [
    counted(usage.completion_tokens, "token"),
    speed ? `${speed.toFixed(1)} tokens/s` : "",
    `prompt ${usage.prompt_tokens.toLocaleString("en")}, ${cached.toLocaleString("en")} from the cache`,
    drafting ? `${drafting.accepted} of ${counted(drafting.drafted, "drafted token")} accepted` : "",
    drafting?.triggers ? `triggered ${drafting.triggers} times` : "",
    drafting?.dynamic_vocabulary ? `dynamic vocabulary ${drafting.dynamic_vocabulary}` : "",
  ].filter(Boolean).join(" · ");
}

function is_busy() {
  if (running) toast(`Wait for the answer in “${running.conversation.name()}”, or stop it.`);
  return running !== null;
}

/** Write a new answer behind a message. */
async function reply_to(node, fields = {}, prefix = null) {
  if (is_busy()) return false;
  part("failure").replaceChildren();
  const conversation = chat;
  const next = conversation.add(node.id, {role: "assistant", ...fields});
  render();
  to_end();
  announce("The model answers");
  return answer(conversation, next, prefix);
}

async function say(text) {
  if (is_busy()) return;
  if (!server.sees && attached.some(({url}) => url)) return show_failure(new Failure(`${attached.find(({url}) => url).name}: ${BLIND}`));
  const conversation = chat, files = attached.splice(0);
  show_attached();
  const parent = conversation.path().at(-1)?.id ?? null, title = conversation.title;
  const node = conversation.add(parent, {role: "user", text, ...(files.length && {files})});
  conversation.entitle(text || files[0].name);
  part("text").value = "";
  fit_field();
  const is_answered = await reply_to(node);
  if (is_answered) {
    remember("draft", "");
    return;
  }
  conversation.remove(node);  // as if it had not been asked
  conversation.title = title;
  save(conversation);
  if (chat !== conversation) return;
  render();
  part("text").value = part("text").value ? `${text}\n${part("text").value}` : text;
  attached.unshift(...files);
  show_attached();
  fit_field();
  part("text").focus();
}

function regenerate(node) {
  const parent = chat.by_id.get(node.parent);
  return reply_to(parent);
}

/** Continue an answer where it ends. */
async function continue_answer(node) {
  if (is_busy()) return;
  part("failure").replaceChildren();
  node.finish = "";
  views.get(node.id)?.update(true);
  await answer(chat, node, node.text);
}

/** Continue from another text of an answer in a new branch. */
function branch_from(node, text) {
  const parent = chat.by_id.get(node.parent);
  return reply_to(parent, {text, reasoning: node.reasoning, seconds: node.seconds}, text);
}

async function send_results(node, texts) {
  if (is_busy()) return;
  let last = node;
  node.calls.forEach((call, at) => (last = chat.add(last.id, {role: "tool", call: call.id, text: texts[at]})));
  await reply_to(last);
}

const save_timers = new Map();

function save_later(conversation) {
  if (!save_timers.has(conversation.id)) save_timers.set(conversation.id, setTimeout(() => save(conversation), 500));
}

async function save(conversation) {
  clearTimeout(save_timers.get(conversation.id));
  save_timers.delete(conversation.id);
  if (conversation.is_deleted) return;
  if (conversation.nodes.length) await write_conversation(conversation);
  else await delete_conversation(conversation.id);
  await show_list();
}
