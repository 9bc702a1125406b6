// Opens the page without a network, where the origin is secure: what came last stands in for an answer that does not come.
// Files of the engine are kept by the page itself, by their hashes; own rows pass through here never: they are no request.
const CACHE = "dpcl-live", SHELL = /\/(train-here\.html|live\/(manifest\.json|[\w-]+\.(js|css)))$/;

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method === "GET" && SHELL.test(new URL(request.url).pathname)) event.respondWith(newest(request));
});

async function newest(request) {
  const kept = await caches.open(CACHE);
  try {
    const answer = await fetch(request);
    if (answer.ok) await kept.put(request, answer.clone());
    return answer;
  } catch (error) {
    const known = await kept.match(request, { ignoreSearch: true });
    if (known) return known;
    throw error;
  }
}
