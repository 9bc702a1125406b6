// Two exercises that check their own answers: one on the outcome of a run, one on ten lines of Python.
import { made } from "./dom.js";

const shown = (value) => (value === "inf" ? "∞" : String(value));

// `texts`: of assets/live/exercises.toml; `does`: exercise, fill, outcome and isOpen of the page.
export function exercises(place, texts, does) {
  place.append(smallest(texts.smallest, does), learner(texts.learner, does));
}

function card(text, name, ...inside) {
  const said = made("div", { className: "th-verdict" });
  said.setAttribute("role", "status");
  const node = made("article", { className: "card", id: `exercise-${name}` }, made("h3", { textContent: text.title }), ...text.ask.trim().split("\n\n").map((part) => made("p", {}, ...marked(part))), ...inside, said);
  return { node, said };
}

// Words between backquotes as code.
const marked = (text) => text.split("`").map((part, place) => (place % 2 ? made("code", { textContent: part }) : part));
const press = (title, does) => made("button", { type: "button", className: "touch", textContent: title, onclick: does });

// Which ε is the smallest that is enough? A budget that is enough and one that is not, close to each other, show it.
function smallest(text, { fill, outcome }) {
  const begin = press("Set it up", () => {
    text.wanted = fill(text.settings);
    document.getElementById("start").scrollIntoView({ block: "center" });
  });
  const { node, said } = card(text, "smallest", made("div", { className: "row" }, begin, press("Check my run", () => { said.textContent = verdict(text, outcome()); })));
  return node;
}

export function verdict(text, outcome) {
  if (!outcome) return text.no_run;
  const { settings } = outcome, same = (key) => JSON.stringify(settings[key] ?? null) === JSON.stringify(text.wanted?.[key] ?? null);
  if (!text.wanted || !["method", "data", "scenario", "labels", "params"].every(same)) return text.other;
  const means = new Map();
  for (const { epsilon, metrics } of outcome.models) if (epsilon !== "inf") means.set(epsilon, [...(means.get(epsilon) ?? []), metrics.AA]);
  if ([...means.values()].some((seeds) => seeds.length < text.seeds)) return text.few;
  const level = ([epsilon, values]) => [epsilon, values.reduce((sum, one) => sum + one, 0) / values.length];
  const found = [...means].map(level), enough = found.filter(([, mean]) => mean >= text.share).map(([epsilon]) => epsilon), less = found.filter(([, mean]) => mean < text.share).map(([epsilon]) => epsilon);
  if (!enough.length) return text.none;
  if (!less.length) return text.all;
  const low = Math.max(...less), high = Math.min(...enough), filled = (sentence) => sentence.replace("{low}", shown(low)).replace("{high}", shown(high));
  if (low > high) return filled(text.mixed);
  return filled(high / low <= text.ratio ? text.right : text.wide);
}

// Ten lines of a learner, checked on neighbours, on their noise and on digits, by Python in the worker.
function learner(text, { exercise, isOpen }) {
  const editor = made("textarea", { id: "code", className: "th-code", spellcheck: false, rows: 12, value: text.code });
  editor.setAttribute("autocapitalize", "off");
  const check = press("Check my learner", async () => {
    if (!isOpen()) return void (said.textContent = text.wait);
    check.disabled = true;
    said.textContent = text.checking;
    try {
      const found = await exercise(editor.value);
      said.replaceChildren(...found.said.map((line, place) => made("p", { className: found.passed[place] ? "th-right" : "th-wrong", textContent: line })));
    } catch (failure) {
      said.textContent = failure.sentence;
    }
    check.disabled = false;
  });
  const { node, said } = card(text, "learner", made("label", { htmlFor: "code", textContent: "Your learner, in Python" }), editor, made("div", { className: "row" }, check, press("Start over", () => { editor.value = text.code; })));
  return node;
}
