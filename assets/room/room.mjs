// A classroom: the open question with everybody's answers, everybody's runs as points, and a run that all look at. It asks the
// server for the room twice a second. Appended to shared/dom.mjs and room/asking.mjs; fed by dpcl_core/elements/element.py.

const EVERY_MS = 500;
const PLOT = { left: 68, right: 584, top: 14, bottom: 284 }, CURVE = { left: 46, right: 408, top: 14, bottom: 212 };
const MARKS = ["M-6,0A6,6 0 1 0 6,0A6,6 0 1 0 -6,0Z", "M-5.5,-5.5H5.5V5.5H-5.5Z", "M0,-7L7,5H-7Z", "M0,-8L8,0L0,8L-8,0Z", "M-7,-2H-2V-7H2V-2H7V2H2V7H-2V2H-7Z"];
const COLOURS = 8;
// The mark of a method by its place among those of the room: forty pairs of form and colour before one comes again.
const mark = (place) => ({ d: MARKS[place % MARKS.length], fill: `var(--c${place % COLOURS})` });
const STEP_MS = 500; // of a replay, for each task
const percent = (share) => `${Math.round(100 * share)} %`;
const tick = (epsilon) => (epsilon === "inf" ? "∞" : String(epsilon));
// The budget in words, as `picture.epsilon_label` has it.
const budget = ({ epsilon, standing }, words) => (epsilon === "inf" ? words.noiseless : filled(words[standing === "none" ? "asked" : standing], { epsilon }));
const isBound = (point) => point.standing === "bound" && point.epsilon !== "inf";

export default function element({ data, parentElement }) {
  const host = parentElement.querySelector(".ro");
  const before = memories.get(parentElement);
  if (before?.code === data.code) {
    before.data = data;
    return;
  }
  const memory = { host, data, code: data.code, drawn: {}, votes: 0 };
  memories.set(parentElement, memory);
  part(memory, "runs").hidden = data.is_poll_alone;
  part(memory, "again").addEventListener("click", () => replay(memory));
  ask(memory, parentElement);
}

const part = (memory, name) => memory.host.querySelector(`.ro-${name}`);

// Asks for the room until the page is left or shows another one.
async function ask(memory, parentElement) {
  while (isHere(memory, parentElement)) {
    if (!document.hidden) await look(memory);
    await new Promise((wake) => setTimeout(wake, EVERY_MS));
  }
}

// What set out before a vote and comes back after it would take the vote off the screen.
async function look(memory) {
  const before = memory.votes, room = await asked(memory, `rooms/${memory.code}`);
  if (memory.votes === before) show(memory, room);
}

async function vote(memory, poll, choice) {
  const room = await voted(memory, poll, choice);
  memory.votes += 1;
  show(memory, room);
}

function show(memory, room) {
  part(memory, "trouble").textContent = room.error ?? "";
  part(memory, "trouble").hidden = !room.error;
  if (!room.error) paint(memory, room);
}

function paint(memory, room) {
  const changed = (name, value) => memory.drawn[name] !== (memory.drawn[name] = JSON.stringify(value));
  memory.room = room;
  if (changed("poll", [room.poll, room.you, room.people])) paintPoll(memory, room);
  if (memory.data.is_poll_alone) return;
  if (changed("points", [room.points, room.shown?.run])) paintPoints(memory, room);
  if (changed("shown", room.shown)) {
    part(memory, "shown").hidden = !room.shown?.curve?.accuracy.length;
    if (room.shown?.curve?.accuracy.length) replay(memory);
  }
}

function paintPoll(memory, room) {
  const { words } = memory.data, poll = room.poll;
  part(memory, "poll").hidden = !poll;
  part(memory, "wait").hidden = !!poll;
  part(memory, "wait").textContent = filled(room.people === 1 ? words.wait_one : words.wait, { people: room.people });
  if (!poll) return;
  part(memory, "question").textContent = poll.question;
  const rows = part(memory, "answers");
  if (memory.poll !== poll.id) {
    memory.poll = poll.id;
    rows.replaceChildren(...poll.choices.map((choice, place) => made("button", { type: "button", onclick: () => vote(memory, poll.id, place) },
      made("span", { textContent: choice }), made("b", {}), made("span", { className: "bar", hidden: true }, made("i", {})))));
  }
  [...rows.children].forEach((row, place) => {
    row.disabled = !poll.is_open || !room.you;
    row.setAttribute("aria-pressed", String(poll.mine === place));
    const [, count, bar] = row.children, share = poll.counts && poll.votes ? poll.counts[place] / poll.votes : 0;
    count.textContent = (poll.counts ? String(poll.counts[place]) : "") + (poll.truth === place ? " ✓" : "");
    count.setAttribute("aria-label", (poll.counts ? filled(poll.counts[place] === 1 ? words.count_one : words.count, { n: poll.counts[place] }) : "") + (poll.truth === place ? words.right : ""));
    bar.hidden = !poll.counts;
    bar.firstChild.style.transform = `scaleX(${share})`;
  });
  const state = poll.is_open ? (room.you && poll.mine === null ? words.choose : words.open) : words.over;
  part(memory, "votes").textContent = filled(state, { n: poll.votes, people: room.people });
}

