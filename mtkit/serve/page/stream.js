// Requests to the server, its events, and its errors in words for whoever reads the page.

/** An error of the server or of the way there; ``act`` is what the reader can press. */
class Failure extends Error {
  constructor(message, {status = 0, error = {}} = {}) {
    super(message);
    Object.assign(this, {status, details: error});
  }
}

function headers() {
  const key = settings.key.trim();
  return {"content-type": "application/json", ...(key && {authorization: `Bearer ${key}`})};
}

async function send(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, {...options, headers: headers()});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    go_offline();
    throw new Failure("The server cannot be reached. Is mtkit serve still running? Your text is kept.");
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => null);
  throw new Failure(words_for(answer.status, body?.error?.message), {status: answer.status, error: body?.error ?? {}});
}

const post = (path, body, signal) => send(path, {method: "POST", body: JSON.stringify(body), signal});

function words_for(status, message = "") {
  switch (status) {
    case 401: return "The key is missing or wrong. Enter the one that the server was started with in Settings.";
    case 403: return `The server refuses this page: ${message}.`;
    case 413: return "The message is too long for the server. Shorten it, or attach less.";
    case 429: return `The server is busy: ${message || "all slots are taken"}. Try again in a moment.`;
    case 503: return `The server cannot answer now: ${message || "it is starting or ending"}. Try again in a moment.`;
    default: return message ? `The server refuses: ${message}.` : `The server answers ${status}. Its log says more.`;
  }
}

async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", is_over = false;
  for (;;) {
    let chunk;
    try {
      chunk = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      go_offline();
      throw new Failure("The connection was lost before the answer was complete. What arrived is kept.");
    }
    if (chunk.done) {
      if (!is_over) throw new Failure("The server ended the answer before it was complete. What arrived is kept.");
      return;
    }
    const texts = (rest + chunk.value).split(/\r?\n\r?\n/);
    rest = texts.pop();
    for (const event of texts) {
      const data = event.split("\n").filter((line) => line.startsWith("data:"));
      const text = data.map((line) => line.slice(5).trim()).join("\n");
      if (text === "[DONE]") is_over = true;
      else if (text) yield JSON.parse(text);
    }
  }
}

let wait_timer = 0;

/** Say that the server is gone, and look for it until it is back. */
function go_offline() {
  part("offline").hidden = false;
  clearTimeout(wait_timer);
  wait_timer = setTimeout(async () => {
    const answer = await fetch("/health").catch(() => null);
    if (!answer) return go_offline();
    part("offline").hidden = true;
    announce("The server is back");
    describe_server();
  }, 3000);
}
