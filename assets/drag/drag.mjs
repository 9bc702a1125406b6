// The ε-drag: a slider that redraws its pictures in the browser and tells the server once it is let go.
// Appended to replay.mjs (no import can be resolved from there). Fed once, with what dpcl_core/elements/element.py puts together.

export default function element({ data, parentElement, setStateValue }) {
  const host = parentElement.querySelector(".drag");
  const memory = memories.get(parentElement) ?? begin(parentElement, host);
  memory.report = (value) => setStateValue("epsilon", value);
  if (memory.fed !== data) feed(memory, data);
  return () => {
    memory.watcher.disconnect();
    clearTimeout(memory.timer);
    memories.delete(parentElement);
  };
}

const ARMS_HEIGHT = 250;
const asText = (epsilon) => (epsilon === Infinity ? "inf" : String(epsilon));
const asNumber = (text) => (text === "inf" ? Infinity : Number(text));
const shown = (epsilon) => (epsilon === Infinity ? "∞" : String(Number(epsilon.toPrecision(4))));
const percent = (share) => (100 * share).toFixed(1);
const isKnown = (value) => value !== null && !Number.isNaN(value); // null: not evaluated, which never counts as zero
const mean = (values) => {
  const known = values.filter(isKnown);
  return known.reduce((sum, value) => sum + value, 0) / known.length; // NaN where there is none
};
const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);

function begin(parentElement, host) {
  const memory = { host, find: (name) => host.querySelector(`.${name}`), epsilon: 1, timer: 0, byKey: false, panels: new Map() };
  memories.set(parentElement, memory);
  const slider = memory.find("slider"), typed = memory.find("typed");
  slider.addEventListener("keydown", () => { memory.byKey = true; });
  slider.addEventListener("pointerdown", () => { memory.byKey = false; });
  slider.addEventListener("input", () => show(memory, asNumber(memory.data.stops[slider.value])));
  slider.addEventListener("change", () => tell(memory, memory.byKey ? 300 : 0)); // keys repeat: wait for the last one
  typed.addEventListener("keydown", (event) => {
    event.stopPropagation(); // single letters are shortcuts of the page around
    if (event.key === "Enter") take(memory);
  });
  typed.addEventListener("change", () => take(memory));
  memory.find("panel-arms").addEventListener("change", () => {
    race(memory);
    drawArms(memory);
  });
  memory.find("left").addEventListener("input", () => newcomers(memory));
  memory.watcher = new ResizeObserver(() => {
    if (memory.data && host.clientWidth !== memory.width) {
      measure(memory);
      draw(memory);
    }
  });
  memory.watcher.observe(host);
  return memory;
}

function feed(memory, data) {
  const isNewStart = memory.fed?.start !== data.start;
  memory.fed = memory.data = data;
  memory.replay = data.replay ? decode(data.replay) : null;
  memory.cache = new Map();
  const slider = memory.find("slider");
  slider.max = data.stops.length - 1;
  memory.find("badge").textContent = data.words.badge;
  memory.find("badge").title = data.words.badge_help;
  memory.find("typed-row").hidden = !data.replay;
  for (const name of ["accuracy", "matrix", "classes"]) memory.find(`panel-${name}`).hidden = !data.panels.includes(name);
  for (const name of ["panel-arms", "panel-newcomers"]) memory.find(name).hidden = !data.arms;
  if (data.arms && memory.arms !== data.arms) {
    memory.arms = data.arms;
    memory.digits = openedDigits(data.arms);
    memory.streams = new Map();
  }
  memory.host.classList.add("fed");
  measure(memory);
  const held = !isNewStart && (data.replay || data.stops.some((stop) => asNumber(stop) === memory.epsilon));
  show(memory, held ? memory.epsilon : asNumber(data.start));
}