function paintPoints(memory, room) {
  const { words, methods } = memory.data, plot = part(memory, "plot"), points = room.points;
  const title = (method) => methods[method] ?? method, names = [...new Set(points.map((point) => point.method))];
  const finite = points.map((point) => point.epsilon).filter((epsilon) => epsilon !== "inf");
  const low = Math.log(Math.min(0.5, ...finite) * 0.8), high = Math.log(Math.max(16, ...finite) * 1.3);
  const room_for_infinity = points.some((point) => point.epsilon === "inf") ? 50 : 0, right = PLOT.right - room_for_infinity;
  const x = (epsilon) => (epsilon === "inf" ? PLOT.right - 14 : PLOT.left + ((Math.log(epsilon) - low) / (high - low)) * (right - PLOT.left));
  const y = (accuracy) => PLOT.bottom - accuracy * (PLOT.bottom - PLOT.top);
  const ticks = [0.1, 0.3, 1, 3, 10, 30, 100].filter((at) => Math.log(at) >= low && Math.log(at) <= high);
  const across = [0, 0.25, 0.5, 0.75, 1].flatMap((at) => [
    drawn("line", { class: "grid", x1: PLOT.left, x2: PLOT.right, y1: y(at), y2: y(at) }),
    drawn("text", { x: PLOT.left - 6, y: y(at) + 5, "text-anchor": "end" }, percent(at)),
  ]);
  const along = [...ticks, ...(room_for_infinity ? ["inf"] : [])].map((at) => drawn("text", { x: x(at), y: PLOT.bottom + 23, "text-anchor": "middle" }, tick(at)));
  const marks = points.map((point) => {
    const { d, fill } = mark(names.indexOf(point.method)), own = point.name === room.you || point.run_id === room.shown?.run;
    const text = filled(words.point, { name: point.name, method: title(point.method), budget: budget(point, words), accuracy: percent(point.accuracy) });
    const kind = `${own ? "own" : ""} ${isHollow(point) ? "hollow" : ""}`;
    return drawn("path", { d, class: kind, fill, stroke: fill, transform: `translate(${x(point.epsilon)},${y(point.accuracy)})` }, drawn("title", {}, text));
  });
  const axis = drawn("text", { x: (PLOT.left + PLOT.right) / 2, y: PLOT.bottom + 48, "text-anchor": "middle" }, words.axis);
  plot.replaceChildren(...across, ...along, axis, ...marks);
  const finding = found(points, words, title);
  part(memory, "finding").textContent = finding;
  part(memory, "figures").hidden = !points.length;
  plot.setAttribute("aria-label", finding);
  part(memory, "legend").replaceChildren(...names.map((method, place) => made("span", {},
    drawn("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" }, drawn("path", mark(place))), title(method))),
    ...(points.some(isHollow) ? [made("span", { textContent: words.hollow })] : []));
}

const isHollow = (point) => point.epsilon !== "inf" && !isBound(point);

// How many runs there are, and the best of the points whose ε bounds all that gets out.
function found(points, words, title) {
  if (!points.length) return words.none;
  const runs = new Set(points.map((point) => point.run_id)).size;
  const best = points.filter(isBound).reduce((most, point) => (!most || point.accuracy > most.accuracy ? point : most), null);
  const said = best ? filled(words.best, { name: best.name, method: title(best.method), budget: budget(best, words), accuracy: percent(best.accuracy) }) : words.unbounded;
  return `${filled(runs === 1 ? words.one : words.many, { runs })} ${said}`;
}

// Draws the shown run's curve task by task.
function replay(memory) {
  const { words } = memory.data, { curve: budgeted, name } = memory.room.shown, curve = budgeted.accuracy, svg = part(memory, "curve");
  const x = (task) => CURVE.left + ((task + 0.5) / curve.length) * (CURVE.right - CURVE.left), y = (accuracy) => CURVE.bottom - accuracy * (CURVE.bottom - CURVE.top);
  const finding = filled(words.curve, { name, budget: budget(budgeted, words), first: percent(curve[0]), last: percent(curve.at(-1)) });
  svg.setAttribute("aria-label", finding);
  part(memory, "whose").textContent = finding;
  clearInterval(memory.timer);
  let seen = matchMedia("(prefers-reduced-motion: reduce)").matches ? curve.length : 1;
  const draw = () => svg.replaceChildren(
    ...[0, 0.5, 1].flatMap((at) => [drawn("line", { class: "grid", x1: CURVE.left, x2: CURVE.right, y1: y(at), y2: y(at) }), drawn("text", { x: CURVE.left - 6, y: y(at) + 5, "text-anchor": "end" }, percent(at))]),
    ...curve.map((_, task) => drawn("text", { x: x(task), y: CURVE.bottom + 18, "text-anchor": "middle" }, String(task + 1))),
    drawn("text", { x: (CURVE.left + CURVE.right) / 2, y: CURVE.bottom + 36, "text-anchor": "middle" }, words.tasks),
    drawn("polyline", { points: curve.slice(0, seen).map((accuracy, task) => `${x(task)},${y(accuracy)}`).join(" ") }),
    ...curve.slice(0, seen).map((accuracy, task) => drawn("circle", { cx: x(task), cy: y(accuracy), r: 5 })));
  draw();
  memory.timer = setInterval(() => {
    seen += 1;
    if (seen > curve.length || !memory.host.isConnected) clearInterval(memory.timer);
    else draw();
  }, STEP_MS);
}
