// A text whose words are shaded by PeCL's score: a pressed word unfolds its arithmetic, sliders move the shades at once, an own
// sentence is scored here. Appended to drag/replay.mjs, language.mjs and sensitivity.mjs; fed by dpcl_core/elements/element.py.

const MOST = 600; // characters of an own text that are scored
const short = (value) => (value === Infinity ? "∞" : String(Number(value.toPrecision(3))));

export default function element({ data, parentElement, setStateValue }) {
  const memory = memories.get(parentElement) ?? begin(parentElement);
  memory.report = () => setStateValue("dials", { threshold: memory.dials.threshold, upper: memory.dials.upper, layer: memory.layer });
  if (data.text === null && !data.model && !memory.model) return; // it comes
  const fed = JSON.stringify([data.text, data.dials, data.layer, !data.model]);
  if (memory.fed !== fed) feed(memory, data, fed);
}

function begin(parentElement) {
  const host = parentElement.querySelector(".tk"), find = (name) => host.querySelector(`.tk-${name}`);
  const memory = { host, find, chosen: 0, draws: new Map(), own: "", round: 0, tally: 0 };
  memories.set(parentElement, memory);
  find("typed").addEventListener("keydown", (event) => event.stopPropagation()); // letters are shortcuts of the page around
  find("typed").addEventListener("input", () => {
    const typed = [...find("typed").value];
    memory.own = typed.slice(0, MOST).join("");
    find("long").textContent = typed.length > MOST ? filled(memory.data.words.long, { most: MOST, all: typed.length }) : "";
    read(memory);
  });
  for (const [name, dial] of [["theta", "threshold"], ["upper", "upper"]]) {
    find(name).addEventListener("input", () => {
      const value = Number(find(name).value);
      memory.dials[dial] = name === "upper" ? memory.data.budgets[value] : value;
      paint(memory);
    });
    find(name).addEventListener("change", () => memory.report());
  }
  find("text").addEventListener("click", (event) => {
    const at = memory.nodes.indexOf(event.target.closest("[role=button]"));
    if (at >= 0) choose(memory, at);
  });
  find("text").addEventListener("keydown", (event) => {
    const last = memory.nodes.length - 1, now = memory.nodes.indexOf(event.target);
    const to = { ArrowRight: now + 1, ArrowDown: now + 1, ArrowLeft: now - 1, ArrowUp: now - 1, Home: 0, End: last, Enter: now, " ": now }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(memory, Math.max(0, Math.min(last, to)));
    memory.nodes[memory.chosen].focus();
  });
  return memory;
}

function feed(memory, data, fed) {
  const isOther = !memory.data || JSON.stringify(memory.data.text) !== JSON.stringify(data.text);
  const before = memory.data, own = (name) => before && before.dials[name] === data.dials[name]; // what was moved here stays
  const dials = { ...data.dials };
  for (const name of ["threshold", "upper"]) if (own(name)) dials[name] = memory.dials[name];
  Object.assign(memory, { fed, data, dials, layer: before?.layer === data.layer ? memory.layer : data.layer });
  const isNew = data.model && !memory.model;
  if (isNew) memory.model = opened(data.model);
  memory.find("own").hidden = data.text !== null;
  for (const name of ["finding", "sliders"]) memory.find(name).hidden = data.is_still;
  memory.find("layers").hidden = data.layers.length < 2;
  memory.find("upper").max = data.budgets.length - 1;
  if (data.text === null && !memory.own) memory.find("typed").value = memory.own = data.words.start;
  memory.find("layers").replaceChildren(...data.layers.map(({ name, title }) => {
    const button = made("button", { type: "button", textContent: title, onclick: () => { memory.layer = name; paint(memory); memory.report(); } });
    button.setAttribute("role", "radio");
    return button;
  }));
  memory.find("layers").onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key], buttons = [...memory.find("layers").children];
    if (!step) return;
    event.preventDefault();
    const next = buttons[(buttons.indexOf(event.target) + step + buttons.length) % buttons.length];
    next.click();
    next.focus();
  };
  if (isOther || isNew || !memory.rows) read(memory);
  else paint(memory);
  game(memory);
}

// The tokens with what the model found; typed ones are scored here.
function scored(memory, string) {
  const { ids, tokens, isStop, words } = encoded(memory.model, string), likely = logProbabilities(memory.model, ids);
  const rows = ids.map((id, i) => ({ id, token: tokens[i], kind: "", isStop: isStop[i], p: Math.exp(Math.min(likely[i], 0)), commonness: memory.model.commonness[id] }));
  return { rows, words };
}

