// A lesson, one step at a time: predict, do, see, explain. Each part appears when the one before it is done. Appended to the
// steps of every lesson (label_steps.mjs, noise_steps.mjs); fed by dpcl_core/lessons/in_browser.py.

const WAITING = {}; // thrown by a step that has no result before the visitor's next press
const ACTS = { label: labelSteps, noise: noiseSteps };

export default function element({ data, parentElement, setStateValue }) {
  const host = parentElement.querySelector(".ls"), from = `${data.name} ${data.epoch}`;
  const memory = memories.get(parentElement) ?? {};
  memories.set(parentElement, memory);
  memory.report = () => {
    const progress = { step: memory.step, done: [...memory.done], predictions: memory.predictions, values: memory.values };
    if (data.is_alone) keep(data.name, progress);
    setStateValue("progress", progress);
  };
  if (memory.from === from && host.firstChild) return; // the page calls again after a report, or when its theme changes
  const { step, done, predictions, values } = (data.is_alone && kept(data)) || data.start;
  Object.assign(memory, { from, host, data, step, done: new Set(done), predictions: { ...predictions }, values: { ...values } });
  memory.step = Math.min(step, lastOpen(memory));
  memory.kept = data.lesson.steps.map(() => new Map());
  memory.game = opened(data.game);
  render(memory);
}

// On a page of its own a lesson keeps its ticks in the browser. Where that is refused, as it may be for a page opened from a file,
// they last for this visit.
const storageKey = (name) => `dpcl lesson ${name}`;

function keep(name, progress) {
  try {
    if (progress) localStorage.setItem(storageKey(name), JSON.stringify(progress));
    else localStorage.removeItem(storageKey(name));
  } catch { /* for this visit only */ }
}

// What was kept of this lesson; nothing unless it fits the lesson as it is now.
function kept({ name, lesson, start }) {
  try {
    const { step, done, predictions, values } = JSON.parse(localStorage.getItem(storageKey(name))), { steps, controls } = lesson;
    const isStep = (one) => Number.isInteger(one) && one >= 0 && one < steps.length;
    const isChoice = ([at, choice]) => isStep(Number(at)) && Number.isInteger(choice) && choice >= 0 && choice < steps[at].choices.length;
    const isValue = ([key, value]) => key in start.values && Number.isFinite(value);
    const fits = isStep(step) && done.every(isStep) && Object.entries(predictions).every(isChoice) && Object.entries(values).every(isValue);
    return fits ? { step, done, predictions, values: { ...start.values, ...values } } : null;
  } catch {
    return null;
  }
}

// The last step that may be opened: the first without a prediction, or the last where nobody is asked for any.
function lastOpen({ data, done, predictions }) {
  const last = data.lesson.steps.length - 1;
  const unasked = data.lesson.steps.findIndex((_, place) => place >= data.first && !done.has(place) && predictions[place] === undefined);
  return data.is_quiet || unasked < 0 ? last : unasked;
}

// A text in which words of the glossary carry their meaning: a list of plain texts and [word, meaning].
function prose(parts) {
  return made("p", {}, ...parts.map((part) => {
    if (typeof part === "string") return part;
    const term = made("span", { className: "term", tabIndex: 0, textContent: part[0] });
    term.setAttribute("role", "term");
    term.setAttribute("aria-description", part[1]);
    return term;
  }));
}

function go(memory, step) {
  memory.step = step;
  memory.report();
  render(memory);
  memory.host.querySelector("h2").focus();
}

function render(memory) {
  const { data, host, step: place } = memory, { lesson, words } = data, step = lesson.steps[place];
  const focused = host.getRootNode().activeElement?.dataset?.key;
  const heading = made("h2", { textContent: step.title, tabIndex: -1 });
  const where = made("p", { className: "soft", textContent: filled(words.where, { title: lesson.title, step: place + 1, steps: lesson.steps.length }) });
  const parts = [], isPredicted = data.is_quiet || memory.predictions[place] !== undefined;
  const isLarge = getComputedStyle(host).getPropertyValue("--large") !== ""; // a projector has room for the result and its explanation
  const isShort = isLarge && memory.done.has(place);
  if (isPredicted) {
    const out = isShort ? [] : [made("h3", { textContent: "Do" }), prose(step.do)], beside = isShort ? [] : out;
    const stage = staged(memory, step, out, beside);
    let truth = null;
    try {
      truth = ACTS[data.name][step.key](stage);
      if (!memory.done.has(place)) memory.report(memory.done.add(place));
    } catch (thrown) {
      if (thrown !== WAITING) throw thrown;
    }
    if (isLarge && memory.done.has(place) && !isShort) return render(memory); // done just now
    if (isShort) parts.push(made("div", { className: "aside" }, made("section", { className: "act" }, ...out), made("div", {}, ...beside, explained(memory, step, truth))));
    else parts.push(made("section", { className: "act" }, ...out), ...(memory.done.has(place) ? [explained(memory, step, truth)] : []));
    if (memory.done.has(place) && place + 1 === lesson.steps.length) parts.push(questions(memory));
  }
  const intro = place === 0 && !isShort ? [prose(lesson.intro)] : [];
  const ask = data.is_quiet || isShort ? [] : [question(memory, step)]; // knows whether it is done
  host.replaceChildren(...(data.is_alone ? [contents(memory)] : []), where, heading, ...intro, ...ask, ...parts, onward(memory));
  if (focused) host.querySelector(`[data-key="${focused}"]`)?.focus();
}

