// The gallery of questions: a card for each, with links to its answer in every size, and Start. Which one was pressed is told
// to the page. Appended to shared/dom.mjs; fed by pages/parts/questions.py.

export default function element({ data, parentElement, setTriggerValue }) {
  const host = parentElement.querySelector(".gallery"), told = JSON.stringify(data);
  const memory = memories.get(parentElement) ?? {};
  memories.set(parentElement, memory);
  memory.press = setTriggerValue;
  if (memory.told === told) return; // else the card that has the focus would lose it
  memory.told = told;
  host.replaceChildren(...data.groups.flatMap(({ title, cards }) => [
    made("h2", { textContent: title }), made("ul", {}, ...cards.map((one) => card(memory, one))),
  ]));
}

function card(memory, { title, text, forms, start }) {
  const lines = forms.flatMap((form, place) => (place ? [made("br"), form.said] : [form.said]));
  const buttons = start ? [made("button", { type: "button", textContent: start.label, onclick: () => memory.press("start", start.name) })] : [];
  const doing = [...forms.map((form) => opened(memory, form)), ...buttons];
  for (const node of doing) node.ariaLabel = `${node.textContent}: ${title}`; // the visible word comes first
  return made("li", {},
    made("h3", { textContent: title }), made("p", { textContent: text }), made("p", { className: "takes" }, ...lines),
    made("div", { className: "doing" }, ...doing));
}

// A link, so that it can be copied and opened in another tab; in this one the page changes without being loaded anew.
function opened(memory, { label, name, query }) {
  return made("a", { textContent: label, href: query, onclick: (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    memory.press("open", name);
  } });
}
