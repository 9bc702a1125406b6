// PeCL's score, noise and loss weight of tokens: dpcl_core/methods/language/sensitivity.py and explorers/tokens.py, in the
// browser. Formulas are explained there; tested against them. Follows drag/replay.mjs, whose normalBelow it uses.

// log of the standard normal distribution; far out by the continued fraction of Laplace, where normalBelow is 0.
function logNormalBelow(x) {
  if (x > -20) return Math.log(normalBelow(x));
  let tail = -x;
  for (let n = 60; n >= 1; n--) tail = -x + n / tail;
  return -x * x / 2 - Math.log(tail * Math.sqrt(2 * Math.PI));
}

export const printedRatio = (nominal, delta) => Math.sqrt(2 * Math.log(1.25 / delta)) / nominal;

// Exact ε of one release of a token with this σ / C, at sensitivity 2C; Infinity without noise.
export function trueEpsilon(ratio, delta) {
  if (ratio === 0) return Infinity;
  const mu = 2 / ratio;
  let low = 0, high = mu * mu / 2 + mu * Math.sqrt(2 * Math.log(1 / delta)) + 1;
  for (let step = 0; step < 64; step++) {
    const epsilon = (low + high) / 2;
    const spent = normalBelow(mu / 2 - epsilon / mu) - Math.exp(epsilon + logNormalBelow(-mu / 2 - epsilon / mu));
    if (spent > delta) low = epsilon;
    else high = epsilon;
  }
  return (low + high) / 2;
}

const score = (p, commonness, alpha) => 1 - p ** alpha * Math.exp(-(1 - alpha) * commonness);

// All numbers of a token. Without noise (a stop word) nominal, ratio and true are null.
export function measured({ p, commonness, isStop }, dials) {
  const found = { p, surprise: -Math.log(p), score2: commonness, score: isStop ? 0 : score(p, commonness, dials.alpha) };
  const excess = Math.max(found.score - dials.threshold, 0), base = dials.loss === "full" ? 1 : 0;
  found.weight = excess > 0 ? -dials.strength * excess : base;
  if (isStop) return { ...found, nominal: null, ratio: null, true: null };
  const nominal = dials.lower + (dials.upper - dials.lower) * (1 - found.score) ** 2, ratio = printedRatio(nominal, dials.delta);
  return { ...found, nominal, ratio, true: trueEpsilon(ratio, dials.delta) };
}

export const VALUES = { score1: "surprise", score: "score", nominal: "nominal", true: "true", hinge: "weight" };

// The shade of a token in a layer, 0 to 4, darker for more sensitive; -1: no noise. `edges`: four, ascending.
export function shade(layer, found, edges, dials) {
  const raw = found[VALUES[layer]];
  if (raw === null) return -1;
  const value = layer === "hinge" ? Math.abs(raw - (dials.loss === "full" ? 1 : 0)) : raw;
  const steps = edges.filter((edge) => value >= edge).length;
  return layer === "nominal" || layer === "true" ? 4 - steps : steps;
}
