// Entries of simulated clients' lists on a map that noise and anchors move, every matcher's agreement beside it, and six lists to
// match by hand. Appended to play.mjs; fed by dpcl_core/elements/element.py.

const NS = "http://www.w3.org/2000/svg";
const WIDTH = 300, HEIGHT = 210, EDGE = 9, ACROSS = 2; // half the map in its own units; the half width in units of the map's data
const SHAPES = ["M-7,0A7,7 0 1 0 7,0A7,7 0 1 0 -7,0Z", "M-6,-6H6V6H-6Z", "M0,-8L8,6H-8Z", "M0,-9L9,0L0,9L-9,0Z"];
const TURNS = [["machine", "The machine matches"], ["hand", "Match six lists by hand"]];
const clamped = (value, most) => Math.max(-most, Math.min(most, value));
const shown = (value) => (Math.abs(value) < 0.005 ? 0 : value).toFixed(2);

export default function element({ data, parentElement, setStateValue }) {
  const memory = memories.get(parentElement) ?? begin(parentElement);
  memory.report = () => setStateValue("settings", { m: memory.lists.counts[memory.m], noise: memory.lists.noises[memory.noise], matcher: memory.matcher });
  const fed = JSON.stringify([data.lists.length, data.start]);
  if (memory.fed !== fed) feed(memory, data, fed);
}

function begin(parentElement) {
  const host = parentElement.querySelector(".an"), find = (name) => host.querySelector(`.an-${name}`);
  const memory = { host, find, turn: "machine" };
  memories.set(parentElement, memory);
  for (const name of ["noise", "m"]) {
    find(name).addEventListener("input", () => {
      memory[name] = Number(find(name).value);
      paint(memory);
    });
    find(name).addEventListener("change", () => memory.report());
  }
  radios(find("turns"), TURNS, (turn) => {
    memory.turn = turn;
    paint(memory);
  });
  find("compare").addEventListener("click", () => {
    memory.isCompared = true;
    paint(memory);
    find("again").focus();
  });
  find("again").addEventListener("click", () => {
    deal(memory);
    paint(memory);
    memory.entries[memory.lists.n_modes].focus();
  });
  return memory;
}

// A row of buttons of which one is chosen: arrows move the choice, as in any group of radio buttons.
function radios(host, options, choose) {
  const buttons = options.map(([value, title]) => {
    const button = made("button", { type: "button", value, onclick: () => choose(value) }, made("span", { textContent: title }));
    button.setAttribute("role", "radio");
    return button;
  });
  host.replaceChildren(...buttons);
  host.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = buttons[(buttons.indexOf(event.target) + step + buttons.length) % buttons.length];
    next.click();
    next.focus();
  };
}

function check(host, value) {
  for (const button of host.children) {
    button.setAttribute("aria-checked", String(button.value === value));
    button.tabIndex = button.value === value ? 0 : -1;
  }
}

function feed(memory, data, fed) {
  const { lists, start, words } = data, isOther = memory.lists?.length !== lists.length, from = JSON.stringify(start);
  if (memory.from !== from) Object.assign(memory, { m: lists.counts.indexOf(start.m), noise: lists.noises.indexOf(start.noise), matcher: start.matcher });
  Object.assign(memory, { fed, from, lists, words }); // what was moved here stays when other lists come
  memory.find("noise").max = lists.noises.length - 1;
  memory.find("m").max = lists.counts.length - 1;
  memory.find("ask").textContent = words.ask;
  if (isOther) {
    draw(memory);
    memory.entries = null;
  }
  paint(memory);
}

