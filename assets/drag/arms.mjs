// The arithmetic of dpcl_core/explorers/arms.py, in the browser: four ways to handle noise over tasks under one public list.
// Every formula is explained there; the two are tested against each other. No page, no network, no state.

export const ARMS = ["added", "shrunk", "remembered", "both"];
const ARM_SEEDS = 3, ARM_POINTS = 5, ARM_STREAMS = 4;

export function uniformAt(stream, n) {
  let x = (n + Math.imul(stream, 0x9e3779b9)) >>> 0;
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad) >>> 0;
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97) >>> 0;
  return (((x ^ (x >>> 15)) >>> 0) + 0.5) / 2 ** 32;
}

export const normalAt = (stream, n) => Math.sqrt(-2 * Math.log(uniformAt(stream, 2 * n))) * Math.cos(2 * Math.PI * uniformAt(stream, 2 * n + 1));

// The document, its training rows brought to length 1.
export function openedDigits(doc) {
  const numbers = (text) => Float64Array.from(new Uint8Array(bytes(text))), rows = numbers(doc.rows), { size } = doc;
  for (let start = 0; start < rows.length; start += size) {
    const row = rows.subarray(start, start + size), length = Math.sqrt(row.reduce((sum, value) => sum + value * value, 0));
    if (length > 0) row.forEach((value, k) => (row[k] = value / length));
  }
  return { ...doc, rows, labels: numbers(doc.labels), tests: numbers(doc.tests), testLabels: numbers(doc.test_labels) };
}

export const pointsOf = (nTasks) => Array.from({ length: ARM_POINTS }, (_, point) => Math.floor((nTasks * (point + 1)) / ARM_POINTS) - 1);

// All that no budget changes. By seed: clean sums and noise of every task, fresh and as the change of remembered running sums.
export function preparedStream(digits, nTasks, returns) {
  const { rows, labels, size, n_classes: nClasses } = digits, { decoder, sensitivity } = squareRoot(nTasks), width = nClasses * size;
  const stepNoise = Array.from(decoder, (_, task) => Math.sqrt(decoder.slice(0, task + 1).reduce((sum, value, k) => sum + (value - (k ? decoder[k - 1] : 0)) ** 2, 0)));
  const seeds = Array.from({ length: ARM_SEEDS }, (_, seed) => {
    const order = Array.from({ length: nClasses }, (_, c) => c).sort((a, b) => uniformAt(ARM_STREAMS * seed + 2, a) - uniformAt(ARM_STREAMS * seed + 2, b));
    const home = Array.from({ length: nClasses }, (_, c) => Math.floor((order.indexOf(c) * nTasks) / nClasses));
    const clean = Array.from({ length: nTasks }, () => new Float64Array(width));
    labels.forEach((label, i) => {
      const sums = clean[returns ? Math.floor(nTasks * uniformAt(ARM_STREAMS * seed + 1, i)) : home[label]];
      for (let k = 0; k < size; k++) sums[label * size + k] += rows[i * size + k];
    });
    const fresh = clean.map((_, task) => Float64Array.from({ length: width }, (_, k) => normalAt(ARM_STREAMS * seed, task * width + k)));
    let before = new Float64Array(width);
    const remembered = clean.map((_, task) => {
      const after = new Float64Array(width);
      for (let j = 0; j <= task; j++) for (let k = 0; k < width; k++) after[k] += decoder[task - j] * fresh[j][k];
      const change = after.map((value, k) => value - before[k]);
      before = after;
      return change;
    });
    return { clean, fresh, remembered, home: returns ? home.fill(0) : home };
  });
  return { nTasks, points: pointsOf(nTasks), seeds, sensitivity, stepNoise };
}

// {arm: [seed][point]}: accuracies on the test digits whose class has come.
export function armAccuracies(digits, stream, epsilon) {
  const std = sigma(epsilon, digits.delta), found = Object.fromEntries(ARMS.map((arm) => [arm, []]));
  for (const { clean, fresh, remembered, home } of stream.seeds) {
    for (const [noise, scale, steps, arms] of [[fresh, std, null, ["added", "shrunk"]], [remembered, std * stream.sensitivity, stream.stepNoise, ["remembered", "both"]]]) {
      const total = new Float64Array(clean[0].length), kept = new Float64Array(clean[0].length), rows = [[], []];
      for (let task = 0; task < stream.nTasks; task++) {
        addReleased(digits, clean[task], noise[task], scale, scale * (steps ? steps[task] : 1), total, kept);
        if (stream.points.includes(task)) [total, kept].forEach((sums, place) => rows[place].push(shareRight(digits, sums, home, task)));
      }
      arms.forEach((arm, place) => found[arm].push(rows[place]));
    }
  }
  return found;
}

function addReleased({ size, n_classes: nClasses }, clean, noise, scale, std, total, kept) {
  for (let c = 0; c < nClasses; c++) {
    let squares = 0;
    for (let k = c * size; k < (c + 1) * size; k++) squares += (clean[k] + scale * noise[k]) ** 2;
    const part = shrinkage(squares, std, size);
    for (let k = c * size; k < (c + 1) * size; k++) {
      const released = clean[k] + scale * noise[k];
      total[k] += released;
      kept[k] += part * released;
    }
  }
}

function shareRight({ tests, testLabels, size, n_classes: nClasses }, sums, home, task) {
  const lengths = Array.from({ length: nClasses }, (_, c) => Math.sqrt(sums.subarray(c * size, (c + 1) * size).reduce((sum, value) => sum + value * value, 0)));
  let right = 0, n = 0;
  for (let i = 0; i < testLabels.length; i++) {
    if (home[testLabels[i]] > task) continue;
    let best = -Infinity, chosen = 0;
    for (let c = 0; c < nClasses; c++) {
      if (lengths[c] === 0) continue;
      let score = 0;
      for (let k = 0; k < size; k++) score += tests[i * size + k] * sums[c * size + k];
      if (score / lengths[c] > best) { best = score / lengths[c]; chosen = c; }
    }
    n += 1;
    if (chosen === testLabels[i]) right += 1;
  }
  return right / n;
}
