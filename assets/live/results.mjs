// What a run's events show while they come, and what its outcome says: the ε slider, the lists that were matched, and tables.
import { drawn, made } from "./dom.js";

const MATCHED = { width: 600, height: 420, edge: 24 };
const percent = (share) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)}`);
const shown = (value) => (value === "inf" ? "∞" : typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value));
const budget = (epsilon) => (epsilon === "inf" ? "No noise" : `ε = ${shown(epsilon)}`);
const order = (epsilon) => (epsilon === "inf" ? Infinity : epsilon);

// The events of one run, as the data of the slider and of the map.
export class Run {
  constructor(page, settings) {
    Object.assign(this, { page, settings, started: null, cells: new Map(), finished: 0, signatures: null, notes: [], progress: "", isNew: true });
  }

  take(event) {
    this.isNew = ["TaskLearned", "Signatures"].includes(event.event); // whether pictures change
    if (event.event === "Started") this.started = event;
    if (event.event === "Progress") this.progress = event.text;
    if (event.event === "Note") this.notes.push(event.text);
    if (event.event === "CellFinished") this.finished += 1;
    if (event.event === "Signatures") this.signatures = event;
    if (event.event !== "TaskLearned") return;
    const { cell: { epsilon, seed }, task, accuracy } = event;
    if (!this.cells.has(epsilon)) this.cells.set(epsilon, new Map());
    const seeds = this.cells.get(epsilon);
    if (!seeds.has(seed)) seeds.set(seed, new Map());
    seeds.get(seed).set(task, accuracy);
  }

  // The line below the slider, and its δ: a bound on all that was released, once it is known to be one.
  odds(outcome) {
    const { later, below, bound } = this.page.odds;
    if (!outcome) return [later, 0];
    const isBound = outcome.guarantees.every(({ asked, epsilon, kind }) => asked === "inf" || (kind === "proved" && epsilon <= asked * (1 + 1e-4)));
    return [isBound ? bound : below, outcome.guarantees[0].delta];
  }

  // Data of the ε slider: rows that are still to come are null, which never counts as zero.
  drag(outcome) {
    const { words, intervals } = this.page, [odds, delta] = this.odds(outcome), n = this.started.n_tasks, stops = [...this.cells.keys()].sort((one, other) => order(one) - order(other));
    const row = (tasks, k) => tasks.get(k) ?? Array(k + 1).fill(null);
    const table = stops.map((epsilon) => [...this.cells.get(epsilon).values()].map((tasks) => Array.from({ length: n }, (_, k) => row(tasks, k))));
    const usual = stops.includes(1) ? 1 : stops.filter((one) => one !== "inf").at(-1) ?? stops[0];
    return { key: "here", stops, start: usual, delta, words: { ...words, odds, no_odds: this.page.odds.none }, classes: [], panels: ["accuracy", "matrix"],
      interval_factor: intervals[Math.min(...table.map((seeds) => seeds.length))] ?? null, replay: null, table };
  }
}

// A table of texts in a frame of its own; the first column names its rows.
export function table(heads, rows, name) {
  const cells = ([first, ...others]) => made("tr", {}, made("th", { scope: "row", textContent: first }), ...others.map((text) => made("td", { textContent: text })));
  const top = made("tr", {}, ...heads.map((head) => made("th", { scope: "col", textContent: head })));
  const frame = made("div", { className: "frame", tabIndex: 0 }, made("table", {}, made("thead", {}, top), made("tbody", {}, ...rows.map(cells))));
  frame.setAttribute("role", "group");
  frame.setAttribute("aria-label", name);
  return frame;
}

const list = (title, texts) => (texts?.length ? [made("h3", { textContent: title }), made("ul", {}, ...texts.map((text) => made("li", { textContent: text })))] : []);

// The line of the guarantee, and all of it behind the line; `asked`: the budget that the slider shows first.
export function guarantee(place, outcome) {
  const { guarantees } = outcome, first = guarantees.find(({ asked }) => asked === 1) ?? guarantees.filter(({ asked }) => asked !== "inf").at(-1) ?? guarantees[0];
  place.hidden = !first;
  if (!first) return;
  place.dataset.kind = first.kind;
  place.querySelector("summary").textContent = guarantees.length > 1 ? `${budget(first.asked)}: ${first.headline}` : first.headline;
  const parts = guarantees.flatMap((one) => [made("h3", { textContent: `${budget(one.asked)}: ${one.headline}` }), ...(one.banner ? [made("p", { textContent: one.banner })] : []),
    made("p", { className: "small", textContent: [one.odds, `${one.composition}; ${one.scope}.`].filter(Boolean).join(" ") })]);
  const all = outcome.all_models ? [made("p", { textContent: outcome.all_models })] : [];
  place.querySelector("div").replaceChildren(...all, ...parts, ...list("Covered", first.covered), ...list("Not covered", first.not_covered), ...list("Assumptions", first.assumptions), ...list("Notes", first.notes));
}

// One table: what was done for each budget; lines that differ in their tasks alone are one, and seeds that do the same are one.
export function ledger(place, { ledger: models }) {
  const lines = new Map();
  for (const { epsilon, rows } of models) {
    for (const { task, what, mechanism, numbers, count } of rows) {
      const told = Object.entries(numbers).map(([name, value]) => `${name.replaceAll("_", " ")} ${[].concat(value).map(shown).join(", ")}`).join("; ");
      const line = [budget(epsilon), what, mechanism, told, String(count)], key = line.join("\n");
      if (!lines.has(key)) lines.set(key, { line, tasks: new Set() });
      lines.get(key).tasks.add(task);
    }
  }
  const named = (tasks) => { const all = [...tasks].sort((one, other) => one - other); return all.length > 2 ? `each from ${all[0]} to ${all.at(-1)}` : all.join(" and "); };
  place.hidden = !lines.size;
  place.querySelector("div").replaceChildren(table(["budget", "what", "mechanism", "numbers", "times", "in tasks"], [...lines.values()].map(({ line, tasks }) => [...line, named(tasks)]), "Ledger"));
}

export function models(place, outcome) {
  place.hidden = !outcome.models.length;
  const rows = outcome.models.map((one) => [shown(one.epsilon), String(one.seed), percent(one.metrics.AA), percent(one.metrics.AF), shown(one.spent), one.seconds.toFixed(2)]);
  place.querySelector("div").replaceChildren(table(["budget ε", "seed", `final ${outcome.score}, %`, "forgotten, points", "ε in the ledger", "seconds"], rows, "Models"));
}

// Entries of all clients' lists on the map of their signatures, in the colour and shape of the group each was matched to.
const SHAPES = ["M-5,0A5,5 0 1 0 5,0A5,5 0 1 0 -5,0Z", "M-4.5,-4.5H4.5V4.5H-4.5Z", "M0,-6L6,4.5H-6Z", "M0,-6.5L6.5,0L0,6.5L-6.5,0Z"];

export function clusters(place, { entries, prototypes, matcher, agreement, task }) {
  const { width, height, edge } = MATCHED, points = [...entries.signature, ...prototypes.signature], scale = (axis, size) => {
    const values = points.map((point) => point[axis]), low = Math.min(...values), high = Math.max(...values);
    return (value) => edge + ((size - 2 * edge) * (value - low)) / (high - low || 1);
  };
  const x = scale(0, width), y = scale(1, height), at = ([one, other]) => `translate(${x(one).toFixed(1)},${(height - y(other)).toFixed(1)})`;
  const marks = entries.signature.map((point, i) => drawn("path", { d: SHAPES[Math.max(0, entries.group[i]) % SHAPES.length], transform: at(point), class: entries.group[i] < 0 ? "th-none" : `th-group${entries.group[i] % 8}` }));
  const centres = prototypes.signature.map((point) => drawn("path", { d: "M-9,0H9M0,-9V9", transform: at(point), class: "th-centre" }));
  const svg = place.querySelector("svg"), right = agreement[matcher];
  const said = `After task ${task + 1}, ${entries.group.length} entries of ${new Set(entries.client).size} clients are matched to ${prototypes.signature.length} groups` + (right === undefined ? "." : `; agreement with their true groups is ${right.toFixed(2)} (1: all right, 0: chance).`);
  svg.replaceChildren(...marks, ...centres);
  svg.setAttribute("aria-label", said);
  place.querySelector("p").textContent = `${said} Shape and colour: the group; crosses: the groups' own signatures. Shown for public data alone; a server never sees this.`;
  place.hidden = false;
}

export function download(content, type, name) {
  const link = made("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
