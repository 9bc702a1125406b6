// The form, built from the manifest's choices: one value by dotted key, as a spec's settings have them.
import { made } from "./dom.js";

const USUAL_LABELS = "prior-const"; // lists from the data come first in some methods, and have no bound
const SEEDS = [1, 3, 5, 10];
const MAIN = ["data.dataset", "data.backbone", "method", "scenario.kind", "labels", "privacy.epsilons", "seeds"];
const shown = (value) => (value === "inf" ? "∞" : String(value));
const isSame = (one, other) => JSON.stringify(one ?? null) === JSON.stringify(other ?? null);
const fits = ({ scenarios }, name) => !scenarios?.length || scenarios.includes(name);
let ids = 0;

export class Form {
  // `places`: row, fields, chosen, elsewhere; `budgets`: of the buttons; `changed` is called after each change.
  constructor(choices, places, budgets, changed) {
    Object.assign(this, { choices, places, budgets, changed, values: {} });
    const torch = Object.entries(choices.torch);
    places.elsewhere.hidden = !torch.length;
    places.elsewhere.querySelector("summary").textContent = `${torch.length} more in the installed app`;
    places.elsewhere.querySelector("ul").replaceChildren(...torch.map(([name, sentence]) => made("li", {}, made("b", { textContent: name }), ` ${sentence}`)));
  }

  // Takes settings, nested; returns the names of those that this page does not have.
  take(settings) {
    this.values = Object.fromEntries(leaves(settings).map(([key, value]) => [key, endless(value)]));
    if (String(this.values["data.dataset"]).startsWith("own")) this.values["data.dataset"] = "own";
    const named = Object.keys(this.values);
    this.settle();
    const known = [...MAIN, ...this.fields().map(({ key }) => key)], unknown = named.filter((key) => !known.includes(key));
    for (const key of unknown) delete this.values[key];
    this.draw();
    return unknown;
  }

  find(kind, name) {
    return this.choices[kind].find((one) => one.name === name);
  }

  get dataset() {
    return this.find("datasets", this.values["data.dataset"]);
  }

  // Settings of another method or stream go, and what the new one does not have gives way to its first.
  settle() {
    const { values } = this, among = (key, options) => {
      if (options.length && !options.includes(values[key])) [values[key]] = options;
    };
    among("data.dataset", this.choices.datasets.map(({ name }) => name));
    const { dataset } = this;
    if (dataset.networks) among("data.backbone", dataset.networks);
    among("method", this.fitting().map(({ name }) => name));
    const method = this.find("methods", values.method);
    among("scenario.kind", method.scenarios.filter((name) => fits(dataset, name)));
    if (!method.labels.includes(values.labels) && method.labels.includes(USUAL_LABELS)) values.labels = USUAL_LABELS;
    among("labels", method.labels);
    for (const { key, here, default: usual } of this.fields()) values[key] ??= here ?? usual;
    values["privacy.epsilons"] ??= [1, 8];
    values.seeds ??= [0, 1, 2];
  }

  fitting() {
    return this.choices.methods.filter((one) => one.scenarios.some((name) => fits(this.dataset, name)));
  }

  fields() {
    const own = (kind, name) => this.find(kind, name)?.fields ?? [];
    const { choices, values } = this, all = [...own("methods", values.method), ...own("scenarios", values["scenario.kind"]), ...choices.fields];
    return all.filter(({ key }) => !MAIN.includes(key));
  }

  // Nested settings; what has its usual value is left out.
  settings(dataset = this.values["data.dataset"]) {
    const given = { ...Object.fromEntries(MAIN.map((key) => [key, this.values[key]])), "data.dataset": dataset };
    for (const { key, default: usual } of this.fields()) if (!isSame(this.values[key], usual)) given[key] = this.values[key];
    const nested = {};
    for (const [key, value] of Object.entries(given)) {
      if (value === undefined) continue;
      const [table, name] = key.split(".");
      if (name) (nested[table] ??= {})[name] = value;
      else nested[table] = value;
    }
    return nested;
  }

  // Groups of files that these settings need.
  groups(needs) {
    const matches = (when) => Object.entries(when).every(([key, any]) => any.includes(this.values[key]));
    return [...new Set(needs.filter(({ when }) => matches(when)).flatMap(({ groups }) => groups))];
  }

  put(key, value) {
    const before = this.values[key];
    this.values[key] = value;
    const tables = { method: "params.", "scenario.kind": "scenario.", "data.dataset": "data." };
    for (const one of Object.keys(this.values)) if (!isSame(before, value) && key in tables && one.startsWith(tables[key]) && one !== key) delete this.values[one];
    if (key in tables || key === "data.backbone") {
      const focused = document.activeElement?.dataset?.key;
      this.settle();
      this.draw();
      this.places.row.querySelector(`[data-key="${focused}"]`)?.focus();
    }
    this.label();
    this.changed(key);
  }

  draw() {
    const { choices, values, dataset } = this, method = this.find("methods", values.method);
    const named = (kind, names) => names.map((name) => [name, this.find(kind, name)?.title ?? name]);
    const fitting = new Set(this.fitting()), streams = method.scenarios.filter((name) => fits(dataset, name));
    this.places.row.replaceChildren(
      this.select("data.dataset", "Data", choices.datasets.map(({ name, title }) => [name, title])),
      ...(dataset.networks?.length > 1 ? [this.select("data.backbone", "Network", named("networks", dataset.networks))] : []),
      this.select("scenario.kind", "Stream", named("scenarios", streams)),
      this.select("method", "Method", choices.methods.map((one) => [one.name, one.title, !fitting.has(one)])),
      this.select("labels", "Label list", named("labels", method.labels)),
      this.budget(),
    );
    this.places.fields.replaceChildren(...this.fields().map((field) => this.control(field)));
    this.label();
  }