function take(memory) {
  const typed = memory.find("typed"), complaint = memory.find("complaint");
  const text = typed.value.trim().replace(",", ".").toLowerCase();
  const value = ["∞", "inf", "infinity"].includes(text) ? Infinity : text === "" ? NaN : Number(text);
  const low = asNumber(memory.data.stops[0]);
  const high = Math.max(...memory.data.stops.map(asNumber).filter(Number.isFinite));
  const isFine = value === Infinity || (value >= low && value <= high);
  complaint.textContent = isFine ? "" : filled(memory.data.words.complaint, { value: typed.value, low, high });
  typed.setAttribute("aria-invalid", String(!isFine));
  if (!isFine || value === memory.epsilon) return;
  show(memory, value);
  tell(memory, 0);
}

function tell(memory, wait) {
  clearTimeout(memory.timer);
  memory.timer = setTimeout(() => memory.report(asText(memory.epsilon)), wait);
}

// Accuracies at a budget: computed, or looked up among the trained ones.
function results(memory, epsilon) {
  if (!memory.cache.has(epsilon)) {
    const { table } = memory.data;
    const found = memory.replay
      ? accuracies(memory.replay, epsilon)
      : { matrices: table[memory.data.stops.findIndex((stop) => asNumber(stop) === epsilon)], classes: [] };
    if (memory.cache.size > 64) memory.cache.clear();
    memory.cache.set(epsilon, summarised(found));
  }
  return memory.cache.get(epsilon);
}

function summarised({ matrices, classes }) {
  const nTasks = matrices[0].length, tasks = [...Array(nTasks).keys()];
  const seen = matrices.map((matrix) => matrix.map((row, k) => mean(row.slice(0, k + 1)))); // [seed][after task]
  const curve = tasks.map((k) => mean(seen.map((one) => one[k])));
  const last = Math.max(0, curve.findLastIndex(isKnown)); // of a run that is going on, the newest task
  const lost = matrices.map((matrix) => mean(tasks.slice(0, last).map((i) => {
    const before = tasks.slice(i, last).map((j) => matrix[j][i]).filter(isKnown), now = matrix[last][i];
    return before.length && isKnown(now) ? Math.max(...before) - now : NaN;
  })));
  return {
    nTasks,
    last,
    seen,
    curve,
    matrix: tasks.map((k) => tasks.slice(0, k + 1).map((i) => mean(matrices.map((one) => one[k][i])))),
    lost: mean(lost),
    classes: (classes[0] ?? []).map((_, c) => mean(classes.map((one) => one[c]))),
  };
}

function show(memory, epsilon) {
  memory.epsilon = epsilon;
  const { words, stops, delta } = memory.data, slider = memory.find("slider"), typed = memory.find("typed");
  const values = stops.map(asNumber);
  const distance = (value) => value === epsilon ? 0 : Math.abs(Math.log(value) - Math.log(epsilon));
  slider.value = values.reduce((best, value, i) => (distance(value) < distance(values[best]) ? i : best), 0);
  slider.style.setProperty("--done", `${(100 * slider.value) / Math.max(1, stops.length - 1)}%`);
  const now = results(memory, epsilon);
  const { last } = now, noiseless = values.includes(Infinity) ? results(memory, Infinity) : null;
  const clean = noiseless && isKnown(noiseless.curve[last]) ? noiseless : null;
  const fields = {
    epsilon: shown(epsilon),
    accuracy: percent(now.curve[last]),
    clean: clean ? percent(clean.curve[last]) : "",
    lost: percent(Math.abs(now.lost)),
    tasks: last + 1,
  };
  const parts = [filled(epsilon === Infinity ? words.noiseless : clean ? words.bounded : words.bounded_alone, fields)];
  if (isKnown(now.lost)) parts.push(filled(now.lost >= 0 ? words.lost : words.gained, fields));
  memory.sentence = parts.join(" ");
  memory.find("value").textContent = `ε = ${shown(epsilon)}`;
  memory.find("sentence").textContent = memory.sentence;
  memory.find("odds").textContent = oddsText(words, epsilon, delta);
  slider.setAttribute("aria-valuetext", `ε = ${shown(epsilon)}: ${fields.accuracy} %`);
  if (typed.getRootNode().activeElement !== typed || typed.value !== "") typed.value = shown(epsilon);
  typed.setAttribute("aria-invalid", "false");
  memory.find("complaint").textContent = "";
  memory.now = now;
  memory.clean = clean;
  if (memory.data.arms) {
    race(memory);
    cancelAnimationFrame(memory.frame); // once a frame, after what the slider itself moves
    memory.frame = requestAnimationFrame(() => newcomers(memory));
  }
  draw(memory);
}