function read(memory) {
  const { text, words: said } = memory.data;
  if (text === null) Object.assign(memory, scored(memory, memory.own));
  else {
    const ids = memory.model && text.model_id === "lm-tiny" ? encoded(memory.model, text.tokens.join("")).ids : [];
    const isSame = ids.length === text.tokens.length;
    memory.rows = text.tokens.map((token, i) => ({ id: isSame ? ids[i] : null, token, kind: text.kinds[i], isStop: text.is_stop[i], p: text.probability[i], commonness: text.commonness[i] }));
    memory.words = wordsOf(text.tokens, new Set()).words;
  }
  memory.draws.clear();
  const host = memory.find("text"), whole = memory.rows.map((row) => row.token).join("");
  host.setAttribute("aria-label", text === null ? said.own : text.label);
  const isSame = host.textContent === whole, isFocused = host.contains(host.getRootNode().activeElement); // the model may come after the text
  host.replaceChildren();
  let done = 0;
  memory.nodes = memory.words.map((word) => {
    host.append(whole.slice(done, word.from));
    done = word.to;
    const node = made("span", { textContent: word.text });
    node.setAttribute("role", "button");
    host.append(node);
    return node;
  });
  host.append(whole.slice(done));
  const marked = memory.words.findIndex((word) => word.tokens.some((i) => memory.rows[i].kind));
  if (!isSame) memory.chosen = Math.max(0, marked);
  paint(memory);
  if (isFocused) memory.nodes[memory.chosen]?.focus();
}

function choose(memory, at) {
  memory.chosen = at;
  memory.find("more").open = true;
  paint(memory);
}

function paint(memory) {
  const { data, dials, layer, rows, words, nodes } = memory;
  const { edges, ranges, means, title } = data.layers.find(({ name }) => name === layer);
  dials.lower = Math.min(data.dials.lower, dials.upper);
  memory.found = rows.map((row) => measured(row, dials));
  memory.chosen = Math.min(memory.chosen, Math.max(0, words.length - 1));
  words.forEach((word, at) => {
    const shades = word.tokens.map((i) => shade(layer, memory.found[i], edges, dials)), darkest = Math.max(...shades);
    const kind = memory.rows[word.tokens.find((i) => rows[i].kind) ?? word.tokens[0]].kind;
    const isOver = word.tokens.some((i) => memory.found[i].score > dials.threshold);
    const top = memory.found[word.tokens[shades.indexOf(darkest)]][VALUES[layer]];
    const name = [darkest < 0 ? "quiet" : `t${darkest}`, isOver && "tk-over", kind && (kind.startsWith("D:") ? "lookalike" : "private")];
    const className = name.filter(Boolean).join(" "), node = nodes[at];
    if (node.className !== className) node.className = className;
    node.tabIndex = at === memory.chosen ? 0 : -1;
    node.setAttribute("aria-pressed", String(at === memory.chosen));
    node.setAttribute("aria-label", `${word.text}: ${title} ${top === null ? "no noise" : short(top)}${isOver ? ", above θ" : ""}`);
  });
  [...memory.find("layers").children].forEach((button, i) => {
    const isOn = data.layers[i].name === layer;
    button.setAttribute("aria-checked", String(isOn));
    button.tabIndex = isOn ? 0 : -1;
  });
  memory.find("means").textContent = means;
  const place = data.budgets.indexOf(dials.upper);
  memory.find("theta").value = dials.threshold;
  memory.find("upper").value = place;
  memory.find("upper").setAttribute("aria-valuetext", `ε = ${short(dials.upper)}, nominal, no guarantee`);
  memory.find("theta-value").textContent = short(dials.threshold);
  memory.find("upper-value").textContent = short(dials.upper);
  const legend = ranges.map((text, i) => ["i", `t${i}`, text]);
  if (rows.some((row) => row.kind)) legend.push(["span", "private", "personal"], ["span", "lookalike", "only looks personal"]);
  memory.find("legend").replaceChildren(...legend.map(([kind, className, text]) => made("li", {}, made(kind, { className, textContent: text }))));
  memory.find("finding").textContent = finding(memory);
  arithmetic(memory);
}

