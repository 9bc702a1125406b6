// A figure that a slider moves, as the SVG that the server drew for the width of this place: to replace it takes less time than
// to build a figure here. The point nearest to the pointer says its numbers.

const memories = new WeakMap(); // the page calls the element again when its data or the theme change
const REACH = 24; // pixels from the pointer to a point that speaks
const STEP = 20; // widths are reported in steps, so that a scroll bar does not ask for a new picture

export default function element({ data, parentElement, setStateValue }) {
  const known = memories.get(parentElement) ?? begun(parentElement);
  Object.assign(known, { data, setStateValue });
  known.drawing.innerHTML = data.svg; // texts in it are escaped where it is drawn
  known.drawing.firstElementChild.style.width = `${data.place}px`; // never wider, and so higher, than its place
  known.words.hidden = true;
  ask(known);
}

function begun(parentElement) {
  const host = parentElement.querySelector(".picture");
  const known = { host, drawing: host.querySelector(".drawing"), words: host.querySelector(".said"), asked: 0 };
  memories.set(parentElement, known);
  host.addEventListener("pointermove", event => say(known, event));
  host.addEventListener("pointerleave", () => { known.words.hidden = true; });
  new ResizeObserver(() => ask(known)).observe(host);
  return known;
}

function ask(known) {
  const width = STEP * Math.round(known.host.clientWidth / STEP);
  if (!width || width === known.asked || Math.abs(width - known.data.place) < STEP) return;
  known.asked = width;
  known.setStateValue("width", width);
}

function say({ drawing, words, data }, event) {
  const box = drawing.firstElementChild.getBoundingClientRect(), scale = box.width / data.width;
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  let nearest = null, least = REACH ** 2;
  for (const point of data.said) {
    const far = (scale * point[0] - x) ** 2 + (scale * point[1] - y) ** 2;
    if (far <= least) [nearest, least] = [point, far];
  }
  words.hidden = !nearest;
  if (!nearest) return;
  words.textContent = nearest[2];
  const left = Math.min(scale * nearest[0] + 10, box.width - words.offsetWidth), above = scale * nearest[1] - words.offsetHeight - 8;
  words.style.left = `${Math.max(left, 0)}px`;
  words.style.top = `${above < 0 ? scale * nearest[1] + 10 : above}px`;
}
