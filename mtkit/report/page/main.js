// The page: sections of the chosen file, and where they are named.

const data = JSON.parse(part("data").textContent);

async function show(number) {
  const file = data.files[number];
  tables.clear();
  const made = [
    data.difference ? comparison(data.difference, data.files) : null,
    overview(file),
    ...(file.model ? await modelSections(file) : []),
    ...await tokenSections(file),
    findings(file.check),
  ].filter(Boolean);
  part("main").replaceChildren(...made);
  part("nav").replaceChildren(...made.map((one) => element("li", {}, element(
    "a", {href: `#${one.id}`}, one.id === "overview" ? "Overview" : one.firstChild.firstChild.textContent,
  ))));
  for (const table of tables) table.draw();
  (window.requestIdleCallback ?? setTimeout)(() => tables.forEach((table) => table.about.idle?.()));
}

function chosenFile() {
  part("which").hidden = data.files.length < 2;
  data.files.forEach((file, number) => part("file").append(element(
    "option", {value: String(number)}, `${"AB"[number]}: ${file.name}`,
  )));
  part("file").addEventListener("change", (event) => show(Number(event.target.value)));
}

part("theme").addEventListener("change", (event) => {
  document.documentElement.dataset.theme = event.target.value;
});
part("close").addEventListener("click", () => part("detail").close());
part("detail").addEventListener("click", (event) => {
  if (event.target === part("detail")) part("detail").close();
});
addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("main details")) one.open = true;
});

chosenFile();
show(0).then(() => {
  performance.mark("ready");
  document.documentElement.dataset.ready = "yes";
}).catch((error) => {
  part("main").replaceChildren(element("p", {class: "bad"}, `The page cannot be shown: ${error.message}`));
  throw error;
});
