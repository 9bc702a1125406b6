// The arithmetic of dpcl_core/lessons/label.py, noise.py and duel.py, in the browser. Appended to drag/replay.mjs, which has the
// noise of a budget and the readers of numbers. The two are tested against each other.

// n draws of the standard normal from the browser's secure source. Enough for pictures of public data; a release of private data
// also needs exact rounding (dpcl_core/privacy/gaussian.py).
export function normals(n) {
  const found = new Float64Array(n + (n % 2)), bits = new Uint32Array(found.length);
  for (let at = 0; at < bits.length; at += 16384) crypto.getRandomValues(bits.subarray(at, at + 16384)); // its most in one call
  for (let k = 0; k < found.length; k += 2) {
    const length = Math.sqrt(-2 * Math.log((bits[k] + 1) / 2 ** 32)), angle = (2 * Math.PI * bits[k + 1]) / 2 ** 32;
    found[k] = length * Math.cos(angle);
    found[k + 1] = length * Math.sin(angle);
  }
  return found.subarray(0, n);
}

export const coin = () => crypto.getRandomValues(new Uint8Array(1))[0] % 2 === 1;
function product(a, b) {
  let sum = 0;
  for (let k = 0; k < a.length; k++) sum += a[k] * b[k];
  return sum;
}

function noisy(clean, std, draws) {
  const sum = new Float64Array(clean.length);
  for (let k = 0; k < sum.length; k++) sum[k] = clean[k] + std * draws[k];
  return sum;
}

// The labels on the list: all of a public one; of one that is read from the data, those that enough people have.
export const listed = ({ counts, label }, hasPerson, listing, atLeast = 1) =>
  counts.map((_, c) => c).filter((c) => listing !== "data" || counts[c] + (hasPerson && c === label ? 1 : 0) >= atLeast);

// {labels, sums}: one release of class sums; null for a class that is not on the list. `draw`: the noise.
export function release(game, hasPerson, listing, std, draw = normals) {
  const labels = listed(game, hasPerson, listing);
  const sums = game.sums.map((sum, c) => {
    if (!labels.includes(c)) return null;
    const clean = hasPerson && c === game.label ? sum.map((value, k) => value + game.person[k]) : sum;
    return noisy(clean, std, draw(clean.length));
  });
  return { labels, sums };
}

// Log-likelihood ratio of a released sum of her label, with her against without; all others in it are known.
export function sumEvidence({ person, sums, label }, sum, std) {
  const others = sums[label];
  let total = 0;
  for (let k = 0; k < person.length; k++) total += (sum[k] - others[k] - 0.5 * person[k]) * person[k];
  return total / (std * std);
}

// {tookPart, stayedAway}: the attacker's evidence in n rounds a side, a fresh release each. A list that is read from the data
// decides alone: each list is possible on one side only.
export function play(game, listing, std, n, atLeast = 1) {
  const side = (isIn) => {
    if (listing === "data") return new Float64Array(n).fill(listed(game, isIn, "data", atLeast).includes(game.label) ? Infinity : -Infinity);
    const size = game.person.length, draws = normals(n * size), clean = game.sums[game.label], sum = new Float64Array(size), found = new Float64Array(n);
    for (let i = 0; i < n; i++) {
      for (let k = 0; k < size; k++) sum[k] = clean[k] + (isIn ? game.person[k] : 0) + std * draws[i * size + k];
      found[i] = sumEvidence(game, sum, std);
    }
    return found;
  };
  return { tookPart: side(true), stayedAway: side(false) };
}

// The duel over an empty task under a rule: broken ones differ visibly from a noisy release when nobody came.
export function playEmpty(game, isSame, std, n) {
  const alone = { ...game, sums: game.sums.map((sum) => sum.map(() => 0)) };
  if (isSame) return play(alone, "prior-const", std, n);
  return { tookPart: new Float64Array(n).fill(Infinity), stayedAway: new Float64Array(n).fill(-Infinity) };
}

