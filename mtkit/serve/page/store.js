// What stays: conversations in IndexedDB, settings in localStorage. Without either they last as long as the tab.

const rows = new Map();  // where there is no database
let database = null;

function promise_of(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

async function open_store() {
  try {
    const request = indexedDB.open("mtkit", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("conversations", {keyPath: "id"});
    database = await promise_of(request);
  } catch {
    toast("This browser keeps nothing of this page: conversations are lost when the tab is closed. Export what you need.");
  }
}

const objects = (mode) => database.transaction("conversations", mode).objectStore("conversations");

async function all_conversations() {
  const all = database ? await promise_of(objects("readonly").getAll()) : [...rows.values()];
  return all.sort((a, b) => b.changed - a.changed);
}

async function read_conversation(id) {
  return database ? promise_of(objects("readonly").get(id)) : rows.get(id);
}

async function write_conversation(conversation) {
  const fields = structuredClone(conversation.fields());
  try {
    if (database) await promise_of(objects("readwrite").put(fields));
    else rows.set(fields.id, fields);
  } catch (error) {
    toast(`The conversation was not stored (${error.name}): export it, or delete old ones.`);
  }
}

async function delete_conversation(id) {
  rows.delete(id);
  if (database) await promise_of(objects("readwrite").delete(id));
}

function remembered(name, fallback) {
  try {
    return JSON.parse(localStorage.getItem(`mtkit.${name}`)) ?? fallback;
  } catch {
    return fallback;
  }
}

function remember(name, value) {
  try {
    localStorage.setItem(`mtkit.${name}`, JSON.stringify(value));
  } catch {}  // it lasts as long as the tab
}
