// The page "Train in this page": states, the worker, and who answers whom. The engine itself is dpcl_core, in the worker.
import { made } from "./dom.js";
import { exercises } from "./exercises.js";
import { bring, Failure, forget, keep, keptFor, manifest as readManifest, megabytes, missing, read, tidy } from "./files.js";
import { Form } from "./form.js";
import { OwnFile } from "./own.js";
import * as results from "./results.js";

const MOST_UNASKED = 20e6; // bytes that a phone, or little memory, loads only when asked to
const ENDED = "dpcl-run"; // the link of a run that is going on, in this browser alone: never of own rows
const find = (id) => document.getElementById(id);
const root = find("train-here"), page = JSON.parse(find("live-data").textContent), place = find("first");
const memory = { worker: null, asked: new Map(), n: 0, loaded: new Set(), isGranted: false, run: null, outcome: null, began: 0 };
let manifest, form, own;

function state(name, sentence = "") {
  if (memory.began) root.dataset.seconds = ((performance.now() - memory.began) / 1000).toFixed(3);
  if (root.dataset.state === "running" && name !== "running") remembered(null);
  root.dataset.state = name;
  find("said").textContent = sentence;
  find("start").disabled = name === "loading" || name === "running" || name === "failed";
  find("stop").hidden = name !== "running";
  find("start").hidden = name === "running";
  find("bar").hidden = name !== "loading";
  if (name !== "failed") find("trouble").textContent = "";
  for (const each of document.querySelectorAll("#choices, #more, #own, #exercises button")) each.inert = name === "running";
}

function wait(sentence) {
  state("loading", sentence);
  find("bar").hidden = true;
}

function act(title, does) {
  find("act").hidden = !title;
  find("act").textContent = title;
  find("act").onclick = does;
}

function fail(failure) {
  state("failed");
  find("trouble").textContent = failure.kind === "out-of-memory" ? "The browser gave this page no more memory: close other tabs, or choose smaller data." : failure.sentence;
  const fixes = Object.entries(failure.fix ?? {});
  if (fixes.length) act("Mend it", () => fixes.forEach(([key, value]) => form.put(key, value)));
  else act(failure.kind === "download" || !memory.worker ? "Try again" : "", prepare);
}

// Asks the worker; `told` hears what comes before the answer.
function ask(kind, fields = {}, told = null, transfer = []) {
  return new Promise((resolve, reject) => {
    memory.asked.set((memory.n += 1), { resolve, reject, told });
    memory.worker.postMessage({ kind, id: memory.n, ...fields }, transfer);
  });
}

function hear({ data: { kind, id, ...fields } }) {
  if (kind === "want") return void read(fields.path).then((bytes) => this.postMessage({ kind: "bytes", path: fields.path, bytes }, [bytes.buffer]));
  const asked = memory.asked.get(id);
  if (!asked) return undefined; // of a worker that was stopped
  if (kind === "event") return asked.told(fields.event);
  memory.asked.delete(id);
  return kind === "failed" ? asked.reject(fields.failure) : asked.resolve(fields);
}

// Ends the worker, whatever it is doing: nobody answers what was asked.
function end() {
  memory.worker?.terminate();
  memory.worker = null;
  for (const { reject } of memory.asked.values()) reject({ kind: "stopped", sentence: "Stopped." });
  memory.asked.clear();
  memory.loaded.clear();
  own.forget();
  find("files").hidden = true; // a new worker knows no run
}

function renew() {
  end();
  memory.worker = new Worker("live/worker.js", { type: "module" });
  memory.worker.onmessage = hear;
  memory.worker.onerror = () => {
    end();
    fail({ kind: "internal", sentence: "The engine ended by itself, perhaps for want of memory: close other tabs, then press Try again." });
  };
  memory.worker.postMessage({ kind: "manifest", manifest });
}

const isSmall = () => (navigator.deviceMemory ?? 8) < 4 || navigator.connection?.saveData === true || matchMedia("(max-width: 699px) and (pointer: coarse)").matches;

