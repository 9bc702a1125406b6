// What the elements share: nodes, sentences from templates, and what a place remembers between two calls; drawings in SVG.

export const memories = new WeakMap(); // the page calls an element again when its data or the theme change: state survives here
export const filled = (template, fields) => template.replace(/\{(\w+)\}/g, (_, name) => fields[name]);

export function made(kind, properties = {}, ...children) {
  const node = Object.assign(document.createElement(kind), properties);
  node.append(...children);
  return node;
}

// A group of radio buttons by value; `choose` is called with the value chosen.
let groups = 0;
export function choices(title, options, chosen, choose) {
  const name = `choice-${(groups += 1)}`;
  const rows = Object.entries(options).map(([value, text]) => made("label", {},
    made("input", { type: "radio", name, value, checked: value === chosen, onchange: () => choose(value) }), made("span", { textContent: text })));
  return made("fieldset", {}, made("legend", { textContent: title }), made("div", { className: "options" }, ...rows));
}

export function drawn(kind, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
