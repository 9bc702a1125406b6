// Digits arrive two by two, bars show what the model still knows, a meter what an attacker can tell; one slider moves all of it.
// Appended to shared/dom.mjs, drag/replay.mjs and one_person.mjs. Fed once, with what dpcl_core/elements/element.py puts together.

const PAUSE = 900; // milliseconds from one pair of digits to the next

export default function element({ data, parentElement }) {
  const memory = memories.get(parentElement) ?? { stop: data.start, task: -1, isLeaked: false };
  memories.set(parentElement, memory); // the page calls the element again when its data or the theme change
  const host = parentElement.querySelector(".hero"), find = (name) => host.querySelector(`.${name}`);
  Object.assign(memory, { find, words: data.words, stops: data.stops.map((stop) => (stop === "inf" ? Infinity : stop)) });
  if (memory.fed !== data) {
    Object.assign(memory, { fed: data, digits: opened(data.digits), columns: null });
    memory.most = memory.digits.people.map((_, c) => Math.max(...memory.digits.sums.subarray(c * memory.digits.size, (c + 1) * memory.digits.size)));
  }
  if (!memory.columns?.[0].place.isConnected) begin(memory);
  redraw(memory);
  if (memory.task < memory.digits.nTasks - 1) arrive(memory);
  return () => clearTimeout(memory.timer);
}

function begin(memory) {
  const { find, stops, digits } = memory, slider = find("slider"), leak = find("leak");
  slider.max = stops.length - 1;
  slider.value = memory.stop;
  slider.oninput = () => { memory.stop = Number(slider.value); redraw(memory); };
  leak.onclick = () => { memory.isLeaked = !memory.isLeaked; redraw(memory); };
  find("again").onclick = () => { memory.task = -1; arrive(memory); };
  memory.columns = Array.from({ length: digits.nTasks }, (_, task) => {
    const pictures = Array.from({ length: digits.perTask }, () => made("canvas", { width: digits.size ** 0.5, height: digits.size ** 0.5 }));
    pictures.forEach((picture, at) => picture.classList.toggle("yours", task * digits.perTask + at === digits.you));
    const learned = made("i", { className: "learned" }), now = made("i", { className: "now" }), bar = made("div", { className: "bar" }, now, learned);
    const place = made("div", { className: "task" }, made("div", { className: "pair" }, ...pictures), bar);
    return { place, pictures, learned, now, bar };
  });
  find("stream").replaceChildren(...memory.columns.map((column) => column.place));
}

// The next pair, and the others after it; all at once for whoever asks for less motion.
function arrive(memory) {
  clearTimeout(memory.timer);
  const last = memory.digits.nTasks - 1, isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  memory.task = isStill ? last : memory.task + 1;
  redraw(memory);
  if (memory.task < last) memory.timer = setTimeout(() => arrive(memory), PAUSE);
}

// Ink from 0 to `most`, the same at every budget; what is beyond is cut off, so that noise cannot rescale the picture.
function paint({ ink }, drawn, values, most) {
  const context = drawn.getContext("2d"), image = context.createImageData(drawn.width, drawn.height);
  values.forEach((value, k) => image.data.set([...ink, 255 * Math.min(1, Math.max(0, value / most))], 4 * k));
  context.putImageData(image, 0, 0);
}

const whole = (share) => (100 * share).toFixed(0);

function redraw(memory) {
  const { find, digits, words, isLeaked } = memory, epsilon = memory.stops[memory.stop], std = sigma(epsilon, digits.delta);
  memory.ink = getComputedStyle(find("you")).color.match(/\d+/g).slice(0, 3).map(Number); // of the theme, asked once
  const task = Math.max(0, memory.task), known = knowledge(digits, epsilon), now = known[task];
  const parts = memory.columns.map((column, at) => pair(memory, column, at, task, known, std)).slice(0, task + 1);
  const share = isLeaked ? 1 : chance(std), right = Math.ceil(100 * share - 1e-6), yours = digits.people[digits.you];
  const fields = { epsilon: epsilon === Infinity ? "∞" : String(epsilon), known: whole(now.reduce((sum, one) => sum + one, 0) / now.length), right };
  paint(memory, find("you"), yours, Math.max(...yours));
  paint(memory, find("difference"), trace(digits, std, isLeaked), Math.max(...yours));
  find("you").setAttribute("aria-label", filled(words.you, { digit: digits.you }));
  find("difference").setAttribute("aria-label", filled(words.trace, { percent: whole(2 * share - 1) }));
  find("stream").setAttribute("aria-label", filled(words.knows, { parts: parts.join("; ") }));
  find("accuracy").textContent = `${fields.known} %`;
  find("meter").style.setProperty("--share", 100 * (2 * share - 1));
  find("meter").setAttribute("aria-valuenow", right);
  find("right").textContent = right;
  find("value").textContent = `ε = ${fields.epsilon}`;
  find("slider").setAttribute("aria-valuetext", filled(words.said, fields));
  find("leak").setAttribute("aria-pressed", String(isLeaked));
  find("finding").textContent = isLeaked ? words.leaked : "";
}

// Draws a pair's released sums and its bar, beside it what the bar was when the pair was new; returns that in words.
function pair(memory, column, at, task, known, std) {
  const { digits, most, words } = memory, isHere = at <= task && memory.task >= 0;
  column.place.classList.toggle("here", isHere);
  if (!isHere) return "";
  const labels = column.pictures.map((_, n) => at * digits.perTask + n), [now, learned] = [known[task][at], known[at][at]];
  column.pictures.forEach((picture, n) => paint(memory, picture, released(digits, labels[n], task, std), most[labels[n]]));
  column.now.style.height = `${100 * now}%`;
  column.learned.style.height = `${100 * learned}%`;
  column.bar.dataset.now = whole(now);
  return filled(words.part, { digits: labels.join(" and "), now: whole(now), learned: whole(learned) });
}
