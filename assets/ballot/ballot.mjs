// Carries predictions of a lesson into the visitor's classroom: where the room's open question is the one on this page, the
// answer chosen here is the visitor's answer there. Sent as it is chosen, beside the page. Appended to shared/dom.mjs and
// room/asking.mjs; fed by dpcl_core/elements/room.py.

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

// Asks for the room, and answers its question: with what has just been chosen, or where there is no answer yet, with what was
// chosen before it was asked.
async function look(memory, pressed) {
  const now = pressed && group(pressed); // the lesson may draw its step anew while the server is asked
  let room = await asked(memory, `rooms/${memory.code}`);
  const poll = room.poll, isOpen = poll?.is_open && room.you;
  const group_here = isOpen ? (now && fits(now, poll) ? now : [...document.querySelectorAll("input[type=radio]:checked")].map(group).find((one) => fits(one, poll))) : null;
  if (group_here && (poll.mine === null || now === group_here) && poll.mine !== group_here.chosen) room = await voted(memory, poll.id, group_here.chosen);
  say(memory, room);
}

// The answers beside a radio button, which of them is chosen, and the text of the page around them.
function group(radio) {
  const all = [...(radio.closest("fieldset, [role=radiogroup]") ?? document).querySelectorAll("input[type=radio]")];
  const place = radio.closest("main, [data-testid=stMain]") ?? document.body;
  return { answers: all.map((one) => words(one.closest("label"))), chosen: all.indexOf(radio), text: words(place) };
}

const fits = (one, poll) => one.text.includes(poll.question) && JSON.stringify(one.answers) === JSON.stringify(poll.choices);

function say(memory, room) {
  const text = memory.data.words, poll = room.poll;
  const isHere = poll && words(memory.host.closest("main, [data-testid=stMain]") ?? document.body).includes(poll.question);
  const which = !poll?.is_open ? text.none : !isHere ? text.other : poll.mine === null ? text.asked : text.counted;
  const line = room.error ?? filled(which, { title: room.title, n: poll?.votes, people: room.people });
  if (memory.host.textContent !== line) memory.host.textContent = line;
}