function above(side, cut) {
  let count = 0;
  for (let i = 0; i < side.length; i++) if (side[i] > cut) count += 1;
  return count;
}

export function counted({ tookPart, stayedAway }) {
  const hits = above(tookPart, 0), falseAlarms = above(stayedAway, 0), rounds = tookPart.length + stayedAway.length;
  return { hits, falseAlarms, rounds, share: (hits + stayedAway.length - falseAlarms) / rounds };
}

// Shares [alarms, hits] of the rule "in above the cut" at `n` cuts spread over all rounds.
export function curve({ tookPart, stayedAway }, n) {
  const all = Float64Array.from([...tookPart, ...stayedAway]).sort();
  const cuts = Array.from({ length: n }, (_, k) => all[Math.round((k * (all.length - 1)) / (n - 1))]);
  return [[1, 1], ...cuts.map((cut) => [above(stayedAway, cut) / stayedAway.length, above(tookPart, cut) / tookPart.length])];
}

// The x with normalBelow(x) = share.
function quantile(share) {
  let low = -9, high = 9;
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2;
    if (normalBelow(middle) < share) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

export const exactHits = (alarms, std) => (alarms <= 0 ? 0 : alarms >= 1 ? 1 : normalBelow(quantile(alarms) + 1 / std));
export const promisedHits = (alarms, epsilon, delta) =>
  Math.min(1, Math.exp(epsilon) * alarms + delta, 1 - Math.exp(-epsilon) * (1 - alarms - delta));

// Whether an attack's curve stays under the exact one, up to what chance does in one of a million games (duel.py, `is_held`).
export function isHeld(duel, std, points) {
  const slack = Math.sqrt(Math.log(2 / 1e-6) / (2 * duel.tookPart.length));
  return points.every(([alarms, hits]) => hits <= exactHits(Math.min(1, alarms + slack), std) + slack);
}

const logFactorial = [0, 0];
function logGammaOfWhole(n) {
  while (logFactorial.length < n) logFactorial.push(logFactorial.at(-1) + Math.log(logFactorial.length));
  return logFactorial[n - 1];
}

// The regularised incomplete beta function at x for whole a and b: a continued fraction (Lentz).
function betaBelow(a, b, x) {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - betaBelow(b, a, 1 - x);
  const front = Math.exp(logGammaOfWhole(a + b) - logGammaOfWhole(a) - logGammaOfWhole(b) + a * Math.log(x) + b * Math.log1p(-x)) / a;
  let c = 1, d = 1 - ((a + b) * x) / (a + 1), whole = (d = 1 / d);
  for (let m = 1; m < 1000; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m)), odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / (1 + even * d); c = 1 + even / c; whole *= c * d;
    d = 1 / (1 + odd * d); c = 1 + odd / c;
    const change = c * d;
    whole *= change;
    if (Math.abs(change - 1) < 1e-15) break;
  }
  return front * whole;
}

// Lower confidence limit of a share of which `hits` of `total` were seen (Clopper and Pearson).
function shareAtLeast(hits, total, error) {
  if (hits === 0 || hits === total) return hits === 0 ? 0 : error ** (1 / total);
  let low = 0, high = 1;
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2;
    if (betaBelow(hits, total - hits + 1, middle) < error) low = middle;
    else high = middle;
  }
  return low;
}

// Lower bound on ε at 95 % confidence (privacy/audit_bounds.py, `bound_of_counts`) from the first rounds of both sides.
export function boundOfCounts(hits, nWith, falseAlarms, nWithout, delta) {
  const hit = shareAtLeast(hits, nWith, 0.025), quiet = shareAtLeast(nWithout - falseAlarms, nWithout, 0.025);
  const ratio = (numerator, denominator) => (numerator > 0 ? Math.log(numerator / denominator) : -Infinity);
  return Math.max(0, ratio(hit - delta, 1 - quiet), ratio(quiet - delta, 1 - hit));
}

