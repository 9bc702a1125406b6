// "Take one person out": thumbnails, two releases and their difference, and the released class sums, redrawn while ε moves.
// Appended to drag/replay.mjs and one_person.mjs. Fed once, with what dpcl_core/elements/element.py puts together.

const heroes = new WeakMap(); // the page calls the element again when its data or the theme change: state survives here

export default function element({ data, parentElement }) {
  const host = parentElement.querySelector(".hero");
  const memory = heroes.get(parentElement) ?? { person: 0, stop: data.stops.length - 1 };
  heroes.set(parentElement, memory);
  Object.assign(memory, { host, words: data.words, stops: data.stops.map((stop) => (stop === "inf" ? Infinity : stop)) });
  if (memory.fed !== data) Object.assign(memory, { fed: data, data: opened(data.digits) });
  const find = (name) => host.querySelector(`.${name}`);
  thumbnails(memory, find("people"));
  find("classes").replaceChildren(...Array.from({ length: memory.data.sums.length / memory.data.size }, canvas));
  const slider = find("slider"), shared = find("shared");
  slider.max = memory.stops.length - 1;
  slider.value = memory.stop;
  slider.oninput = () => { memory.stop = Number(slider.value); redraw(memory, find); };
  shared.onchange = () => redraw(memory, find);
  redraw(memory, find);
}

const canvas = () => Object.assign(document.createElement("canvas"), { width: 8, height: 8 });

function thumbnails(memory, place) {
  const { people, labels } = memory.data;
  place.replaceChildren(...people.map((picture, person) => {
    const button = document.createElement("button"), drawn = canvas();
    button.setAttribute("role", "radio");
    button.setAttribute("aria-label", `a handwritten ${labels[person]}`);
    button.append(drawn);
    button.onclick = () => choose(memory, place, person);
    button.onkeydown = (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      choose(memory, place, (person + step + people.length) % people.length).focus();
    };
    return button;
  }));
  place.querySelectorAll("canvas").forEach((drawn, person) => paint(drawn, people[person], Math.max(...people[person])));
  mark(memory, place);
}

function choose(memory, place, person) {
  memory.person = person;
  mark(memory, place);
  redraw(memory, (name) => memory.host.querySelector(`.${name}`));
  return place.children[person];
}

function mark({ person }, place) {
  [...place.children].forEach((button, i) => {
    button.setAttribute("aria-checked", String(i === person));
    button.tabIndex = i === person ? 0 : -1;
  });
}

// Ink from 0 to `most`; what is beyond is cut off, so that noise cannot rescale the picture.
function paint(drawn, values, most) {
  const context = drawn.getContext("2d"), image = context.createImageData(8, 8);
  const ink = getComputedStyle(drawn).color.match(/\d+/g).map(Number);
  values.forEach((value, k) => image.data.set([...ink.slice(0, 3), 255 * Math.min(1, Math.max(0, value / most))], 4 * k));
  context.putImageData(image, 0, 0);
}

function redraw(memory, find) {
  const { data, words, person } = memory, epsilon = memory.stops[memory.stop], std = sigma(epsilon, data.delta);
  const isShared = find("shared").checked, shown = releases(data, person, std, isShared), known = classifier(data, std);
  const label = data.labels[person], most = Math.max(...data.sums.subarray(label * data.size, (label + 1) * data.size));
  paint(find("with"), shown.with, most);
  paint(find("without"), shown.without, most);
  paint(find("difference"), shown.difference, Math.max(...data.people[person]));
  find("classes").querySelectorAll("canvas").forEach((drawn, c) => {
    paint(drawn, known.released[c], Math.max(...data.sums.subarray(c * data.size, (c + 1) * data.size)));
  });
  const name = epsilon === Infinity ? "∞" : String(epsilon);
  const times = std * Math.sqrt(2 * data.size); // the picture has length 1; noise of two releases on each pixel
  const fields = { digit: label, epsilon: name, times: times < 10 ? times.toFixed(1) : times.toFixed(0) };
  const finding = filled(epsilon === Infinity ? words.clean : isShared ? words.shared : times < 1 ? words.seen : words.hidden, fields);
  const right = filled(words.accuracy, { percent: (100 * known.accuracy).toFixed(0) });
  find("value").textContent = `ε = ${name}`;
  find("finding").textContent = finding;
  find("accuracy").textContent = right;
  find("difference").setAttribute("aria-label", finding);
  find("classes").setAttribute("aria-label", `The ten released sums. ${right}`);
  find("slider").setAttribute("aria-valuetext", `ε = ${name}`);
  find("odds").textContent = epsilon === Infinity || isShared ? words.no_odds : filled(words.odds, { percent: oddsPercent(epsilon, data.delta) });
}
