// The ε calculators: a slider and a box for every number, the answer with its odds, and ε against σ; and one person in several
// tasks. Appended to drag/replay.mjs and accountant.mjs; fed with what dpcl_core/elements/calculator.py puts together.

const SLIDER_STEPS = 400, EDGE = { left: 46, right: 12, top: 14, bottom: 34 }, PICTURE = { width: 420, height: 210 };
const CURVE_POINTS = 48;

const up = (value, digits = 4) => String(Number((Math.ceil(value * 10 ** digits - 1e-6) / 10 ** digits).toFixed(digits)));
const short = (value) => String(value < 1e-3 && value > 0 ? Number(value.toPrecision(4)).toExponential() : Number(value.toPrecision(4)));

export default function element({ data, parentElement, setStateValue }) {
  const host = parentElement.querySelector(".calculator"), from = JSON.stringify(data.start);
  const memory = memories.get(parentElement) ?? {};
  memories.set(parentElement, memory);
  Object.assign(memory, { data, words: data.words, report: () => setStateValue("question", memory.question) });
  if (memory.from === from && host.firstChild) return;
  Object.assign(memory, { from, question: { ...data.start } });
  host.replaceChildren();
  if (data.panels.includes("noise")) noisePanel(memory, host);
  if (data.panels.includes("tasks")) tasksPanel(memory, host);
}

// A text box with a slider, whose steps are even in the logarithm. `changed` is called with the text, and whether it was let go.
function numberInput({ title, low, high, name }, text, changed) {
  const box = made("input", { type: "text", inputMode: "decimal", value: text, maxLength: 20, autocomplete: "off" });
  const slider = made("input", { type: "range", min: 0, max: SLIDER_STEPS, step: 1 });
  box.setAttribute("aria-label", title);
  slider.setAttribute("aria-label", `${title}, slider`);
  const place = () => {
    const at = (SLIDER_STEPS * Math.log(read(box.value) / low)) / Math.log(high / low);
    slider.value = Number.isFinite(at) ? at : 0;
    slider.setAttribute("aria-valuetext", box.value);
  };
  const valueAt = () => {
    const value = low * (high / low) ** (slider.value / SLIDER_STEPS);
    return name === "steps" ? String(Math.round(Number(value.toPrecision(2)))) : String(Number(value.toPrecision(name === "delta" ? 1 : 3)));
  };
  box.oninput = () => { place(); changed(box.value, false); };
  box.onchange = () => changed(box.value, true);
  slider.oninput = () => {
    box.value = valueAt();
    slider.setAttribute("aria-valuetext", box.value);
    changed(box.value, false);
  };
  slider.onchange = () => changed(box.value, true);
  place();
  return made("div", { className: "number" }, made("span", { className: "name", textContent: title }), box, slider);
}

// A number as one types it: NaN for anything else.
function read(text) {
  const plain = text.trim().replace("∞", "inf");
  if (/^[+-]?inf(inity)?$/i.test(plain)) return plain.startsWith("-") ? -Infinity : Infinity;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
}

const isAllowed = {
  epsilon: (value, data) => value > 0 && value <= data.largest_epsilon,
  sigma: (value, data) => value >= data.smallest_sigma && value < Infinity,
  delta: (value) => value > 0 && value < 1,
  rate: (value) => value > 0 && value <= 1,
};

function noisePanel(memory, host) {
  const { data, words, question } = memory;
  const form = made("div", { className: "form" }), numbers = made("div", { className: "numbers" });
  const say = Object.fromEntries(["headline", "sentence", "odds", "how", "half"].map((name) => [name, made("p", { className: name })]));
  const error = made("p", { className: "error" }), bar = made("div", { className: "bar" }, made("i"), made("b"));
  const picture = drawn("svg", { role: "img", viewBox: `0 0 ${PICTURE.width} ${PICTURE.height}` });
  error.setAttribute("role", "alert");
  say.headline.setAttribute("role", "status");
  const ends = made("div", { className: "ends" }, ...words.ends.map((textContent) => made("span", { textContent })));
  for (const one of [bar, ends]) one.setAttribute("aria-hidden", "true");
  const answer = made("div", { className: "answer" }, say.headline, say.sentence, bar, ends, say.odds, made("figure", {}, picture, made("figcaption", { textContent: words.axis })), say.half, say.how);
  const redraw = () => drawAnswer(memory, { say, error, bar, picture, answer });
  const set = (name, value, isLetGo) => {
    question[name] = value;
    redraw();
    if (isLetGo) memory.report();
  };
  const fill = () => {
    const names = [...["epsilon", "sigma", "delta"].filter((name) => name !== question.find), ...(question.mechanism === "sampled" ? ["rate"] : []), "steps"];
    numbers.replaceChildren(...data.inputs.filter((one) => names.includes(one.name)).map((one) =>
      numberInput(one, question[one.name], (text, isLetGo) => set(one.name, text, isLetGo))));
  };
  const choose = (name) => (value) => {
    // What was found is given next, so that the picture stays where it is.
    if (name === "find" && memory.found) question[question.find] = question.find === "delta" ? short(memory.found.delta) : up(memory.found[question.find]);
    question[name] = value;
    fill();
    redraw();
    memory.report();
  };
  form.append(choices("Mechanism", data.mechanisms, question.mechanism, choose("mechanism")), choices("Find", data.unknowns, question.find, choose("find")),
    choices("Neighbouring datasets differ by", data.adjacencies, question.adjacency, choose("adjacency")), numbers);
  fill();
  host.append(made("section", { className: "noise" }, made("h2", { textContent: words.heading }), made("div", { className: "sides" }, form, made("div", { className: "right" }, error, answer))));
  redraw();
}