// Four ways to handle noise over tasks, at this budget and for the chosen stream.
function race(memory) {
  const { arms_sentence: sentence, arms_clean: noiseless } = memory.data.words, panel = memory.find("panel-arms");
  const chosen = (name) => panel.querySelector(`input[name=${name}]:checked`).value, nTasks = Number(chosen("tasks"));
  const once = panel.querySelector("input[value=once]");
  once.disabled = nTasks > memory.digits.n_classes; // there are no more digits than that
  if (once.disabled) panel.querySelector("input[value=every]").checked = true;
  const returns = chosen("returns") === "every", stream = streamOf(memory, nTasks, returns), found = armAccuracies(memory.digits, stream, memory.epsilon);
  const curves = Object.fromEntries(ARMS.map((arm) => [arm, stream.points.map((_, point) => mean(found[arm].map((seed) => seed[point])))]));
  const ends = Object.fromEntries(ARMS.map((arm) => [arm, percent(curves[arm].at(-1))]));
  memory.race = { curves, nTasks, points: stream.points, arm: chosen("arm") };
  memory.find("told").textContent = filled(memory.epsilon === Infinity ? noiseless : sentence, { tasks: nTasks, ...ends });
}

function streamOf(memory, nTasks, returns) {
  const key = `${nTasks} ${returns}`;
  if (!memory.streams.has(key)) memory.streams.set(key, preparedStream(memory.digits, nTasks, returns));
  return memory.streams.get(key);
}

// What a stream that forgets still knows, and what it tells who comes late: three columns beside each other.
function newcomers(memory) {
  const { words } = memory.data, left = memory.find("left"), decay = Number(left.value) / 100;
  const found = forgetting(memory.digits, streamOf(memory, LASTING, false), decay, memory.epsilon);
  const told = (value) => (value === Infinity ? "∞" : value.toFixed(2)), cells = [];
  for (const way of Object.keys(WAYS)) {
    const { old, newcomer } = found[way];
    cells.push(`<tr><th scope="row">${words[`way_${way}`]}</th><td>${percent(old)} %</td><td>${told(newcomer)}</td><td>${told(memory.epsilon)}</td></tr>`);
  }
  left.style.setProperty("--done", `${(100 * (Number(left.value) - Number(left.min))) / (left.max - left.min)}%`);
  left.setAttribute("aria-valuetext", `${left.value} %: ${percent(found.fresh.old)} % right`);
  memory.find("kept").textContent = `${left.value} %`;
  memory.find("came").textContent = words[memory.epsilon === Infinity ? "newcomers_clean" : decay < 1 ? "newcomers_forget" : "newcomers_keep"];
  memory.find("panel-newcomers").querySelector("tbody").innerHTML = cells.join("");
}

function oddsText(words, epsilon, delta) {
  if (epsilon === Infinity) return words.no_odds;
  return filled(words.odds, { percent: oddsPercent(epsilon, delta) });
}

// Sizes are read only when they may have changed: reading them makes the browser lay out the page.
function measure(memory) {
  memory.width = memory.host.clientWidth;
  const scale = Number(getComputedStyle(memory.host).getPropertyValue("--large")) || 1; // the presenter's size
  memory.height = memory.width >= 800 ? 350 / scale : 236;
  for (const name of memory.data.panels) {
    const svg = memory.find(`panel-${name}`).querySelector("svg");
    const width = Math.max(180, svg.parentElement.clientWidth / scale);
    memory.panels.set(name, { svg, width });
    svg.setAttribute("viewBox", `0 0 ${width} ${memory.height}`);
    svg.setAttribute("height", memory.height * scale);
  }
  if (!memory.data.arms) return;
  const svg = memory.find("panel-arms").querySelector("svg"), width = Math.max(180, svg.parentElement.clientWidth / scale);
  memory.panels.set("arms", { svg, width });
  svg.setAttribute("viewBox", `0 0 ${width} ${ARMS_HEIGHT}`);
  svg.setAttribute("height", ARMS_HEIGHT * scale);
}

