// What the elements share: nodes, sentences from templates, and what a place remembers between two calls.

export const memories = new WeakMap(); // the page calls an element again when its data or the theme change: state survives here
export const filled = (template, fields) => template.replace(/\{(\w+)\}/g, (_, name) => fields[name]);

export function made(kind, properties = {}, ...children) {
  const node = Object.assign(document.createElement(kind), properties);
  node.append(...children);
  return node;
}