// The first number that is not allowed, as a sentence, else null.
function complaint({ data, words, question }) {
  for (const { name, field, allowed } of data.inputs) {
    if (name === question.find || (name === "rate" && question.mechanism !== "sampled")) continue;
    const text = question[name], value = read(text);
    if (name === "steps") {
      if (!/^\d+$/.test(text.trim()) || !(value >= 1 && value <= data.most_steps)) return `${field} = ${text}: ${allowed}`;
    } else if (Number.isNaN(value)) return `${field} = ${text}: ${words.not_number}`;
    else if (!isAllowed[name](value, data)) return `${field} = ${text}: ${allowed}`;
  }
  return null;
}

function drawAnswer(memory, { say, error, bar, picture, answer }) {
  const { data, words, question } = memory, wrong = complaint(memory);
  memory.found = null;
  error.textContent = wrong ?? "";
  answer.hidden = Boolean(wrong);
  if (wrong) return;
  const isSampled = question.mechanism === "sampled", steps = Number(question.steps);
  const asked = { find: question.find, adjacency: question.adjacency, rate: isSampled ? read(question.rate) : 1, steps };
  for (const name of ["epsilon", "sigma", "delta"]) asked[name] = read(question[name]);
  const found = solved(asked);
  if (Number.isNaN(found[question.find])) {
    error.textContent = words.no_bound;
    answer.hidden = true;
    return;
  }
  memory.found = found;
  const shownAs = { epsilon: up(found.epsilon), sigma: up(found.sigma), delta: short(found.delta) };
  const letters = { epsilon: "ε", sigma: "σ", delta: "δ" };
  const count = steps === 1 ? words.once : filled(words.often, { steps: steps.toLocaleString("en") });
  const how = isSampled ? filled(words.share, { count, rate: asked.rate }) : count;
  say.headline.textContent = `${letters[question.find]} = ${shownAs[question.find]}`;
  say.sentence.textContent = filled(words.answer, { ...shownAs, how, adjacency: data.adjacencies[question.adjacency] });
  let odds = filled(words.odds, { percent: oddsPercent(found.epsilon, found.delta) }), best = null;
  if (asked.rate === 1) { // one Gaussian release: the best attack in closed form
    const mu = (SENSITIVITY[question.adjacency] * Math.sqrt(steps)) / found.sigma;
    best = normalBelow(mu / 2);
    odds += ` ${filled(words.exact_odds, { percent: percentUp(best), hits: percentUp(normalBelow(data.rare_quantile + mu)) })}`;
  }
  say.odds.textContent = odds;
  say.how.textContent = asked.rate === 1 ? words.exact : words.bound;
  bar.firstChild.style.transform = `scaleX(${(oddsBound(found.epsilon, found.delta) - 0.5) * 2})`;
  bar.lastChild.style.left = best === null ? "" : `${100 * Math.min(1, (best - 0.5) * 2)}%`;
  bar.lastChild.hidden = bar.nextSibling.children[1].hidden = best === null;
  const half = solved({ ...asked, find: "sigma", epsilon: found.epsilon / 2, delta: found.delta });
  say.half.textContent = found.epsilon > 0 && found.delta > 0 && half.sigma > 0 ? filled(words.half, { sigma: up(half.sigma) }) : "";
  drawCurve(picture, asked, found, say.half.textContent);
}