function draw(memory) {
  const { lists, find } = memory;
  const node = (kind, attributes) => {
    const one = document.createElementNS(NS, kind);
    for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
    return one;
  };
  const axes = [[-WIDTH, 0, WIDTH, 0], [0, -HEIGHT, 0, HEIGHT]].map(([x1, y1, x2, y2]) => node("line", { class: "axis", x1, y1, x2, y2 }));
  memory.marks = [...lists.modes].map((mode) => node("path", { d: SHAPES[mode] }));
  find("map").replaceChildren(...axes, ...memory.marks);
  const symbol = (d, name, text) => {
    const svg = node("svg", { viewBox: "-10 -10 20 20", "aria-hidden": "true" });
    svg.append(node("path", { d, class: name }));
    return made("span", {}, svg, text);
  };
  const digits = SHAPES.map((d, digit) => symbol(d, "", filled(memory.words.digit, { digit })));
  find("legend").replaceChildren(...digits, symbol(SHAPES[1], "wrong", memory.words.wrong), made("span", { textContent: memory.words.legend }));
  radios(find("matchers"), Object.keys(lists.groups).map((name) => [name, name]), (matcher) => {
    memory.matcher = matcher;
    paint(memory);
    memory.report();
  });
  for (const button of find("matchers").children) button.append(made("b"), made("span", { className: "bar" }, made("i")));
}

// Fresh lists to match by hand; the first one names the groups, so that a group is the mode that its entry there has.
function deal(memory) {
  const { lists, find } = memory, n = lists.n_modes, all = lists.pictures.start.length;
  memory.isCompared = false;
  memory.byHand = [...lists.modes.slice(0, n), ...Array(all - n).fill("")];
  memory.entries = memory.byHand.map((_, i) => made("button", { type: "button", className: "an-entry", disabled: i < n, onclick: () => assign(memory, i) },
    made("canvas", { width: 8, height: 8 }), made("span"), made("small")));
  find("lists").replaceChildren(...Array.from({ length: all / n }, (_, list) => made("fieldset", {},
    made("legend", { textContent: list ? `List ${list + 1}` : "List 1: names the groups" }),
    made("div", { className: "an-row" }, ...memory.entries.slice(list * n, list * n + n)))));
  memory.at = n;
  find("lists").onkeydown = (event) => key(memory, event);
}

// The number, from 1, that a group has: its place in the first list; 0 for none.
const number = (memory, mode) => (mode ? memory.lists.modes.indexOf(mode) + 1 : 0);

// Gives the entry this group, or the next one.
function assign(memory, i, group = null) {
  if (memory.isCompared) return;
  const next = group ?? (number(memory, memory.byHand[i]) % memory.lists.n_modes) + 1;
  memory.byHand[i] = next ? memory.lists.modes[next - 1] : "";
  memory.at = i;
  paint(memory);
}

function key(memory, event) {
  const now = memory.entries.indexOf(event.target), n = memory.lists.n_modes, last = memory.entries.length - 1;
  if (now < 0) return;
  const to = { ArrowRight: now + 1, ArrowLeft: now - 1, ArrowDown: now + n, ArrowUp: now - n, Home: n, End: last }[event.key];
  const group = event.key === "Backspace" || event.key === "Delete" ? 0 : Number(event.key);
  if (to === undefined && !(event.key.trim() && group >= 0 && group <= n)) return;
  event.preventDefault();
  event.stopPropagation(); // letters and numbers may be shortcuts of the page around
  if (to === undefined) return assign(memory, now, group);
  memory.at = Math.max(n, Math.min(last, to));
  paint(memory);
  memory.entries[memory.at].focus();
}

function paint(memory) {
  const { lists, find, turn } = memory, noise = lists.noises[memory.noise];
  const found = Object.fromEntries(Object.entries(lists.groups).map(([name, by]) => [name, by[memory.m][memory.noise]]));
  check(find("turns"), turn);
  find("machine").hidden = turn !== "machine";
  find("hand").hidden = turn !== "hand";
  find("noise").value = memory.noise;
  find("noise").setAttribute("aria-valuetext", `${noise} on every number`);
  find("m").value = memory.m;
  find("m").setAttribute("aria-valuetext", `${lists.counts[memory.m]} anchors`);
  find("noise-value").textContent = noise;
  find("m-value").textContent = lists.counts[memory.m];
  if (turn === "machine") machine(memory, noise, found);
  else {
    if (!memory.entries) deal(memory);
    hand(memory, noise, found[memory.matcher]);
  }
}

