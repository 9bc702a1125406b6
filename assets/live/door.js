// A page opened as a file may load neither modules nor WebAssembly: it says how to serve its folder. This script is no module.
if (location.protocol === "file:") {
  const root = document.getElementById("train-here"), folder = decodeURIComponent(location.pathname).replace(/[^/]*$/, "");
  root.dataset.state = "failed";
  document.getElementById("trouble").textContent = "A page opened as a file may not train: serve its folder by the command below, then open http://127.0.0.1:8000/train-here.html.";
  const command = Object.assign(document.createElement("pre"), { textContent: `python3 -m http.server 8000 --bind 127.0.0.1 --directory '${folder.replaceAll("'", "'\\''")}'` });
  document.getElementById("trouble").after(command);
}
