// The engine's side of the page: every message is answered with the same id. It fetches nothing: the page hands it files.
import { open } from "./engine.js";

const wanted = new Map();
let engine = null, manifest = null;
const say = (kind, id, fields = {}, transfer = []) => postMessage({ kind, id, ...fields }, transfer);
const read = (path) => new Promise((resolve) => {
  wanted.set(path, resolve);
  say("want", null, { path });
});
self.fetch = () => Promise.reject(new TypeError("Nothing leaves the engine."));
self.XMLHttpRequest = self.WebSocket = undefined;

const answers = {
  async load(id, { groups, kept }) {
    const began = performance.now();
    engine ??= await open(manifest, read, kept);
    await engine.load(groups);
    say("loaded", id, { groups, seconds: (performance.now() - began) / 1000, made: engine.made() });
  },
  check: (id, { settings }) => say("checked", id, engine.check(settings)),
  own: (id, { name, bytes, roles, header }) => say("owned", id, engine.own(name, new Uint8Array(bytes), roles, header)),
  start(id, { settings }) {
    for (const event of engine.start(settings)) if (event.event !== "Classifier") say("event", id, { event }); // its arrays stay here
    say("finished", id, { outcome: engine.outcome(), made: engine.made() });
  },
  card: (id) => say("card", id, { text: engine.card(), file: "privacy_card.json" }),
  classifier(id) {
    const bytes = engine.classifier();
    say("classifier", id, { bytes: bytes.buffer, file: "classifier.zip" }, [bytes.buffer]);
  },
  exercise: (id, { code, settings }) => say("exercised", id, { found: engine.exercise(code, settings) }),
};

self.onmessage = async ({ data: { kind, id, ...fields } }) => {
  if (kind === "bytes") return wanted.get(fields.path)(fields.bytes);
  if (kind === "manifest") return void ({ manifest } = fields);
  try {
    await answers[kind](id, fields);
  } catch (error) {
    const isMemory = error instanceof RangeError || /memory/i.test(error?.message ?? "");
    const said = String(error?.message ?? error).trim().split("\n").findLast((line) => /^\w+: /.test(line)) ?? String(error); // not Python's whole trace
    say("failed", id, { failure: error?.failure ?? { kind: isMemory ? "out-of-memory" : "internal", sentence: `The engine failed (${said}): please report it, and reload the page.` } });
  }
};
