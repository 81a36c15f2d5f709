// A conversation is a tree: an edited or repeated message is a branch beside the old one.

const FORM = "mtkit-conversations-1";

class Conversation {
  constructor(fields = {}) {
    const now = Date.now();
    const id = now.toString(36) + Math.random().toString(36).slice(2, 8);
    Object.assign(this, {id, title: "", created: now, changed: now, chosen: null, first: null, nodes: []}, fields);
    this.index();
  }

  index() {
    this.by_id = new Map(this.nodes.map((node) => [node.id, node]));
    this.below = new Map();
    for (const node of this.nodes) {
      const {parent} = node;
      if (this.below.has(parent)) this.below.get(parent).push(node);
      else this.below.set(parent, [node]);
    }
  }

  children(id) {
    return this.below.get(id) ?? [];
  }

  /** Return the messages that are shown, from the first to the last. */
  path(until = undefined) {
    const nodes = [];
    for (let at = null, chosen = this.chosen; ; ) {
      const children = this.children(at);
      const node = children.find((child) => child.id === chosen) ?? children.at(-1);
      if (!node) return nodes;
      nodes.push(node);
      if (node.id === until) return nodes;
      [at, chosen] = [node.id, node.chosen];
    }
  }

  add(parent, fields) {
    const id = 1 + this.nodes.reduce((most, node) => Math.max(most, node.id), 0);
    const node = {id, parent, chosen: null, text: "", time: Date.now(), ...fields};
    this.nodes.push(node);
    this.index();
    this.choose(node);
    return node;
  }

  choose(node) {
    const holder = node.parent === null ? this : this.by_id.get(node.parent);
    holder.chosen = node.id;
  }

  /** Remove a message and what follows it. */
  remove(node) {
    const siblings = this.children(node.parent).filter((other) => other !== node);
    const gone = new Set([node.id]);
    for (const other of this.nodes) if (gone.has(other.parent)) gone.add(other.id);  // parents come first
    this.nodes = this.nodes.filter((other) => !gone.has(other.id));
    this.index();
    if (siblings.length) this.choose(siblings.at(-1));
  }

  name() {
    return this.title || "New chat";
  }

  /** Name it by its first message, until somebody names it. */
  entitle(text) {
    if (!this.title) this.title = text.trim().split("\n")[0].slice(0, 60) || "New chat";
  }

  fields() {
    const {by_id, below, ...fields} = this;
    return fields;
  }

  markdown() {
    const parts = [`# ${this.name()}\n`];
    for (const node of this.path()) {
      parts.push(`## ${node.role === "user" ? "User" : node.role === "tool" ? "Tool" : "Assistant"}\n`);
      for (const file of node.files ?? []) parts.push(file.url ? `![${file.name}](${file.url})\n` : file_block(file));
      if (node.reasoning) parts.push(`> ${node.reasoning.trim().replaceAll("\n", "\n> ")}\n`);
      if (node.text) parts.push(`${node.text.trim()}\n`);
      for (const call of node.calls ?? []) parts.push(`\`\`\`json\n${JSON.stringify({name: call.name, arguments: call.arguments})}\n\`\`\`\n`);
    }
    return parts.join("\n");
  }
}

/** Return a file as a message has it: a fence longer than those in it, below its name. */
function file_block(file) {
  const longest = Math.max(2, ...[...file.text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return `${file.name}:\n${fence}\n${file.text.replace(/\n$/, "")}\n${fence}\n`;
}

const is_text = (value) => typeof value === "string";

/** Return the conversations of an exported file; throws what is wrong with it. */
function conversations_of(text) {
  let document;
  try {
    document = JSON.parse(text);
  } catch {
    throw new Error("is not JSON");
  }
  if (document?.form !== FORM || !Array.isArray(document.conversations)) throw new Error("holds no conversations that this page exported");
  return document.conversations.map((fields, at) => {
    const where = `conversation ${at + 1}`;
    if (!fields || !Array.isArray(fields.nodes) || !is_text(fields.title ?? "")) throw new Error(`${where} has no messages`);
    const ids = new Set();
    const nodes = fields.nodes.map((node) => {
      const {id, parent, role, text, chosen = null} = node ?? {};
      if (!Number.isInteger(id) || ids.has(id) || !(parent === null || ids.has(parent))) throw new Error(`${where} has messages out of order`);
      if (!["user", "assistant", "tool"].includes(role) || !is_text(text)) throw new Error(`message ${id} of ${where} has no text or no role`);
      ids.add(id);
      const kept = {id, parent, role, text, chosen, time: Number(node.time) || Date.now()};
      for (const name of ["reasoning", "finish", "figures", "model", "call"]) if (is_text(node[name])) kept[name] = node[name];
      for (const name of ["seconds", "total"]) if (Number.isFinite(node[name])) kept[name] = node[name];
      const list = (name, ...names) => {
        if (Array.isArray(node[name]) && node[name].every((row) => names.every((key) => is_text(row?.[key])))) kept[name] = node[name];
      };
      list("files", "name", "text");
      for (const file of kept.files ?? []) if (!/^data:image\/(jpeg|png);base64,/.test(file.url ?? "")) delete file.url;
      list("calls", "id", "name", "arguments");
      return kept;
    });
    const {title = "", created, changed, chosen = null} = fields;
    return new Conversation({title, chosen, nodes, created: Number(created) || Date.now(), changed: Number(changed) || Date.now()});
  });
}