function contents(memory) {
  const { lesson, words } = memory.data;
  const items = lesson.steps.map((step, place) => {
    const isDone = memory.done.has(place), button = made("button", { type: "button", onclick: () => go(memory, place) }, `${place + 1}`, made("span", { textContent: `. ${step.title}` }), isDone ? " ✓" : "");
    button.setAttribute("aria-label", filled(isDone ? words.done : words.open, { step: place + 1, title: step.title }));
    button.title = step.title;
    if (place === memory.step) button.setAttribute("aria-current", "step");
    button.dataset.key = `step-${place}`;
    button.disabled = place > lastOpen(memory);
    return made("li", {}, button);
  });
  const afresh = made("button", { type: "button", textContent: words.afresh, onclick: () => begin(memory) });
  const nav = made("nav", {}, made("ol", {}, ...items, ...(memory.done.size ? [made("li", {}, afresh)] : [])));
  nav.setAttribute("aria-label", words.steps);
  return nav;
}

// The lesson as it was before the first step, and nothing kept of it.
function begin(memory) {
  const { data } = memory;
  keep(data.name, null);
  memory.kept.forEach((results) => results.clear());
  Object.assign(memory, { step: 0, done: new Set(), predictions: {}, values: { ...data.start.values } });
  render(memory);
  memory.host.querySelector("h2").focus();
}

function question(memory, step) {
  const { step: place, predictions, data } = memory, chosen = predictions[place];
  const rows = choices("Your prediction", { ...step.choices }, String(chosen), (value) => {
    predictions[place] = Number(value);
    memory.report();
    render(memory);
  });
  rows.querySelectorAll("input").forEach((input, i) => {
    input.dataset.key = `choice-${i}`;
    input.disabled = memory.done.has(place) && chosen !== undefined;
  });
  const hint = chosen === undefined ? [made("p", { className: "soft", textContent: data.words.choose })] : [];
  return made("section", { className: "box" }, made("h3", { textContent: "Predict" }), prose(step.predict), rows, ...hint);
}

function explained(memory, step, truth) {
  const { words } = memory.data, chosen = memory.predictions[memory.step], verdict = [];
  if (truth !== null && chosen !== undefined) {
    const outcome = truth === chosen ? words.correct : filled(words.result, { choice: step.choices[truth] });
    const line = made("p", { className: "verdict", textContent: `${filled(words.predicted, { choice: step.choices[chosen] })} ${outcome}` });
    line.setAttribute("role", "status");
    verdict.push(line);
  }
  return made("section", { className: "box" }, made("h3", { textContent: "Explain" }), ...verdict, prose(step.explain));
}

// The questions to think about after the lesson, each with its answer folded away.
function questions(memory) {
  const { lesson, words } = memory.data;
  const folded = lesson.think.map(({ question: asked, answer }) => made("details", {}, made("summary", { textContent: asked }), prose(answer)));
  return made("section", { className: "box" }, made("h3", { textContent: words.think }), ...folded);
}

function onward(memory) {
  const { step: place, done, data } = memory, { steps } = data.lesson, row = made("div", { className: "onward" });
  const button = (textContent, to, key, isMain = false) => {
    const one = made("button", { type: "button", textContent, className: isMain ? "main" : "", onclick: () => go(memory, to) });
    one.dataset.key = key;
    return one;
  };
  if (place > 0) row.append(button("← Back", place - 1, "back"));
  if (place + 1 < steps.length && place < lastOpen(memory)) row.append(button(`Next: ${steps[place + 1].title} →`, place + 1, "next", done.has(place)));
  else if (place + 1 === steps.length && done.size === steps.length) row.append(made("b", { textContent: data.words.all_done }));
  return row;
}

// What the code of a step draws with; results are kept for as long as the page is open.
function staged(memory, step, out, beside) {
  const { data, values } = memory, kept = memory.kept[memory.step], hidden = data.hidden;
  const button = (label, key, press) => {
    const one = made("button", { type: "button", textContent: label, className: "main", onclick: press });
    one.dataset.key = key;
    return one;
  };
  const stage = {
    game: memory.game, values, words: data.words, delta: data.delta,
    add: (...nodes) => out.push(...nodes),
    say: (text) => out.push(made("p", { textContent: text })),
    see: () => beside.push(made("h3", { textContent: "See" }), prose(step.see)),
    kept: (key) => kept.get(key),
    keep: (key, value) => kept.set(key, value).get(key),
    again: () => render(memory),
    forget: () => kept.clear(),
    buttons: (...pairs) => out.push(made("div", { className: "onward" }, ...pairs.map(([label, press], i) => button(label, `press-${i}`, press)))),
    // The value of a control, with a row of buttons; only text where the link hides it.
    choose: (name, options) => {
      const control = data.lesson.controls.find((one) => one.name === name);
      if (hidden.includes(name) || !options.includes(values[name])) stage.say(`${control.title}: ${values[name]}`);
      else {
        const row = choices(control.title, Object.fromEntries(options.map((one) => [`v${one}`, String(one)])), `v${values[name]}`, (chosen) => {
          values[name] = Number(chosen.slice(1));
          memory.report();
          render(memory);
        });
        row.querySelectorAll("input").forEach((input, i) => (input.dataset.key = `${name}-${i}`));
        out.push(row);
      }
      return values[name];
    },
    // Draws the button of the step; its last result for these settings, under the heading of the results.
    results: (label, make, ...of) => {
      const key = JSON.stringify(["done", ...of]);
      stage.buttons([label, () => {
        kept.set(key, make(kept.get(key)));
        stage.again();
      }]);
      if (!kept.has(key)) throw WAITING;
      stage.see();
      return kept.get(key);
    },
    wait: () => {
      throw WAITING;
    },
  };
  return stage;
}
