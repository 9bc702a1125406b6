// What the elements of a classroom share: they ask the server beside the page, which is not drawn anew.

const isHere = (memory, parentElement) => memory.host.isConnected && memories.get(parentElement) === memory;

// The room as the server describes it to this visitor, or { error }.
async function asked(memory, path, options) {
  try {
    return await (await fetch(new URL(path, document.baseURI), options)).json();
  } catch {
    return { error: memory.data.words.gone };
  }
}

function voted(memory, poll, choice) {
  const body = JSON.stringify({ poll, choice });
  return asked(memory, `rooms/${memory.code}/vote`, { method: "POST", headers: { "content-type": "application/json" }, body });
}
