// The doors of Start, each a small picture that a hand moves: accuracy against ε, a typed sentence shaded by its score, clients'
// entries under noise. Appended to anchors/play.mjs and to what tokens/tokens.mjs follows; fed once, by dpcl_core/elements/element.py.

const WIDTH = 240, HEIGHT = 96, EDGE = 8;
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"];

export default function element({ data, parentElement }) {
  const draw = { digits: curve, words: sentence, clients: points }[data.kind];
  if (!memories.has(parentElement)) memories.set(parentElement, draw(parentElement.querySelector(".door"), data));
  if (data.model) memories.get(parentElement)(data.model);
}

function drawing(marks) {
  const holder = made("div", { innerHTML: `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img">${marks}</svg>` });
  return holder.firstChild;
}

// A slider over places 0 to `last`, and what it says: `show(place)` draws and returns it.
function dial(place, label, last, start, show) {
  const slider = made("input", { type: "range", min: 0, max: last, value: start, oninput: moved }), said = made("output");
  slider.setAttribute("aria-label", label);
  function moved() {
    said.textContent = show(Number(slider.value));
    slider.setAttribute("aria-valuetext", said.textContent);
  }
  place.append(made("div", { className: "dial" }, slider, said));
  moved();
}

function curve(place, { points: shares, words }) {
  const low = Math.log(shares[0][0]), high = Math.log(shares.at(-1)[0]);
  const spots = shares.map(([epsilon, share]) => [
    EDGE + ((WIDTH - 2 * EDGE) * (Math.log(epsilon) - low)) / (high - low),
    HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * share,
  ]);
  const line = spots.map((spot) => spot.map((value) => value.toFixed(1)).join()).join(" ");
  const svg = drawing(`<polyline points="${line}"/><circle class="here" r="6"/>`), here = svg.querySelector(".here");
  place.append(svg);
  dial(place, words.dial, shares.length - 1, shares.findIndex(([epsilon]) => epsilon === 1), (at) => {
    here.style.transform = `translate(${spots[at][0]}px, ${spots[at][1]}px)`;
    const said = filled(words.said, { epsilon: shares[at][0], percent: (100 * shares[at][1]).toFixed(0) });
    svg.setAttribute("aria-label", said);
    return said;
  });
}

// Returns what takes the model, without which words have no shades: it may come later.
function sentence(place, { dials, layer, edges, words }) {
  const shown = made("p", { className: "heat" });
  let model;
  const typed = made("input", { type: "text", value: words.start, maxLength: 120, autocomplete: "off", spellcheck: false, oninput: read });
  typed.setAttribute("aria-label", words.typed);
  typed.addEventListener("keydown", (event) => event.stopPropagation()); // letters are shortcuts of the page around
  function read() {
    if (!model) return shown.replaceChildren(typed.value);
    const { ids, isStop, words: whole } = encoded(model, typed.value), likely = logProbabilities(model, ids);
    const found = ids.map((id, i) => measured({ p: Math.exp(Math.min(likely[i], 0)), commonness: model.commonness[id], isStop: isStop[i] }, dials));
    const highest = whole.map((word) => word.tokens.map((i) => found[i]).reduce((most, one) => (one.score > most.score ? one : most)));
    shown.replaceChildren(...whole.flatMap((word, k) => {
      const node = made("i", { textContent: word.text, className: `t${Math.max(0, shade(layer, highest[k], edges, dials))}` });
      node.dataset.n = filled(words.score, { score: highest[k].score.toFixed(2) }); // shown on hover
      return [node, " "];
    }));
  }
  place.append(typed, shown);
  read();
  return (weights) => {
    model ??= opened(weights);
    read();
  };
}

function points(place, { lists, reach, noises, start, words }) {
  const { modes } = lists, n = modes.length;
  const svg = drawing('<circle r="4"/>'.repeat(n)), marks = [...svg.children];
  place.append(svg);
  dial(place, words.dial, noises.length - 1, start, (at) => {
    placed(lists, 0, noises[at]).forEach(([x, y], i) => {
      const inside = (value, most) => EDGE + (most - 2 * EDGE) * Math.max(0, Math.min(1, (value + 1) / 2));
      marks[i].style.transform = `translate(${inside(x / reach, WIDTH)}px, ${inside(y / reach, HEIGHT)}px)`;
      marks[i].style.fill = COLOURS[lists.groups[at][i]];
      marks[i].classList.toggle("wrong", lists.groups[at][i] !== modes[i]);
    });
    const said = filled(words.said, { n: countRight(lists.groups[at], modes), of: n });
    svg.setAttribute("aria-label", said);
    return said;
  });
}