// Brings what the choices need, then has the engine check them: Start is enabled only then.
async function prepare() {
  const turn = (memory.turn = Symbol("turn")), isOld = () => turn !== memory.turn;
  act("");
  try {
    if (!memory.worker) renew();
    const groups = form.groups(manifest.needs), paths = [...new Set(groups.flatMap((group) => manifest.groups[group]))];
    const wanted = missing(paths), total = wanted.reduce((sum, path) => sum + manifest.files[path].bytes, 0);
    if (total > MOST_UNASKED && isSmall() && !memory.isGranted) {
      wait(`To train here, this page loads ${megabytes(total)} once. Until then the slider shows recorded results.`);
      act(`Load ${megabytes(total)}`, () => { memory.isGranted = true; prepare(); });
      return;
    }
    if (groups.some((group) => !memory.loaded.has(group))) {
      memory.began = performance.now();
      state("loading", "Loading …");
      await bring(paths, manifest.files, (done) => {
        find("bar").value = total ? done / total : 1;
        if (!isOld()) find("said").textContent = done < total ? `Loading: ${megabytes(done)} of ${megabytes(total)}` : "Opening the engine …";
      });
      find("bar").value = 1;
      if (isOld()) return;
      find("said").textContent = "Opening the engine …";
      await load(groups);
      groups.forEach((group) => memory.loaded.add(group));
    }
    await memory.kept; // asked for before Start is enabled, like everything else
    if (!isOld() && (await own.isReady())) await check(isOld);
  } catch (failure) {
    const kind = failure instanceof RangeError ? "out-of-memory" : "internal";
    if (!isOld()) fail(failure.kind ? failure : { kind, sentence: String(failure.message ?? failure) });
  }
}

// Loads groups into the worker; where what an earlier visit kept is of no use, as on a first visit.
async function load(groups) {
  const kept = memory.loaded.size ? {} : await keptFor(manifest);
  try {
    keep(manifest, (await ask("load", { groups, kept })).made);
  } catch (failure) {
    if (failure.kind === "stopped" || !Object.keys(kept).length) throw failure;
    await forget(manifest);
    renew();
    await load(groups);
  }
}