export const proven = ({ tookPart, stayedAway }, rounds, delta) =>
  rounds.map((n) => boundOfCounts(above(tookPart.subarray(0, n), 0), n, above(stayedAway.subarray(0, n), 0), n, delta));

// The lesson on noise that piles up. The sum that is held for a digit of task 1 after every task: one list adds noise each time, a list per task once.
export function heldOverTasks(clean, isOneList, std, nTasks, draw = normals) {
  let held = noisy(clean, std, draw(clean.length));
  const after = [held];
  while (after.length < nTasks) after.push((held = isOneList ? noisy(held, std, draw(clean.length)) : held));
  return after;
}

// Spread of the noise after each task, measured on n releases of `size` numbers.
export function measuredStd(isOneList, std, nTasks, n, size) {
  const squares = new Float64Array(nTasks), clean = new Float64Array(n * size);
  heldOverTasks(clean, isOneList, std, nTasks).forEach((held, task) => (squares[task] = product(held, held) / held.length));
  return Array.from(squares, Math.sqrt);
}

export function shuffled(n) {
  const order = Array.from({ length: n }, (_, k) => k);
  const keys = crypto.getRandomValues(new Uint32Array(n));
  return order.sort((a, b) => keys[a] - keys[b]);
}

// One list's sum of a digit whose pictures came in one task, each task's release shrunk before it is added.
export function addedShrunk(clean, std, nTasks, draw = normals) {
  const total = new Float64Array(clean.length), nothing = new Float64Array(clean.length);
  for (let task = 0; task < nTasks; task++) {
    const released = noisy(task ? nothing : clean, std, draw(clean.length)), kept = shrinkage(product(released, released), std, clean.length);
    for (let k = 0; k < total.length; k++) total[k] += kept * released[k];
  }
  return total;
}

// Spread of remembered noise in a sum after all tasks, in that of one task's fresh noise, measured on n releases of `size` numbers.
export function measuredRemembered(nTasks, n, size, draw = normals) {
  const { decoder, sensitivity } = squareRoot(nTasks), total = new Float64Array(n * size);
  for (const weight of decoder) draw(total.length).forEach((value, k) => (total[k] += weight * value));
  return sensitivity * Math.sqrt(product(total, total) / total.length);
}

// Mean accuracy over the tasks after the last one, of the cosine classifier whose `order` of classes is dealt to the tasks.
export function finalAccuracy({ sums, tests, testLabels }, isOneList, nTasks, std, order = shuffled(sums.length), draw = normals, isShrunk = false) {
  const released = sums.map((clean) => (isShrunk ? addedShrunk(clean, std, nTasks, draw) : heldOverTasks(clean, isOneList, std, nTasks, draw).at(-1))), size = sums[0].length;
  const lengths = released.map((row) => Math.sqrt(product(row, row)));
  const hits = new Float64Array(sums.length), counts = new Float64Array(sums.length);
  for (let i = 0; i < testLabels.length; i++) {
    let best = -Infinity, chosen = 0;
    for (let c = 0; c < released.length; c++) {
      const row = released[c];
      let score = 0;
      for (let k = 0; k < size; k++) score += tests[i * size + k] * row[k];
      if (lengths[c] > 0 && score / lengths[c] > best) { best = score / lengths[c]; chosen = c; }
    }
    counts[testLabels[i]] += 1;
    if (chosen === testLabels[i]) hits[chosen] += 1;
  }
  const perTask = order.length / nTasks, of = (values, task) => order.slice(task * perTask, (task + 1) * perTask).reduce((sum, c) => sum + values[c], 0);
  let total = 0;
  for (let task = 0; task < nTasks; task++) total += of(hits, task) / of(counts, task);
  return total / nTasks;
}

export const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

// Half width of the 95 % interval; `factor` is that of values with a standard deviation of 1.
export function halfWidth(values, factor) {
  const middle = meanOf(values);
  return factor * Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1));
}
