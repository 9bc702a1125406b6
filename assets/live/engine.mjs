// The engine in a page: Pyodide and dpcl_core, from files that `read(path)` gives, unpacked and held to their hashes already.
// It runs in a worker and, for tests, in node. Nothing is asked of anyone: what Pyodide wants to fetch is among these files.

const SITE = "/lib/python3.12/site-packages";
const IN_NODE = typeof process === "object" && process.release?.name === "node";
const MEMORY = "This device gives the page too little memory: close other pages, or take the replay, which needs less.";

class Failed extends Error {
  constructor(failure) {
    super(failure.sentence);
    this.failure = failure;
  }
}

const failed = (kind, sentence) => new Failed({ kind, field: null, value: null, fix: {}, sentence });

export async function open(manifest, read) {
  if (typeof WebAssembly !== "object") throw failed("wasm", "This browser has no WebAssembly, which the engine needs: take another one, or install the app.");
  const core = new Map(), loaded = new Set();
  let python = null, page = null;

  async function script(name) { // as it was checked, and not as a server might give it a second time
    if (IN_NODE) return import(new URL(`./core/${name}`, import.meta.url));
    const address = URL.createObjectURL(new Blob([core.get(name)], { type: "text/javascript" }));
    try {
      return await import(address);
    } finally {
      URL.revokeObjectURL(address);
    }
  }

  async function answered(address) {
    const name = new URL(String(address), "http://here/").pathname.split("/").pop();
    if (!core.has(name)) throw new TypeError(`Nothing leaves the engine: ${name}`);
    return new Response(core.get(name), { headers: { "Content-Type": name.endsWith(".wasm") ? "application/wasm" : "text/plain" } });
  }

  async function start() {
    const place = new URL("./core/", import.meta.url);
    try {
      const { loadPyodide } = await script("pyodide.mjs");
      await script("pyodide.asm.js");
      const env = { HOME: "/dpcl", DPCL_HOME: "/dpcl/home", DPCL_DATA: "/dpcl/data", HF_HUB_OFFLINE: "1" };
      return await loadPyodide({ indexURL: IN_NODE ? decodeURIComponent(place.pathname) : place.href, env });
    } catch (error) {
      throw /memory/i.test(String(error)) ? failed("out-of-memory", MEMORY) : failed("internal", `The engine did not start (${error}): reload the page.`);
    }
  }

  async function install(names) { // by Pyodide's own loader, which knows shared libraries; the files are there already
    if (!names.length) return;
    const wrong = [];
    await python.loadPackage(names, { messageCallback: () => {}, errorCallback: (said) => wrong.push(said) });
    if (wrong.length) throw failed("internal", `The engine could not load ${names.join(", ")} (${wrong[0]}): reload the page.`);
  }

  async function load(groups) {
    const paths = [...new Set(groups.flatMap((group) => manifest.groups[group]))].filter((path) => !loaded.has(path));
    const archives = new Map(), packages = [], ask = globalThis.fetch;
    for (const path of paths) {
      const [folder, name] = path.replace(/\.pack$/, "").split("/");
      if (folder === "core" || folder === "packages") core.set(name, await read(path));
      else archives.set(path, await read(path));
      if (folder === "packages") packages.push(name.split("-")[0].replaceAll("_", "-"));
    }
    globalThis.fetch = answered;
    try {
      python ??= await start();
      await install(packages);
    } finally {
      globalThis.fetch = ask;
      core.clear();
    }
    for (const [path, bytes] of archives) python.unpackArchive(bytes, "zip", { extractDir: path.startsWith("data/") ? "/dpcl/data" : SITE });
    paths.forEach((path) => loaded.add(path));
    python.runPython("import importlib; importlib.invalidate_caches()");
    page ??= python.pyimport("dpcl_core.page");
  }

  function answer(name, ...given) {
    const found = JSON.parse(page[name](...given));
    if (found?.failure && name !== "check") throw new Failed(found.failure);
    return found;
  }

  function* start_run(settings) {
    answer("start", JSON.stringify(settings));
    for (let next = answer("step"); next !== null; next = answer("step")) yield next;
  }

  function classifier() {
    const found = page.classifier(), bytes = found.toJs();
    found.destroy();
    return bytes;
  }

  return {
    load, classifier, start: start_run,
    check: (settings) => answer("check", JSON.stringify(settings)),
    own: (name, bytes, roles, header) => answer("own", name, bytes, JSON.stringify(roles ?? {}), header ?? undefined),
    outcome: () => answer("outcome"),
    card: () => page.card(),
    exercise: (code) => answer("exercise", code),
    python: () => python,
  };
}