  label() {
    const { values } = this, title = (kind, name) => this.find(kind, name)?.title ?? name;
    this.places.chosen.textContent = `${title("datasets", values["data.dataset"])}, ${title("methods", values.method)}, ${this.spent()}`;
    const summary = this.places.row.querySelector(".th-budget summary");
    if (summary) summary.textContent = this.spent();
  }

  spent() {
    const { "privacy.epsilons": budgets, seeds } = this.values, list = [].concat(budgets), ends = [...new Set([list[0], list.at(-1)])].filter((one) => one !== undefined);
    return `ε ${ends.map(shown).join(" to ") || "?"}, ${[].concat(seeds).length} seed${[].concat(seeds).length === 1 ? "" : "s"}`;
  }

  select(key, title, options) {
    const id = `th-${(ids += 1)}`, chosen = this.values[key];
    const nodes = options.map(([value, text, disabled = false]) => made("option", { value: value ?? "", textContent: text, disabled, selected: isSame(value, chosen) }));
    const input = made("select", { id, onchange: () => this.put(key, options[input.selectedIndex][0]) }, ...nodes);
    input.dataset.key = key;
    return made("div", { className: "th-field" }, made("label", { htmlFor: id, textContent: title }), input);
  }

  // Budgets as buttons and typed, and the number of seeds.
  budget() {
    const { values } = this, order = (one) => (one === "inf" ? Infinity : one);
    const has = (budget) => values["privacy.epsilons"].includes(budget), others = () => values["privacy.epsilons"].filter((one) => !this.budgets.includes(one));
    const typed = made("input", { type: "text", id: `th-${(ids += 1)}`, inputMode: "decimal", value: others().map(shown).join(" "), placeholder: "0.3 3" });
    const boxes = this.budgets.map((budget) => made("label", {}, made("input", { type: "checkbox", value: budget, checked: has(budget) }), shown(budget)));
    const take = () => {
      const ticked = this.budgets.filter((_, place) => boxes[place].firstChild.checked), more = typed.value.split(/[\s,;]+/).filter(Boolean).map(number);
      this.put("privacy.epsilons", [...new Set([...ticked, ...more])].sort((one, other) => order(one) - order(other)));
    };
    for (const box of [...boxes, typed]) box.onchange = take;
    const counts = [...new Set([...SEEDS, values.seeds.length])].sort((one, other) => one - other);
    const seeds = this.select("seeds", "Seeds: one model each", counts.map((count) => [count === values.seeds.length ? values.seeds : [...Array(count).keys()], String(count)]));
    const inside = made("div", { className: "th-sheet" },
      made("fieldset", {}, made("legend", { textContent: "Privacy budgets ε: one model each" }), ...boxes),
      made("div", { className: "th-field" }, made("label", { htmlFor: typed.id, textContent: "Other ε, with blanks between" }), typed), seeds);
    const sheet = made("details", { className: "th-budget" }, made("summary", { textContent: this.spent() }), inside);
    sheet.onkeydown = (event) => {
      if (event.key !== "Escape") return;
      sheet.open = false;
      sheet.firstChild.focus();
    };
    return made("div", { className: "th-field" }, made("span", { className: "th-name", textContent: "Budget" }), sheet);
  }

  control(field) {
    const { key, title, description, type, optional, choices } = field, value = this.values[key], id = `th-${(ids += 1)}`;
    const name = title || key.split(".").at(-1).replaceAll("_", " "), help = made("small", { className: "soft", id: `${id}-help`, textContent: description ?? "" });
    if (type === "choice") {
      const options = [...(optional ? [[null, "(none)"]] : []), ...choices.map((one) => [one, String(one)])], node = this.select(key, name, options);
      node.append(help);
      return node;
    }
    const isFlag = type === "boolean", input = made("input", { id, type: isFlag ? "checkbox" : "text", placeholder: optional ? "empty: as usual" : "" });
    if (isFlag) input.checked = Boolean(value);
    else input.value = value === null || value === undefined ? "" : [].concat(value).map(shown).join(", ");
    input.dataset.key = key;
    input.setAttribute("aria-describedby", help.id);
    input.onchange = () => this.put(key, isFlag ? input.checked : typedValue(input.value.trim(), field));
    return made("div", { className: isFlag ? "th-field th-flag" : "th-field" }, made("label", { htmlFor: id, textContent: name }), input, help);
  }
}

// Infinity has two names in JSON.
const endless = (value) => (Array.isArray(value) ? value.map(endless) : value === "Infinity" ? "inf" : value);

// What was typed stays as it is where it is no number: the engine's own sentence then says what is allowed.
function number(text) {
  if (["inf", "∞", "infinity"].includes(text.toLowerCase())) return "inf";
  const value = Number(text.replace(",", "."));
  return text && Number.isFinite(value) ? value : text;
}

function typedValue(text, { type, optional, of, default: usual }) {
  if (text === "") return optional ? null : usual;
  if (type === "list") return text.split(",").map((part) => part.trim()).filter(Boolean).map((part) => (["integer", "number"].includes(of?.type) ? number(part) : part));
  return type === "integer" || type === "number" ? number(text) : text;
}

function leaves(settings, prefix = "") {
  return Object.entries(settings).flatMap(([key, value]) =>
    value !== null && typeof value === "object" && !Array.isArray(value) ? leaves(value, `${prefix}${key}.`) : [[prefix + key, value]]);
}
