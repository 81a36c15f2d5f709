// Text files and pictures by button, by drop and by paste; what the model cannot read is refused in words.

const MOST_FILE = 1_000_000;  // characters; more than any context here holds
const MOST_SIDE = 1536;  // pixels of a picture's longer side; no projector here sees more
const BLIND = "this model does not see pictures; it takes text files.";
const attached = [];
let reading = null;  // files that are being read: whether all could be

function attach(files) {
  const own = (reading = attach_all(files, reading));
  own.then(() => {
    if (reading === own) reading = null;
  });
}

async function attach_all(files, before) {
  let is_whole = (await before) ?? true;
  for (const file of files) {
    const problem = await attach_file(file);
    if (!problem) continue;
    show_failure(new Failure(`${file.name}: ${problem}`));
    is_whole = false;
  }
  show_attached();
  part("text").focus();
  return is_whole;
}

async function attach_file(file) {
  if (/^image\/(?!svg)/.test(file.type)) {
    if (!server.sees) return BLIND;
    try {
      attached.push({name: file.name || "pasted.jpg", text: "", url: await picture_of(file)});
    } catch {
      return "this browser cannot read the picture. Save it as PNG or JPEG.";
    }
    return "";
  }
  if (/^(audio|video)\//.test(file.type)) return "the page takes text files and pictures.";
  if (file.type === "application/pdf") return "the page takes text files. Copy the text of the PDF, or convert it (pdftotext).";
  if (file.size > 4 * MOST_FILE) return "the file is too long: at most 4 MB.";
  let text;
  try {
    text = new TextDecoder("utf-8", {fatal: true}).decode(await file.arrayBuffer());
  } catch {
    return "is not a text file in UTF-8.";
  }
  if (text.includes("\0")) return "is not a text file.";
  if (text.length > MOST_FILE) return "the file is too long: at most 1,000,000 characters.";
  attached.push({name: file.name || "pasted.txt", text});
  return "";
}

/** Return a picture as a data: URL in JPEG, whatever form it has. */
async function picture_of(file) {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, MOST_SIDE / Math.max(bitmap.width, bitmap.height));
  const [width, height] = [bitmap.width, bitmap.height].map((side) => Math.max(1, Math.round(side * scale)));
  const canvas = Object.assign(document.createElement("canvas"), {width, height});
  const pencil = canvas.getContext("2d");
  pencil.fillStyle = "#fff";  // behind what is transparent
  pencil.fillRect(0, 0, width, height);
  pencil.drawImage(bitmap, 0, 0, width, height);
  return canvas.toDataURL("image/jpeg", 0.9);
}

function show_attached() {
  part("attached").replaceChildren(...attached.map((file) =>
    element("li", {}, file.url ? element("img", {src: file.url, alt: ""}) : icon("file"), element("span", {dir: "auto"}, file.name),
      button(`Remove ${file.name}`, () => {
        attached.splice(attached.indexOf(file), 1);
        show_attached();
        part("text").focus();
      }, "close"))));
}

function watch_files() {
  part("attach").addEventListener("click", () => part("file").click());
  part("file").addEventListener("change", () => {
    attach([...part("file").files]);
    part("file").value = "";
  });
  const has_files = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => {
    if (!has_files(event)) return;
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) document.body.classList.remove("dropping");
  });
  addEventListener("drop", (event) => {
    document.body.classList.remove("dropping");
    if (!has_files(event)) return;
    event.preventDefault();
    attach([...event.dataTransfer.files]);
  });
  part("text").addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files];
    if (!files.length) return;
    event.preventDefault();
    attach(files);
  });
}
