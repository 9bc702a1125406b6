// The ε calculators' arithmetic: any one of ε, σ and δ from the other two. Appended to drag/replay.mjs, which has the Gaussian.
// privacy/calculator.py computes the same in closed form; for random batches dp_accounting's Rényi accountant is the twin.

const SENSITIVITY = { "add-remove": 1, replace: 2 };
const LEAST_NOISE = 1e-3, MOST_NOISE = 1e6; // where a noise multiplier is searched
// Whole orders only: there the divergence of a random batch is a finite sum.
export const ORDERS = [...Array(63).keys()].map((k) => k + 2).concat([72, 80, 96, 112, 128, 160, 192, 256, 384, 512, 1024]);
const logFactorials = new Float64Array(ORDERS.at(-1) + 1);
for (let k = 2; k < logFactorials.length; k++) logFactorials[k] = logFactorials[k - 1] + Math.log(k);

// Where a falling function passes 0; `low` and `high` bound it.
function crossing(falling, low, high) {
  for (let step = 0; step < 100 && high - low > 1e-13 * Math.abs(high); step++) {
    const middle = (low + high) / 2;
    if (falling(middle) > 0) low = middle;
    else high = middle;
  }
  return high;
}

// Smallest ε of Gaussian noise at a sensitivity of 1.
export function epsilonOf(std, delta) {
  if (deltaOf(0, std) <= delta) return 0;
  const most = 1 / (2 * std * std) + Math.sqrt(2 * Math.log(1 / delta)) / std + 1; // the tail bound of the privacy loss
  return crossing((epsilon) => deltaOf(epsilon, std) - delta, 0, most);
}

// Rényi divergence of one Gaussian step on a random share q, one example more or less, at a whole order
// (Mironov, Talwar and Zhang 2019, section 3.3).
function divergence(order, sigma, q) {
  let most = -Infinity;
  const terms = [];
  for (let k = 0; k <= order; k++) {
    const ways = logFactorials[order] - logFactorials[k] - logFactorials[order - k];
    const term = ways + (order - k) * Math.log1p(-q) + k * Math.log(q) + (k * (k - 1)) / (2 * sigma * sigma);
    terms.push(term);
    if (term > most) most = term;
  }
  let sum = 0;
  for (const term of terms) sum += Math.exp(term - most);
  return Math.max(0, (most + Math.log(sum)) / (order - 1));
}

// ε of n steps on random batches (Canonne, Kamath and Steinke 2020, Proposition 12): an upper bound.
export function sampledEpsilon(sigma, delta, q, n) {
  const bounds = ORDERS.map((order) =>
    n * divergence(order, sigma, q) + Math.log1p(-1 / order) - (Math.log(delta) + Math.log(order)) / (order - 1));
  return Math.max(0, Math.min(...bounds));
}

// The same for δ.
export function sampledDelta(sigma, epsilon, q, n) {
  const logs = ORDERS.map((order) => (order - 1) * (n * divergence(order, sigma, q) - epsilon + Math.log1p(-1 / order)) - Math.log(order));
  return Math.min(1, Math.exp(Math.min(...logs)));
}

// {epsilon, sigma, delta}: the one to `find` from the others; σ over the change that one example more or less makes. NaN where
// this arithmetic has no bound: random batches under "replace", and an ε below what Rényi orders can show.
export function solved({ find, epsilon, sigma: noise, delta, rate, steps, adjacency }) {
  const known = { epsilon, sigma: noise, delta };
  if (rate === 1) {
    const scale = SENSITIVITY[adjacency] * Math.sqrt(steps);
    if (find === "sigma") return { ...known, sigma: sigma(epsilon, delta) * scale };
    if (find === "epsilon") return { ...known, epsilon: epsilonOf(noise / scale, delta) };
    return { ...known, delta: Math.max(0, deltaOf(epsilon, noise / scale)) };
  }
  if (adjacency === "replace") return { ...known, [find]: NaN };
  if (find === "epsilon") return { ...known, epsilon: sampledEpsilon(noise, delta, rate, steps) };
  if (find === "delta") return { ...known, delta: sampledDelta(noise, epsilon, rate, steps) };
  const excess = (log) => sampledEpsilon(Math.exp(log), delta, rate, steps) - epsilon;
  if (excess(Math.log(MOST_NOISE)) > 0) return { ...known, sigma: NaN };
  return { ...known, sigma: Math.exp(crossing(excess, Math.log(LEAST_NOISE), Math.log(MOST_NOISE))) };
}

// ε of one person in several tasks, each one Gaussian release with its own ε at this δ.
export const inEveryTask = (epsilon, delta, tasks) => epsilonOf(sigma(epsilon, delta) / Math.sqrt(tasks), delta);
