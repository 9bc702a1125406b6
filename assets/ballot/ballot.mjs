// Carries predictions of a lesson into the visitor's classroom: where the room's open question is the one on this page, the
// answer chosen here is the visitor's answer there. Sent as it is chosen, beside the page. Appended to shared/dom.mjs and
// room/asking.mjs; fed by dpcl_core/elements/element.py.

const LOOK_MS = 2000;
const words = (node) => node.textContent.replace(/\s+/g, " ").trim();

export default function element({ data, parentElement }) {
  const host = parentElement.querySelector(".ba");
  if (memories.get(parentElement)?.code === data.code) return;
  const memory = { host, data, code: data.code };
  memories.set(parentElement, memory);
  document.addEventListener("change", function chosen(event) {
    if (!isHere(memory, parentElement)) document.removeEventListener("change", chosen, true);
    else if (event.target.type === "radio") look(memory, event.target);
  }, true); // before the lesson draws its step anew
  watch(memory, parentElement);
}

async function watch(memory, parentElement) {
  while (isHere(memory, parentElement)) {
    if (!document.hidden) await look(memory, null);
    await new Promise((wake) => setTimeout(wake, LOOK_MS));
  }
}

// Answers the room's question: with what has just been pressed, at once where the question is known; or, where there is no
// answer yet, with what was chosen before the question was asked.
async function look(memory, pressed) {
  const now = pressed && group(pressed); // the lesson may draw its step anew while the server is asked
  const known = memory.room;
  let room = now && known && fits(now, known) ? known : await asked(memory, `rooms/${memory.code}`);
  const chosen = now && fits(now, room) ? now : room.poll?.mine === null ? earlier(room) : null;
  if (chosen && chosen.place !== room.poll.mine) room = await voted(memory, room.poll.id, chosen.place);
  memory.room = room;
  say(memory, room);
}

// The answers beside a radio button, which of them is chosen, and the text of the page around them.
function group(radio) {
  const all = [...(radio.closest("fieldset, [role=radiogroup]") ?? document).querySelectorAll("input[type=radio]")];
  return { answers: all.map((one) => words(one.closest("label"))), place: all.indexOf(radio), text: words(around(radio)) };
}

const around = (node) => node.closest("main, [data-testid=stMain]") ?? document.body;
const fits = (one, { poll, you }) =>
  you && poll?.is_open && one.text.includes(poll.question) && JSON.stringify(one.answers) === JSON.stringify(poll.choices);
const earlier = (room) => [...document.querySelectorAll("input[type=radio]:checked")].map(group).find((one) => fits(one, room));

function say(memory, room) {
  const text = memory.data.words, poll = room.poll;
  const isAsked = poll && words(around(memory.host)).includes(poll.question);
  const which = !poll?.is_open ? text.none : !isAsked ? text.other : poll.mine === null ? text.asked : text.counted;
  const line = room.error ?? filled(which, { title: room.title, n: poll?.votes, people: room.people });
  if (memory.host.textContent !== line) memory.host.textContent = line;
}
