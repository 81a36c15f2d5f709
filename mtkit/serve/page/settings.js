// The settings that stay, and what the server says of its models.

const DEFAULTS = {
  system: "", temperature: "", top_p: "", top_k: "", min_p: "", repeat_penalty: "", max_tokens: "", seed: "",
  thinking: "", schema: "", tools: "", more: "", theme: "", enter: "enter", key: "", model: "",
};
const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "repeat_penalty", "max_tokens", "seed"];
const JSON_FIELDS = {schema: "object", tools: "array", more: "object"};
const settings = {...DEFAULTS, ...remembered("settings", {})};
const server = {models: [], context: null, sees: false};

/** Show what the page itself takes from the settings. */
function show_settings() {
  document.documentElement.dataset.theme = settings.theme;
  const keys = settings.enter === "enter" ? "Enter sends, Shift+Enter: new line" : "Ctrl+Enter sends";
  part("text").placeholder = "Message";
  part("keys").textContent = keys;
}

/** Return the value of a setting in JSON; throws what is wrong. */
function json_setting(name) {
  const text = settings[name].trim();
  if (!text) return null;
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Failure(`Settings, ${part(name).dataset.name}: not valid JSON (${error.message}).`);
  }
  const kind = Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
  if (kind !== JSON_FIELDS[name]) throw new Failure(`Settings, ${part(name).dataset.name}: has to be ${kind === "array" ? "an object" : `a JSON ${JSON_FIELDS[name]}`}.`);
  return value;
}

function keep_setting(name, value) {
  settings[name] = value;
  remember("settings", settings);
  if (name in JSON_FIELDS) {
    let problem = "";
    try {
      json_setting(name);
    } catch (error) {
      problem = error.message;
    }
    part(name).setCustomValidity(problem);
    part(name).reportValidity();
  }
  if (name === "theme" || name === "enter") show_settings();
  if (name === "key" || name === "model") describe_server();
}

/** Return what the settings add to a request. */
function request_settings() {
  const body = {model: settings.model || "served", ...json_setting("more")};
  for (const name of NUMBERS) if (settings[name] !== "") body[name] = Number(settings[name]);
  const schema = json_setting("schema"), tools = json_setting("tools");
  if (schema) body.response_format = {type: "json_schema", json_schema: {name: "answer", schema}};
  if (tools?.length) body.tools = tools.map((tool) => (tool.function ? tool : {type: "function", function: tool}));
  if (settings.thinking) body.enable_thinking = settings.thinking === "on";
  return body;
}

async function describe_server() {
  try {
    const {data} = await (await send("/v1/models")).json();
    server.models = data;
  } catch (error) {
    part("figures").textContent = error.status === 401 ? "" : error.message;
    if (error.status === 401) show_failure(error);
    return;
  }
  part("failure").replaceChildren();
  if (!server.models.some((model) => model.id === settings.model)) settings.model = "";
  const model = server.models.find(({id}) => id === settings.model) ?? server.models[0];
  part("name").textContent = model.id;
  part("name").hidden = server.models.length > 1;
  part("choice").hidden = server.models.length < 2;
  part("model").replaceChildren(...server.models.map(({id}) => {
    const option = element("option", {value: id}, id);
    option.selected = id === model.id;
    return option;
  }));
  server.context = model.context_length;
  server.sees = model.architecture?.input_modalities?.includes("image") ?? false;
  const size = server.context ? `${server.context.toLocaleString("en")} tokens of context` : "loaded when it is asked";
  part("slots").textContent = `${size}${server.sees ? ", sees pictures" : ""}`;
  show_name();
  show_defaults(model.id);
}

/** Show what counts where nothing is filled in. */
async function show_defaults(model) {
  const answer = await fetch(`/props?model=${encodeURIComponent(model)}`, {headers: headers()}).catch(() => null);
  const props = answer?.ok ? await answer.json() : {};
  const params = props.default_generation_settings?.params ?? {};
  for (const name of NUMBERS) {
    const value = params[name];
    const is_shown = typeof value === "number" && name !== "seed" && name !== "max_tokens";
    if (is_shown) part(name).placeholder = String(Math.round(value * 1e4) / 1e4);
  }
}
