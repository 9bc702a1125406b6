// The engine in a page: Pyodide and dpcl_core from files that are held to their hashes, in a worker or in node.
//
// `read(path)` gives the bytes of a file of live/, `told(done, total, file)` hears of each. Nothing else is asked for: whatever
// Pyodide wants to fetch is answered from the files that were read.

const IN_NODE = typeof process === "object" && process.release?.name === "node";
const SITE = "/lib/python3.12/site-packages";

class Failed extends Error {
  constructor(failure) {
    super(failure.sentence);
    this.failure = failure;
  }
}

function failed(kind, sentence, about = {}) {
  return new Failed({kind, field: null, value: null, fix: {}, sentence, ...about});
}

async function digest(bytes) {
  // Without a secure origin a browser has no digests of its own; the engine's are used once Python is there.
  if (!globalThis.crypto?.subtle) return null;
  const found = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...found].map((one) => one.toString(16).padStart(2, "0")).join("");
}

export async function open(manifest, read, told = () => {}) {
  if (typeof WebAssembly !== "object") {
    throw failed("wasm", "This browser has no WebAssembly, which the engine needs: take another one, or install the app.");
  }
  const kept = new Map(), loaded = new Set();
  let python = null, page = null;

  async function fetched(paths) {
    const total = paths.reduce((sum, path) => sum + manifest.files[path].bytes, 0);
    let done = 0;
    for (const path of paths) {
      const wanted = manifest.files[path], before = done;
      let bytes;
      try {
        bytes = await read(path, (part) => told(before + part, total, path));
      } catch (error) {
        throw failed("download", `The download of ${path} broke off: check the connection, and load the page again.`);
      }
      const found = await digest(bytes);
      if (bytes.length !== wanted.bytes || (found !== null && found !== wanted.sha256)) {
        throw failed("download", `${path} is not the file that this site was built with: load the page again, or tell its owner.`);
      }
      done += bytes.length;
      told(done, total, path);
      kept.set(path, bytes);
    }
  }

  function unpack(path) {
    if (path.startsWith("core/")) return;
    if (path.startsWith("packages/") || path === "dpcl.zip") python.unpackArchive(kept.get(path), "zip", {extractDir: SITE});
    else python.unpackArchive(kept.get(path), "zip", {extractDir: "/dpcl/data"});
    kept.delete(path);
  }

  async function script(path) {
    if (IN_NODE) return import(new URL(path, import.meta.url));
    const address = URL.createObjectURL(new Blob([kept.get(path)], {type: "text/javascript"}));
    try {
      return await import(address);
    } finally {
      URL.revokeObjectURL(address);
    }
  }

  async function start() {
    const ask = globalThis.fetch;
    globalThis.fetch = async (address) => {
      const name = new URL(String(address), "http://here/").pathname.split("/").pop();
      const bytes = kept.get(`core/${name}`);
      if (!bytes) throw new Error(`no request leaves while the engine runs: ${name}`);
      const type = name.endsWith(".wasm") ? "application/wasm" : "application/octet-stream";
      return new Response(bytes, {headers: {"Content-Type": type}});
    };
    try {
      const {loadPyodide} = await script("core/pyodide.mjs");
      await script("core/pyodide.asm.js");
      const place = new URL("./core/", import.meta.url);
      const env = {HOME: "/dpcl", DPCL_HOME: "/dpcl/home", DPCL_DATA: "/dpcl/data"};
      python = await loadPyodide({indexURL: IN_NODE ? decodeURIComponent(place.pathname) : place.href, env});
    } catch (error) {
      const said = String(error).includes("memory") ? "out-of-memory" : "internal";
      throw failed(said, said === "internal" ? `The engine did not start: ${error}` : "This device gives the page too little memory: the replay needs less.");
    } finally {
      globalThis.fetch = ask;
    }
  }

  async function load(groups) {
    const paths = [...new Set(groups.flatMap((group) => manifest.groups[group]))].filter((path) => !loaded.has(path));
    await fetched(paths);
    if (python === null) await start();
    for (const path of paths) {
      unpack(path);
      loaded.add(path);
    }
    python.runPython("import importlib; importlib.invalidate_caches()");
    page ??= python.pyimport("dpcl_core.page");
  }

  function answer(name, ...given) {
    let text;
    try {
      text = page[name](...given);
    } catch (error) {
      throw failed("internal", String(error.message ?? error).trim().split("\n").pop());
    }
    const found = JSON.parse(text);
    if (found?.failure) throw new Failed(found.failure);
    return found;
  }

  function* events(settings) {
    answer("start", JSON.stringify(settings));
    for (let next = answer("step"); next !== null; next = answer("step")) yield next;
  }

  function bytesOf(name) {
    const found = page[name]();
    const bytes = found.toJs().slice();
    found.destroy();
    return bytes;
  }

  return {
    load,
    check: (settings) => answer("check", JSON.stringify(settings)),
    own: (name, bytes, roles, header) => answer("own", name, python.toPy(bytes), JSON.stringify(roles), header ?? null),
    start: events,
    outcome: () => answer("outcome"),
    card: () => page.card(),
    classifier: () => bytesOf("classifier"),
    exercise: (code, settings) => answer("exercise", code, JSON.stringify(settings)),
    python: () => python,
  };
}
