// A text with every token in a shade: made once, and repainted in place, since another layer, or another dial, changes shades and
// numbers, never the text. Fed with what dpcl_core/figures/tokens.py puts together; all of it is set as text, never as markup.

const memories = new WeakMap(); // the page calls the element again when its data or the theme change: what is drawn survives here

export default function element({ data, parentElement }) {
  const memory = memories.get(parentElement) ?? {};
  memories.set(parentElement, memory);
  const text = JSON.stringify(data.text);
  if (memory.text !== text) Object.assign(memory, { text, ...drawn(parentElement.querySelector(".heatmap"), data.text) });
  shade(memory, data.layer);
}

function made(kind, name, text = "") {
  const node = document.createElement(kind);
  node.className = name;
  node.textContent = text;
  return node;
}

function drawn(host, { label, tokens, spans }) {
  const heat = made("div", "heat"), legend = made("ul", "heat-legend");
  heat.dir = "auto";
  heat.setAttribute("role", "group");
  heat.setAttribute("aria-label", label);
  legend.setAttribute("aria-label", "Legend");
  const kinds = new Map(spans.map(([first, , kind]) => [first, kind])), ends = new Set(spans.map(([, end]) => end));
  let place = heat;
  const nodes = tokens.map(([blank, word], at) => {
    if (ends.has(at)) place = heat;
    place.append(blank); // before a span it stays outside of it
    if (kinds.has(at)) heat.append((place = made("span", kinds.get(at))));
    const token = made("i", "", word);
    token.tabIndex = 0;
    place.append(token);
    return token;
  });
  host.replaceChildren(heat, legend);
  return { nodes, legend };
}

function shade({ nodes, legend }, { names, numbers, ranges }) {
  nodes.forEach((token, at) => {
    if (token.className !== names[at]) token.className = names[at];
    if (token.dataset.n !== numbers[at]) token.dataset.n = numbers[at];
  });
  const items = ranges.map(([kind, name, text]) => {
    const item = document.createElement("li");
    item.append(made(kind, name, text));
    return item;
  });
  legend.replaceChildren(...items);
}