function finding({ rows, words, found, dials, data }) {
  const isOver = (word) => word.tokens.some((i) => found[i].score > dials.threshold), over = words.filter(isOver);
  const count = (some) => `${some.filter(isOver).length} of ${some.length}`;
  const personal = words.filter((word) => word.tokens.some((i) => rows[i].kind && !rows[i].kind.startsWith("D:")));
  if (!words.length) return data.words.empty;
  const fields = { personal: count(personal), other: over.filter((word) => !personal.includes(word)).length };
  if (personal.length) return filled(data.words.marked, fields);
  return filled(words.length === 1 ? data.words.unmarked_one : data.words.unmarked, { ...fields, all: `${over.length} of ${words.length}` });
}

function drawsOf(memory, i) {
  if (!memory.draws.has(i)) memory.draws.set(i, Array.from({ length: memory.model.shape.width }, () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random())));
  return memory.draws.get(i);
}

function arithmetic(memory) {
  const { rows, words, found, data, dials } = memory, word = words[memory.chosen], host = memory.find("word");
  host.hidden = !word;
  if (!word) return host.replaceChildren();
  const of = (name) => word.tokens.map((i) => (found[i][name] === null ? "no noise" : short(found[i][name])));
  const lines = [
    [data.words.p, of("p")], [data.words.surprise, of("surprise")], [data.words.score, of("score")],
    [data.words.nominal, of("nominal")], [data.words.ratio, of("ratio")], [data.words.true, of("true")],
  ];
  if (word.tokens.every((i) => rows[i].id !== null)) {
    lines.push([data.words.read, word.tokens.map((i) => {
      if (found[i].ratio === null) return `“${rows[i].token.trim()}”, in the clear`;
      const id = nearest(memory.model, rows[i].id, found[i].ratio, drawsOf(memory, i));
      return id === rows[i].id ? `“${printed(memory.model, id).trim()}”, right` : `“${printed(memory.model, id).trim()}”, wrong`;
    })]);
  }
  const table = made("table", {},
    made("thead", {}, made("tr", {}, made("th", { textContent: word.tokens.length > 1 ? "In pieces, as the model reads it" : "The word" }), ...word.tokens.map((i) => made("th", { textContent: rows[i].token.trim() || "·" })))),
    made("tbody", {}, ...lines.map(([head, cells]) => made("tr", {}, made("th", { textContent: head, scope: "row" }), ...cells.map((text) => made("td", { textContent: text }))))),
  );
  host.tabIndex = 0;
  host.replaceChildren(table);
  if (lines.length > 6 && !rows[word.tokens[0]].isStop) {
    host.append(made("button", { type: "button", textContent: "Draw other noise", onclick: () => { word.tokens.forEach((i) => memory.draws.delete(i)); arithmetic(memory); host.querySelector("button").focus(); } }));
  }
}

// Two sentences that differ in a word: which of the two has the higher score?
function game(memory, guess = null) {
  const { data, dials } = memory, host = memory.find("game"), { rounds } = data.game;
  host.parentElement.hidden = !memory.model;
  if (!memory.model) return;
  const { sentence, words } = rounds[memory.round];
  const scores = words.map((word) => {
    const one = scored(memory, sentence.replace("___", word)), at = one.words.find(({ text }) => text.replace(/\W+$/, "") === word);
    return Math.max(...at.tokens.map((i) => measured(one.rows[i], dials).score));
  });
  const high = Math.abs(scores[0] - scores[1]) < 0.05 ? 2 : scores[0] > scores[1] ? 0 : 1;
  const choices = [...words, data.words.same].map((label, i) => {
    const button = made("button", { type: "button", textContent: label, disabled: guess !== null, onclick: () => { if (i === high) memory.tally++; game(memory, i); host.querySelector(".tk-next").focus(); } });
    button.setAttribute("aria-pressed", String(guess === i));
    return button;
  });
  const parts = [
    made("p", { textContent: `${memory.round + 1} of ${rounds.length}: “${sentence}”` }), made("div", { className: "tk-choices" }, ...choices),
  ];
  if (guess !== null) {
    const isLast = memory.round === rounds.length - 1;
    const reveal = `${guess === high ? "Right." : "No."} ${words[0]}: ${scores[0].toFixed(2)}, ${words[1]}: ${scores[1].toFixed(2)}.${isLast ? ` ${memory.tally} of ${rounds.length} right.` : ""} ${data.words.lesson}`;
    const answer = made("p", { textContent: reveal });
    answer.setAttribute("role", "status");
    parts.push(answer, made("button", { type: "button", className: "tk-next", textContent: isLast ? "Play again" : "Next", onclick: () => { memory.round = isLast ? 0 : memory.round + 1; if (isLast) memory.tally = 0; game(memory); host.querySelector("button").focus(); } }));
  }
  host.replaceChildren(...parts);
}
