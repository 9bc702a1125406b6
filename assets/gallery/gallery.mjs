// The gallery of questions: a card for each, with the picture of its answer, which is a link to it. Which one was pressed is
// told to the page. Appended to shared/dom.mjs; fed by pages/parts/questions.py.

export default function element({ data, parentElement, setTriggerValue }) {
  const host = parentElement.querySelector(".gallery"), told = JSON.stringify(data);
  const memory = memories.get(parentElement) ?? {};
  memories.set(parentElement, memory);
  memory.press = setTriggerValue;
  if (memory.told === told) return; // else the card that has the focus would lose it
  memory.told = told;
  host.replaceChildren(...data.groups.flatMap(({ title, note, cards }) => [
    made("h2", {}, title, made("span", { textContent: note })), made("ul", {}, ...cards.map((one) => card(memory, one))),
  ]), made("p", { textContent: data.none }));
}

// A link, so that it can be copied and opened in another tab; in this one the page changes without being loaded anew.
function card(memory, { name, query, asked, verdict, state, said, minutes, picture }) {
  const drawing = made("div", { className: picture ? "picture" : "picture none", innerHTML: picture }); // its texts are escaped
  return made("li", {}, made("a", { href: query, onclick: (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    memory.press("open", name);
  } }, drawing, made("h3", { textContent: asked }), made("p", { textContent: verdict }),
  made("div", { className: `last ${state}` }, made("b", { textContent: said }), made("span", { textContent: minutes }))));
}