async function check(isOld) {
  const checked = await ask("check", { settings: form.settings(own.dataset()) });
  if (isOld()) return;
  Object.assign(memory, { link: checked.link, models: checked.models });
  history.replaceState(null, "", checked.link);
  const { seconds } = form.find("methods", form.values.method), several = checked.models === 1 ? "" : "s";
  state("ready", `${checked.models} model${several} to train, in this page alone.${seconds > 3 ? ` At this method's first settings one took ${seconds} s.` : ""}`);
}

async function start() {
  const settings = form.settings(own.dataset()), run = (memory.run = new results.Run(page, settings));
  memory.began = performance.now();
  memory.outcome = null;
  delete root.dataset.first;
  for (const id of ["guarantee", "clusters", "ledger", "models", "files"]) find(id).hidden = true;
  find("notes").replaceChildren();
  act("");
  state("running", "Training …");
  remembered(memory.link);
  try {
    const { outcome, made } = await ask("start", { settings }, (event) => follow(run, event));
    keep(manifest, made);
    memory.outcome = { ...outcome, settings };
    paint(run);
    finish(outcome);
  } catch (failure) {
    if (failure.kind !== "stopped") fail(failure);
  }
}

function follow(run, event) {
  run.take(event);
  if (event.event === "TaskLearned") root.dataset.first ??= ((performance.now() - memory.began) / 1000).toFixed(3);
  if (event.event === "Note") find("notes").append(made("li", { textContent: event.text }));
  find("said").textContent = `${run.finished} of ${memory.models} models finished${run.progress ? `: ${run.progress}` : ""}`;
  if (!run.isNew || memory.frame) return;
  memory.frame = requestAnimationFrame(() => paint(run));
}

function paint(run) {
  cancelAnimationFrame(memory.frame);
  memory.frame = 0;
  if (run !== memory.run || !run.cells.size) return;
  place.dispatchEvent(new CustomEvent("feed", { detail: run.drag(memory.outcome) }));
  find("source").textContent = `${run.started.dataset_title}: ${run.started.n_train.toLocaleString("en")} training and ${run.started.n_test.toLocaleString("en")} test examples, trained in this page.${form.dataset.source ? ` ${form.dataset.source}; licence: ${form.dataset.licence}.` : ""}`;
  if (run.signatures) results.clusters(find("clusters"), run.signatures);
}

function finish(outcome) {
  results.guarantee(find("guarantee"), outcome);
  results.ledger(find("ledger"), outcome);
  results.models(find("models"), outcome);
  const file = (title, does) => made("button", { type: "button", className: "touch", textContent: title, onclick: does });
  const saved = async (kind, type) => {
    const got = await ask(kind);
    results.download(got.text ?? got.bytes, type, got.file);
  };
  find("files").replaceChildren(
    file("Privacy card", () => saved("card", "application/json")),
    outcome.has_classifier ? file("Classifier", () => saved("classifier", "application/zip")) : made("span", { className: "small", textContent: outcome.why_no_classifier }),
    made("a", { className: "touch", href: outcome.link, textContent: "Link to these settings" }),
    made("details", {}, made("summary", { textContent: "The same in a terminal" }), made("pre", { textContent: outcome.command })),
  );
  find("files").hidden = false;
  state("finished", [outcome.finding || "Finished.", outcome.warning].filter(Boolean).join(" "));
}

function stop() {
  memory.run = null;
  end();
  prepare();
}

async function exercise(code) {
  const before = [root.dataset.state, find("said").textContent];
  state("running", "Checking …");
  try {
    return (await ask("exercise", { code, settings: {} })).found;
  } finally {
    if (root.dataset.state === "running") state(...before);
  }
}

// A run that ended with its tab is offered again, by its settings alone.
function remembered(link) {
  try {
    if (link) localStorage.setItem(ENDED, link);
    else localStorage.removeItem(ENDED);
  } catch { /* no storage: nothing to offer later */ }
}

function around() {
  const say = (text, ...more) => find("around").append(made("li", {}, text, ...more));
  let ended = null;
  try { ended = localStorage.getItem(ENDED); } catch { /* no storage */ }
  const others = new BroadcastChannel("dpcl-live");
  others.onmessage = ({ data }) => {
    if (data === "here?") others.postMessage("here");
    if (data === "here" && !memory.isTold) {
      memory.isTold = true;
      say("This page is open in another tab, too: each trains for itself, and both are slower.");
    }
  };
  others.postMessage("here?");
  const offer = () => memory.isTold || say("The last run ended when its tab was closed: ", made("a", { href: ended, textContent: "its settings" }), " start it again.");
  if (ended) setTimeout(offer, 500); // unless another tab, which may be training, has answered by then
  if (!isSecureContext) say("This address is not secure (https), so the browser may drop the files that it loaded, and load them again next time.");
  else memory.kept = navigator.serviceWorker?.register("live-cache.js").catch(() => {});
}

function linked() {
  if (!location.hash.startsWith("#run=")) return null;
  try {
    return JSON.parse(decodeURIComponent(location.hash.slice("#run=".length)));
  } catch {
    find("around").append(made("li", { textContent: "The link's settings cannot be read, so the first example is shown: copy the whole link." }));
    return null;
  }
}

async function open() {
  if (typeof WebAssembly !== "object") throw new Failure("wasm", "This browser runs no WebAssembly: open the page in a current Firefox, Chrome, Edge or Safari. The slider works without.");
  manifest = await readManifest();
  const { choices } = manifest, places = { row: find("choices"), fields: document.querySelector("#more .th-fields"), chosen: find("chosen"), elsewhere: find("elsewhere") };
  own = new OwnFile(find("own"), choices.datasets.find(({ name }) => name === "own"), { ask, fail, wait, fill: (settings) => form.take(settings), prepare });
  form = new Form(choices, places, page.budgets, changed);
  fill(linked() ?? choices.starts[0].settings);
  exercises(find("exercises"), page.exercises, { exercise, fill: (settings) => { fill(settings); prepare(); return form.settings(); }, outcome: () => memory.outcome, isOpen: () => ["ready", "finished"].includes(root.dataset.state) });
  around();
  tidy(manifest);
  await prepare();
}

function fill(settings) {
  const unknown = form.take(settings);
  own.show(form.values["data.dataset"] === "own");
  if (unknown.length) find("around").append(made("li", { textContent: `The link names ${unknown.join(", ")}, which this page does not have: left out.` }));
}

function changed() {
  own.show(form.values["data.dataset"] === "own");
  prepare();
}

find("start").onclick = start;
find("stop").onclick = stop;
find("drawer").open = !matchMedia("(max-width: 699px)").matches;
addEventListener("hashchange", () => { const given = linked(); if (given && form) { fill(given); prepare(); } });
if (location.protocol !== "file:") open().catch(fail);