// ε against σ at the same δ, steps and share: the curve by σ, whose every point is one evaluation.
function drawCurve(picture, asked, found, half) {
  picture.parentElement.hidden = !(found.delta > 0 && found.epsilon > 0);
  if (picture.parentElement.hidden) return;
  const span = 12, points = [];
  for (let k = 0; k <= CURVE_POINTS; k++) {
    const noise = found.sigma * span ** ((2 * k) / CURVE_POINTS - 1);
    const { epsilon } = solved({ ...asked, find: "epsilon", sigma: noise, delta: found.delta });
    if (epsilon > 1e-3 && epsilon < 1e4) points.push([epsilon, noise]);
  }
  const low = [Math.min(...points.map(([e]) => e)), found.sigma / span], high = [Math.max(...points.map(([e]) => e)), found.sigma * span];
  const x = (e) => EDGE.left + ((PICTURE.width - EDGE.left - EDGE.right) * Math.log(e / low[0])) / Math.log(high[0] / low[0]);
  const y = (s) => PICTURE.height - EDGE.bottom - ((PICTURE.height - EDGE.top - EDGE.bottom) * Math.log(s / low[1])) / Math.log(high[1] / low[1]);
  const parts = [];
  for (const tick of powers(low[0], high[0])) parts.push(drawn("line", { class: "grid", x1: x(tick), x2: x(tick), y1: EDGE.top, y2: PICTURE.height - EDGE.bottom }), drawn("text", { x: x(tick), y: PICTURE.height - 16, "text-anchor": "middle" }, short(tick)));
  for (const tick of powers(low[1], high[1])) parts.push(drawn("line", { class: "grid", x1: EDGE.left, x2: PICTURE.width - EDGE.right, y1: y(tick), y2: y(tick) }), drawn("text", { x: EDGE.left - 6, y: y(tick) + 4, "text-anchor": "end" }, short(tick)));
  parts.push(drawn("text", { x: PICTURE.width - EDGE.right, y: PICTURE.height - 2, "text-anchor": "end" }, "ε"), drawn("text", { x: 8, y: EDGE.top + 4 }, "σ"));
  parts.push(drawn("polyline", { class: "curve", points: points.map(([e, s]) => `${x(e).toFixed(1)},${y(s).toFixed(1)}`).join(" ") }));
  parts.push(drawn("circle", { class: "now", cx: x(found.epsilon), cy: y(found.sigma), r: 7 }));
  picture.replaceChildren(...parts);
  picture.setAttribute("aria-label", `ε = ${up(found.epsilon)} at σ = ${up(found.sigma)}, δ = ${short(found.delta)}. ${half}`);
}

function powers(low, high) {
  const found = [];
  for (let power = Math.ceil(Math.log10(low)); power <= Math.log10(high); power++) found.push(Number(`1e${power}`));
  return found;
}

function tasksPanel(memory, host) {
  const { data, words, question } = memory;
  const tasks = made("input", { type: "range", min: 1, max: data.most_tasks, step: 1, value: question.tasks });
  const each = made("input", { type: "range", min: 0, max: data.budgets.length - 1, step: 1, value: data.budgets.indexOf(question.task_epsilon) });
  const shown = { tasks: made("b"), each: made("b") }, body = made("tbody");
  const redraw = () => {
    const n = (question.tasks = Number(tasks.value)), epsilon = (question.task_epsilon = data.budgets[each.value]), total = inEveryTask(epsilon, data.delta, n);
    shown.tasks.textContent = tasks.ariaValueText = String(n);
    shown.each.textContent = each.ariaValueText = `ε = ${epsilon}`;
    const percent = (e, d) => `${oddsPercent(e, d)} %`;
    const rows = [
      [words.one, `ε = ${epsilon}`, percent(epsilon, data.delta)],
      [filled(words.several, { tasks: n }), `ε = ${up(total, 3)}`, percent(total, data.delta)],
      [filled(words.summed, { tasks: n }), `ε = ${up(n * epsilon, 3)}, δ = ${short(n * data.delta)}`, percent(n * epsilon, n * data.delta)],
    ];
    body.replaceChildren(...rows.map(([name, ...cells]) => {
      const head = made("th", { textContent: name });
      head.setAttribute("scope", "row");
      return made("tr", {}, head, ...cells.map((textContent) => made("td", { textContent })));
    }));
  };
  for (const slider of [tasks, each]) Object.assign(slider, { oninput: redraw, onchange: () => memory.report() });
  const heads = words.heads.map((text) => made("th", { textContent: filled(text, { delta: short(data.delta) }), scope: "col" }));
  host.append(made("section", { className: "tasks" }, made("h2", { textContent: words.tasks_heading }),
    made("label", {}, made("span", {}, `${words.tasks} = `, shown.tasks), tasks), made("label", {}, made("span", {}, `${words.each}: `, shown.each), each),
    made("table", {}, made("thead", {}, made("tr", {}, ...heads)), body), made("p", { className: "how", textContent: words.tasks_note })));
  redraw();
}
