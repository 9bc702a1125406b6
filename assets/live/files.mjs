// The files of the manifest: fetched once, with a true count of bytes, held to their hash, and kept.
// Hashes are checked by the browser's own integrity check, which also works where `crypto.subtle` does not (plain http).

const CACHE = "dpcl-live", MEGABYTE = 1e6;
const held = new Map(); // as blobs, which are not in the memory of this page: a new worker gets them again after Stop
export const megabytes = (bytes) => `${Math.max(0.1, bytes / MEGABYTE).toFixed(bytes < MEGABYTE ? 1 : 0)} MB`;

export class Failure extends Error {
  constructor(kind, sentence) {
    super(sentence);
    Object.assign(this, { kind, sentence });
  }
}

export async function manifest() {
  const answer = await fetch("live/manifest.json", { cache: "no-cache" }).catch(() => null);
  const found = answer?.ok ? await answer.json().catch(() => null) : null;
  if (!found) throw new Failure("download", "live/manifest.json cannot be read: reload the page once the server answers, or build the site again with `dpcl site --live`.");
  return found;
}

const cache = async () => globalThis.caches && (await caches.open(CACHE).catch(() => null));

// Forgets kept files of another edition of the site.
export async function tidy({ files, digest }) {
  const kept = await cache(), wanted = new Set([digest, ...Object.values(files).map(({ sha256 }) => sha256.slice(0, 16))]);
  for (const { url } of (await kept?.keys()) ?? []) if (url.includes("?") && !wanted.has(url.split("?").at(-1))) await kept.delete(url);
}

export const missing = (paths) => paths.filter((path) => !held.has(path));
export const read = async (path) => new Uint8Array(await held.get(path).arrayBuffer());

// Brings files that are not held yet; `told` gets the bytes so far.
export async function bring(paths, entries, told) {
  let before = 0;
  for (const path of missing(paths)) {
    held.set(path, await opened(await brought(path, entries[path], (done) => told(before + done, path)), entries[path]));
    before += entries[path].bytes;
    told(before, path);
  }
}

const MADE = ["snapshot", "files"];

// What the engine made of this edition's files on an earlier visit, or in an earlier worker.
export async function keptFor({ digest }) {
  const kept = await cache(), found = {};
  for (const name of MADE) {
    const blob = held.get(name) ?? (await (await kept?.match(`live/${name}?${digest}`))?.blob());
    if (blob) found[name] = new Uint8Array(await blob.arrayBuffer());
  }
  return found;
}

export async function keep({ digest }, pieces) {
  const kept = await cache();
  for (const [name, blob] of Object.entries(pieces)) {
    held.set(name, blob);
    await kept?.put(`live/${name}?${digest}`, new Response(blob)).catch(() => {}); // no room: made again next time
  }
}

// What was kept is of no use: the next load is as on a first visit.
export async function forget({ digest }) {
  const kept = await cache();
  for (const name of MADE) {
    held.delete(name);
    await kept?.delete(`live/${name}?${digest}`);
  }
}

async function brought(path, entry, told) {
  const url = `live/${path}?${entry.sha256.slice(0, 16)}`, kept = await cache();
  const known = await kept?.match(url);
  if (known) {
    const blob = await known.blob();
    if (await isWhole(blob, entry)) return blob;
    await kept.delete(url);
  }
  let blob = await streamed(path, url, entry, told, "force-cache"); // its address names its content
  if (!(await isWhole(blob, entry))) blob = await streamed(path, url, entry, told, "reload"); // past what a cache has kept wrong
  if (!(await isWhole(blob, entry))) throw new Failure("download", `live/${path} is not the file that this site was built with: build the site again, or ask whoever serves it.`);
  await kept?.put(url, new Response(blob)).catch(() => {}); // no room: the browser's own cache is enough
  return blob;
}

async function streamed(path, url, { bytes }, told, cache) {
  const broken = (why) => new Failure("download", `live/${path} did not come whole (${why}): check the connection, then press Try again.`);
  const answer = await fetch(url, { cache }).catch(() => null);
  if (!answer?.ok) throw broken(answer ? `the server answered ${answer.status}` : "no answer");
  const parts = [], reader = answer.body.getReader();
  let done = 0;
  for (;;) {
    const part = await reader.read().catch(() => null);
    if (!part) throw broken(`${megabytes(done)} of ${megabytes(bytes)}`);
    if (part.done) break;
    parts.push(part.value);
    told(done += part.value.length);
  }
  if (done < bytes) throw broken(`${megabytes(done)} of ${megabytes(bytes)}`);
  return new Blob(parts);
}

async function isWhole(blob, { sha256 }) {
  const bytes = Uint8Array.from(sha256.match(/../g), (pair) => parseInt(pair, 16)), address = URL.createObjectURL(blob);
  const answer = await fetch(address, { integrity: `sha256-${btoa(String.fromCharCode(...bytes))}` }).catch(() => null);
  URL.revokeObjectURL(address);
  return Boolean(answer?.ok);
}

const opened = (blob, { packed }) => (packed ? new Response(blob.stream().pipeThrough(new DecompressionStream("gzip"))).blob() : blob);
