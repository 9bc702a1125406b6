// How an element is drawn in the app: its data come as bytes of JSON. Parts of them may come as addresses of files, which are
// asked for once its place has been seen for a moment. Appended to the element's scripts, without their exports.

const bytesAsText = new TextDecoder(), partsByAddress = new Map();

const isSeen = (place) => new Promise((resolve) => {
  let moment;
  const watch = new IntersectionObserver((views) => {
    clearTimeout(moment); // what is above it may be drawn later, and move it away
    if (views.at(-1).isIntersecting) moment = setTimeout(() => { watch.disconnect(); resolve(); }, 200);
  });
  watch.observe(place.host ?? place);
});

async function partAt(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  return answer.json();
}

async function drawWithParts({ data, files, ...others }) {
  if (!Object.values(files).every((address) => partsByAddress.has(address))) await isSeen(others.parentElement);
  for (const [name, address] of Object.entries(files)) {
    if (!partsByAddress.has(address)) partsByAddress.set(address, partAt(address).catch((error) => { partsByAddress.delete(address); throw error; }));
    data[name] = await partsByAddress.get(address);
  }
  return element({ ...others, data });
}

export default ({ data: bytes, ...others }) => {
  const { files, ...data } = JSON.parse(bytesAsText.decode(bytes));
  return files ? drawWithParts({ ...others, data, files }) : element({ ...others, data });
};