function draw(memory) {
  const painters = { accuracy: paintAccuracy, matrix: paintMatrix, classes: paintClasses };
  for (const name of memory.data.panels) {
    const { svg, width } = memory.panels.get(name);
    svg.setAttribute("aria-label", memory.sentence);
    svg.innerHTML = painters[name](memory, width, memory.height);
  }
  if (memory.data.arms) drawArms(memory);
}

function drawArms(memory) {
  const { svg, width } = memory.panels.get("arms"), { curves, nTasks, points, arm: chosen } = memory.race;
  const left = 44, right = width - (width < 500 ? 130 : 168), top = 8, bottom = ARMS_HEIGHT - 36;
  const x = (task) => left + ((right - left) * task) / (nTasks - 1), y = (share) => bottom - (bottom - top) * share, out = [];
  for (const tick of [0, 25, 50, 75, 100]) {
    out.push(`<line class="grid" x1="${left}" x2="${right}" y1="${y(tick / 100)}" y2="${y(tick / 100)}"/>`, text(left - 8, y(tick / 100) + 4, `${tick} %`, "soft", "end"));
  }
  for (const task of points) out.push(text(x(task), bottom + 17, task + 1, "soft"));
  out.push(text((left + right) / 2, ARMS_HEIGHT - 3, "tasks learned", "soft"));
  const ends = ARMS.map((arm) => ({ arm, at: y(curves[arm].at(-1)), look: `arm arm-${arm}${arm === chosen ? " chosen" : ""}` })).sort((a, b) => a.at - b.at);
  for (const { arm, look } of ends) {
    const places = points.map((task, point) => [x(task), y(curves[arm][point])]);
    out.push(`<path class="${look}" d="${path(places)}"/>`, ...places.map(([cx, cy]) => `<circle class="${look}" cx="${cx.toFixed(1)}" cy="${cy.toFixed(1)}" r="3"/>`));
  }
  ends.reduce((above, end) => (end.at = Math.max(end.at, above + 15)), -Infinity);
  ends.reduceRight((below, end) => (end.at = Math.min(end.at, below - 15)), bottom + 15);
  for (const { arm, at, look } of ends) out.push(text(right + 8, at + 4, memory.data.words[`arm_${arm}`], look, "start"));
  svg.setAttribute("aria-label", memory.find("told").textContent);
  svg.innerHTML = out.join("");
}

const text = (x, y, label, kind = "", anchor = "middle") =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" class="${kind}" text-anchor="${anchor}">${escaped(label)}</text>`;
const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

