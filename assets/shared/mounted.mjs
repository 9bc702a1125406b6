// How an element is drawn in the app: its data come as bytes of JSON. Parts of them may come as addresses of files: it is
// drawn without these, and again with them, which are asked for once its place has been seen for a moment. Appended to the
// scripts of the element, without their exports.

const bytesAsText = new TextDecoder(), partsByAddress = new Map(), newest = new WeakMap(); // by place: the last bytes

const isSeen = (place) => new Promise((resolve) => {
  let moment;
  const watch = new IntersectionObserver((views) => {
    clearTimeout(moment); // what is above it may be drawn later, and move it away
    if (views.at(-1).isIntersecting) moment = setTimeout(() => { watch.disconnect(); resolve(); }, 200);
  });
  watch.observe(place.host ?? place);
});

async function partAt(address) {
  const answer = await fetch(address).catch((error) => ({ ok: false, status: error.message }));
  if (answer.ok) return answer.json();
  partsByAddress.delete(address); // for the next time
  throw new Error(`${address}: ${answer.status}`);
}

async function drawWithParts({ data, files, bytes, ...others }) {
  const addresses = Object.values(files);
  if (!addresses.every((address) => partsByAddress.has(address))) {
    element({ ...others, data });
    await isSeen(others.parentElement);
  }
  for (const address of addresses) if (!partsByAddress.has(address)) partsByAddress.set(address, partAt(address));
  const parts = Object.entries(files).map(async ([name, address]) => [name, await partsByAddress.get(address)]);
  const found = Object.fromEntries(await Promise.all(parts));
  if (newest.get(others.parentElement) !== bytes) return undefined; // a file that came late undoes no newer drawing
  return element({ ...others, data: { ...data, ...found } });
}

export default ({ data: bytes, ...others }) => {
  const { files, ...data } = JSON.parse(bytesAsText.decode(bytes));
  newest.set(others.parentElement, bytes);
  return files ? drawWithParts({ ...others, data, files, bytes }) : element({ ...others, data });
};
