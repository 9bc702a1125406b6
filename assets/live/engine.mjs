// The engine in a page: Pyodide and dpcl_core, from files that `read(path)` gives, unpacked and held to their hashes already.
// It runs in a worker and, for tests, in node. Nothing is asked of anyone: what Pyodide wants to fetch is among these files.

const SITE = "/lib/python3.12/site-packages";
const IN_NODE = typeof process === "object" && process.release?.name === "node";
const MEMORY = "This device gives the page too little memory: close other pages, or take the replay, which needs less.";

// Of Python's own library, what the engine imports: it is in the snapshot, so that a later visit need not compile it.
const LIBRARY = "csv, ctypes, dataclasses, decimal, difflib, encodings.cp437, fractions, gzip, hashlib, hmac, html, http.client, importlib.metadata, json, numbers, pickle, platform, secrets, shlex, statistics, tarfile, tomllib, urllib.request";
class Failed extends Error {
  constructor(failure) {
    super(failure.sentence);
    this.failure = failure;
  }
}

const PAGE = 65536; // of WebAssembly's memory
const isCompiled = (path) => path.endsWith(".pyc");
const named = (path) => path.split("/").pop().split("-")[0].replaceAll("_", "-"); // the package of a wheel
const failed = (kind, sentence) => new Failed({ kind, field: null, value: null, fix: {}, sentence });

// `kept`: what `made` gave on an earlier visit, if anything.
export async function open(manifest, read, kept = {}) {
  if (typeof WebAssembly !== "object") throw failed("wasm", "This browser has no WebAssembly, which the engine needs: take another one, or install the app.");
  const core = new Map(), loaded = new Set();
  const fresh = {}, ours = new Set();
  let python = null, page = null, compiled = 0;

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
      const options = { indexURL: IN_NODE ? decodeURIComponent(place.pathname) : place.href, env };
      return (await restored(loadPyodide, options)) ?? (await begun(loadPyodide, options));
    } catch (error) {
      throw /memory/i.test(String(error)) ? failed("out-of-memory", MEMORY) : failed("internal", `The engine did not start (${error}): reload the page.`);
    }
  }

  // Python as it was before anything of a reader came, by an earlier visit. Whatever is random begins anew.
  async function restored(loadPyodide, options) {
    if (!kept.snapshot) return null;
    const { length, buffer } = kept.snapshot, isWhole = length > PAGE && (length - new DataView(buffer).getUint32(4, true)) % PAGE === 0;
    if (!isWhole) throw new Error("what was kept is damaged"); // Pyodide would wait for ever
    const found = await loadPyodide({ ...options, _loadSnapshot: kept.snapshot });
    found.runPython("import random; random.seed()");
    return found;
  }

  async function begun(loadPyodide, options) {
    const found = await loadPyodide({ ...options, _makeSnapshot: true });
    found.runPython(`import sys, ${LIBRARY}; sys.dont_write_bytecode = False`);
    fresh.snapshot = new Blob([found.makeMemorySnapshot()]);
    return found;
  }

  // What lets a later visit begin sooner, as far as it was not given out before: of the program alone, never of rows.
  function made() {
    const given = { ...fresh }, files = laid(SITE), count = files.filter(isCompiled).length;
    delete fresh.snapshot;
    if (count > compiled) {
      const contents = files.map((path) => python.FS.readFile(path));
      files.forEach((path, place) => isCompiled(path) && contents[place].fill(0, 4, 16).fill(1, 4, 5)); // valid, whatever the time of its source
      const index = new TextEncoder().encode(JSON.stringify(files.map((path, place) => [path, contents[place].length])));
      given.files = new Blob([Uint32Array.of(index.length), index, ...contents]);
      compiled = count;
    }
    return given;
  }

  // The engine's own files below a folder, and what Python compiled of any.
  function laid(folder) {
    return python.FS.readdir(folder).filter((name) => !name.startsWith(".")).flatMap((name) => {
      const path = `${folder}/${name}`, isOurs = folder !== SITE || ours.has(name);
      if (python.FS.isDir(python.FS.stat(path).mode)) return laid(path).filter((one) => isOurs || isCompiled(one));
      return isOurs ? [path] : [];
    });
  }

  // Lays the files of an earlier visit where `made` found them, and opens shared libraries, which Python itself does slowly.
  async function lay() {
    const { files } = kept, start = 4 + new DataView(files.buffer).getUint32(0, true);
    let end = start;
    for (const [path, length] of JSON.parse(new TextDecoder().decode(files.subarray(4, start)))) {
      python.FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
      python.FS.writeFile(path, files.subarray(end, end += length), { canOwn: true });
      compiled += isCompiled(path);
      if (/(?<!_tests)\.cpython[\w-]+\.so$/.test(path)) await python._api.loadDynlib(path, false, []);
    }
    for (const path of manifest.groups.engine) if (path.startsWith("packages/")) python.loadedPackages[named(path)] = "default channel";
  }

  async function install(names) { // by Pyodide's own loader, which knows shared libraries; the files are there already
    if (!names.length) return;
    const wrong = [];
    await python.loadPackage(names, { messageCallback: () => {}, errorCallback: (said) => wrong.push(said) });
    if (wrong.length) throw failed("internal", `The engine could not load ${names.join(", ")} (${wrong[0]}): reload the page.`);
  }

  async function load(groups) {
    for (const group of groups) await bring(group);
    python.runPython("import importlib; importlib.invalidate_caches()");
    page ??= python.pyimport("dpcl_core.page");
  }

  async function bring(group) {
    const paths = manifest.groups[group].filter((path) => !loaded.has(path)), isLaid = group === "engine" && kept.files;
    const archives = new Map(), packages = [], ask = globalThis.fetch;
    for (const path of paths) {
      const [folder, name] = path.replace(/\.pack$/, "").split("/");
      loaded.add(path);
      if (isLaid && folder !== "core") continue;
      if (folder === "core" || folder === "packages") core.set(name, await read(path));
      else archives.set(path, await read(path));
      if (folder === "packages") packages.push(named(path));
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
    if (paths.length && isLaid) await lay();
    if (group === "engine") python.FS.readdir(SITE).forEach((name) => ours.add(name));
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
    load, made, classifier, start: start_run,
    check: (settings) => answer("check", JSON.stringify(settings)),
    own: (name, bytes, roles, header) => answer("own", name, bytes, JSON.stringify(roles ?? {}), header ?? undefined),
    outcome: () => answer("outcome"),
    card: () => page.card(),
    exercise: (code) => answer("exercise", code),
    python: () => python,
  };
}