function paintAccuracy({ data, now, clean, epsilon }, width, height) {
  const left = 44, right = width - 84, top = 10, bottom = height - 36;
  const x = (k) => (now.nTasks === 1 ? (left + right) / 2 : left + ((right - left) * k) / (now.nTasks - 1));
  const y = (share) => bottom - (bottom - top) * Math.min(1, Math.max(0, share));
  const out = [];
  for (const tick of [0, 25, 50, 75, 100]) {
    out.push(`<line class="grid" x1="${left}" x2="${right}" y1="${y(tick / 100)}" y2="${y(tick / 100)}"/>`);
    out.push(text(left - 8, y(tick / 100) + 4, `${tick} %`, "soft", "end"));
  }
  const every = Math.ceil(now.nTasks / 10);
  for (let k = 0; k < now.nTasks; k += every) out.push(text(x(k), bottom + 17, k + 1, "soft"));
  out.push(text((left + right) / 2, height - 3, "tasks learned", "soft"));
  const points = (values) => values.map((v, k) => [x(k), y(v), v]).filter(([, , v]) => isKnown(v));
  const ends = [];
  if (clean && epsilon !== Infinity) {
    out.push(`<path class="clean" d="${path(points(clean.curve))}"/>`);
    ends.push({ at: y(clean.curve[clean.last]), label: "no noise", kind: "soft start" });
  }
  if (data.interval_factor !== null) {
    const half = now.curve.map((v, k) => {
      const spread = Math.sqrt(now.seen.reduce((sum, one) => sum + (one[k] - v) ** 2, 0) / (now.seen.length - 1));
      return data.interval_factor * spread;
    });
    const edge = (sign) => points(now.curve.map((v, k) => v + sign * half[k])); // NaN where a seed was not evaluated: no band
    const high = edge(1), low = edge(-1).reverse();
    out.push(`<path class="band" d="${path([...high, ...low])}Z"/>`);
  } else {
    for (const one of now.seen) for (const [cx, cy] of points(one)) out.push(`<circle class="seed" cx="${cx}" cy="${cy}" r="2.5"/>`);
  }
  out.push(`<path class="line" d="${path(points(now.curve))}"/>`);
  for (const [cx, cy] of points(now.curve)) out.push(`<circle class="dot" cx="${cx}" cy="${cy}" r="3.5"/>`);
  ends.push({ at: y(now.curve[now.last]), label: epsilon === Infinity ? "no noise" : `ε = ${shown(epsilon)}`, kind: "mine" });
  ends.sort((a, b) => a.at - b.at);
  if (ends.length > 1 && ends[1].at - ends[0].at < 15) {
    const middle = Math.min((ends[0].at + ends[1].at) / 2, bottom - 8);
    ends[0].at = middle - 7.5;
    ends[1].at = middle + 7.5;
  }
  for (const end of ends) out.push(text(right + 10, end.at + 4, end.label, end.kind, "start"));
  return out.join("");
}

function paintMatrix({ now }, width, height) {
  const left = 58, top = 4, n = now.nTasks, gap = n > 7 ? 2 : 4;
  const w = (width - left) / n, h = (height - 36 - top) / n;
  const out = [];
  for (let k = 0; k < n; k++) {
    out.push(text(left - 8, top + h * (k + 0.5) + 4, `after ${k + 1}`, "soft", "end"));
    out.push(text(left + w * (k + 0.5), top + h * n + 15, k + 1, "soft"));
    for (let i = 0; i < n; i++) {
      const value = now.matrix[k][i], isEmpty = i > k || !isKnown(value);
      const box = `x="${left + w * i + gap / 2}" y="${top + h * k + gap / 2}" width="${w - gap}" height="${h - gap}" rx="3"`;
      out.push(isEmpty ? `<rect class="none" ${box}/>` : `<rect class="cell" ${box} fill-opacity="${0.04 + 0.61 * value}"/>`);
      if (!isEmpty) {
        out.push(text(left + w * (i + 0.5), top + h * (k + 0.5) + 4, Math.round(100 * value), n > 7 ? "number small" : "number"));
      }
    }
  }
  out.push(text(left + (w * n) / 2, height - 3, "on task", "soft"));
  return out.join("");
}

function paintClasses({ data, now, clean }, width, height) {
  const names = data.classes, longest = Math.max(...names.map((name) => name.length));
  const left = Math.min(110, 14 + 7 * longest), right = width - 40, top = 4;
  const h = (height - 10 - top) / names.length;
  const out = [];
  names.forEach((name, c) => {
    const y = top + h * c, value = now.classes[c], end = left + (right - left) * value;
    out.push(text(left - 7, y + h / 2 + 4, name, "soft", "end"));
    out.push(`<rect class="none" x="${left}" y="${y + 2}" width="${right - left}" height="${h - 4}" rx="2"/>`);
    out.push(`<rect class="bar" x="${left}" y="${y + 2}" width="${Math.max(0, end - left).toFixed(1)}" height="${h - 4}" rx="2"/>`);
    if (clean) {
      const mark = left + (right - left) * clean.classes[c];
      out.push(`<line class="mark" x1="${mark}" x2="${mark}" y1="${y + 1}" y2="${y + h - 1}"/>`);
    }
    out.push(text(right + 6, y + h / 2 + 4, Math.round(100 * value), "soft", "start"));
  });
  return out.join("");
}