function machine(memory, noise, found) {
  const { lists, find, marks, matcher, words } = memory, groups = found[matcher];
  placed(lists, memory.m, noise).forEach(([x, y], i) => {
    const left = clamped((x / ACROSS) * WIDTH, WIDTH - EDGE), top = clamped((-y / ACROSS) * WIDTH, HEIGHT - EDGE);
    marks[i].style.transform = `translate(${left.toFixed(1)}px, ${top.toFixed(1)}px) scale(var(--mark, 1))`;
    marks[i].style.fill = `var(--g${groups[i]})`;
    marks[i].setAttribute("class", groups[i] === lists.modes[i] ? "" : "wrong");
  });
  const agreement = Object.fromEntries(Object.entries(found).map(([name, each]) => [name, adjustedRand(each, lists.modes)]));
  check(find("matchers"), matcher);
  for (const button of find("matchers").children) {
    button.querySelector("b").textContent = shown(agreement[button.value]);
    button.querySelector("i").style.transform = `scaleX(${Math.max(0, agreement[button.value])})`;
  }
  const most = Math.max(...Object.values(agreement)), best = Object.keys(agreement).filter((name) => agreement[name] === most);
  const fields = { matcher, n: countRight(groups, lists.modes), of: groups.length, agreement: shown(agreement[matcher]), best: best[0], most: shown(most) };
  const sentence = filled(words.found, fields) + (best.includes(matcher) ? words.none_better : filled(words.better, fields));
  find("finding").textContent = sentence;
  find("map").setAttribute("aria-label", sentence);
}

function hand(memory, noise, groups) {
  const { lists, find, entries, byHand, isCompared, words } = memory, n = lists.n_modes;
  entries.forEach((entry, i) => {
    const pen = entry.firstChild.getContext("2d"), grey = picture(lists, i, noise), image = pen.createImageData(8, 8);
    grey.forEach((value, at) => image.data.set([20, 24, 27, Math.round(255 * value)], 4 * at));
    pen.putImageData(image, 0, 0);
    const mine = byHand[i], verdict = !isCompared || i < n ? "" : mine === lists.modes[i] ? " ✓" : " ✗";
    if (mine) entry.dataset.group = mine;
    else delete entry.dataset.group;
    entry.children[1].textContent = (mine ? String(number(memory, mine)) : "–") + verdict;
    entry.children[2].textContent = isCompared ? `machine ${number(memory, groups[i])}` : "";
    entry.tabIndex = i === memory.at ? 0 : -1;
    const parts = [`List ${Math.floor(i / n) + 1}, entry ${(i % n) + 1}: ${mine ? `group ${number(memory, mine)}` : "no group yet"}`];
    if (isCompared) parts.push(`truly ${number(memory, lists.modes[i])}, machine ${number(memory, groups[i])}`);
    entry.setAttribute("aria-label", parts.join(", "));
  });
  const truth = lists.modes.slice(n, byHand.length), mine = byHand.slice(n), theirs = groups.slice(n, byHand.length);
  const done = mine.filter(Boolean).length, fields = {
    matcher: memory.matcher, of: mine.length, left: mine.length - done, n: countRight(mine, truth), machine: countRight(theirs, truth),
    mine: shown(adjustedRand(mine, [...truth])), theirs: shown(adjustedRand(theirs, truth)),
  };
  find("compare").disabled = isCompared || done < mine.length;
  find("score").textContent = isCompared ? "" : filled(words.left, fields);
  find("finding").textContent = isCompared ? filled(words.compared, fields) : words.hand;
}
