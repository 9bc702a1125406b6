// Runs a Python file in the engine of a site's live folder, in node: node in_node.mjs LIVE FILE TESTS GROUP...
// The last line that it prints is the JSON text that the file leaves in `result`. TESTS is mounted as /tests.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import zlib from "node:zlib";

const [live, file, tests, ...groups] = process.argv.slice(2);
const manifest = JSON.parse(fs.readFileSync(path.join(live, "manifest.json"), "utf8"));
const unpacked = (name) => {
  const bytes = fs.readFileSync(path.join(live, name));
  return name.endsWith(".pack") ? zlib.gunzipSync(bytes) : bytes;
};
const laid = fs.mkdtempSync(path.join(os.tmpdir(), "live-")); // node imports the core from files
fs.mkdirSync(path.join(laid, "core"));
try {
  for (const name of Object.keys(manifest.files).filter((one) => /^(core|packages)\//.test(one))) {
    fs.writeFileSync(path.join(laid, "core", path.basename(name, ".pack")), unpacked(name));
  }
  fs.copyFileSync(path.join(live, "engine.js"), path.join(laid, "engine.mjs"));
  const { open } = await import(path.join(laid, "engine.mjs"));
  const engine = await open(manifest, async (name) => new Uint8Array(unpacked(name)));
  await engine.load(["engine", ...groups]);
  const python = engine.python();
  python.FS.mkdirTree("/tests");
  python.FS.mount(python.FS.filesystems.NODEFS, { root: tests }, "/tests");
  python.runPython(fs.readFileSync(file, "utf8"));
  console.log(python.globals.get("result"));
} finally {
  fs.rmSync(laid, { recursive: true });
}
