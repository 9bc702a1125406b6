// The arithmetic of tests/playground/arms.py, in the browser: four ways to handle noise over tasks under one public list.
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
    const points = pointsOf(nTasks), ends = returns ? home.fill(0) : home;
    return { clean, home: ends, ways: [{ noise: fresh, arms: ["added", "shrunk"] }, { noise: remembered, arms: ["remembered", "both"], stepNoise, sensitivity }].map((way) => ({ ...way, sums: summedAt(digits, points, clean, way.noise) })) };
  });
  return { nTasks, points: pointsOf(nTasks), seeds };
}

// At every point, the products and lengths of clean sums and of noise: what is added up is linear in the noise.
function summedAt(digits, points, clean, noise) {
  const sums = new Float64Array(clean[0].length), noises = new Float64Array(clean[0].length), found = [];
  clean.forEach((one, task) => {
    for (let k = 0; k < sums.length; k++) { sums[k] += one[k]; noises[k] += noise[task][k]; }
    if (!points.includes(task)) return;
    const of = (a, b) => classSums(digits, (k) => a[k] * b[k]);
    found.push({ clean: productsOf(digits, sums), noise: productsOf(digits, noises), squares: of(sums, sums), crosses: of(sums, noises), noiseSquares: of(noises, noises) });
  });
  return found;
}

function classSums({ size, n_classes: nClasses }, term) {
  const found = new Float64Array(nClasses);
  for (let k = 0; k < nClasses * size; k++) found[Math.floor(k / size)] += term(k);
  return found;
}

// Products [tests, classes] of the test digits with the sums; four terms at a time, which is twice as fast.
function productsOf({ tests, testLabels, size, n_classes: nClasses }, sums) {
  const found = new Float64Array(testLabels.length * nClasses);
  for (let i = 0, at = 0; i < testLabels.length; i++) {
    for (let c = 0; c < nClasses; c++) {
      let p = i * size, q = c * size, one = 0, two = 0, three = 0, four = 0;
      for (const end = p + size; p < end; p += 4, q += 4) {
        one += tests[p] * sums[q];
        two += tests[p + 1] * sums[q + 1];
        three += tests[p + 2] * sums[q + 2];
        four += tests[p + 3] * sums[q + 3];
      }
      found[at++] = one + two + (three + four);
    }
  }
  return found;
}

// {arm: [seed][point]}: accuracies on the test digits whose class has come.
export function armAccuracies(digits, stream, epsilon) {
  const std = sigma(epsilon, digits.delta), found = Object.fromEntries(ARMS.map((arm) => [arm, []]));
  for (const { clean, home, ways } of stream.seeds) {
    for (const { noise, sums, arms: [plain, shrunk], stepNoise, sensitivity } of ways) {
      const scale = std * (sensitivity ?? 1), kept = new Float64Array(clean[0].length), rows = [[], []];
      for (let task = 0; task < stream.nTasks; task++) {
        addShrunk(digits, clean[task], noise[task], scale, scale * (stepNoise ? stepNoise[task] : 1), kept);
        const point = stream.points.indexOf(task);
        if (point < 0) continue;
        const at = sums[point], lengths = at.squares.map((value, c) => Math.sqrt(Math.max(0, value + 2 * scale * at.crosses[c] + scale * scale * at.noiseSquares[c])));
        rows[0].push(shareRight(digits, at.clean.map((value, k) => value + scale * at.noise[k]), lengths, home, task));
        rows[1].push(shareRight(digits, productsOf(digits, kept), classSums(digits, (k) => kept[k] * kept[k]).map(Math.sqrt), home, task));
      }
      found[plain].push(rows[0]);
      found[shrunk].push(rows[1]);
    }
  }
  return found;
}

function addShrunk({ size, n_classes: nClasses }, clean, noise, scale, std, kept) {
  for (let c = 0; c < nClasses; c++) {
    let squares = 0;
    for (let k = c * size; k < (c + 1) * size; k++) squares += (clean[k] + scale * noise[k]) ** 2;
    const part = shrinkage(squares, std, size);
    if (part > 0) for (let k = c * size; k < (c + 1) * size; k++) kept[k] += part * (clean[k] + scale * noise[k]);
  }
}

function shareRight({ testLabels, n_classes: nClasses }, products, lengths, home, task) {
  let right = 0, n = 0;
  for (let i = 0; i < testLabels.length; i++) {
    if (home[testLabels[i]] > task) continue;
    let best = -Infinity, chosen = 0;
    for (let c = 0; c < nClasses; c++) {
      const score = products[i * nClasses + c] / lengths[c];
      if (lengths[c] > 0 && score > best) { best = score; chosen = c; }
    }
    n += 1;
    if (chosen === testLabels[i]) right += 1;
  }
  return right / n;
}

// A stream that forgets: after the last of ten tasks the share of right among the digits of the first five, and what who
// sees the last five running sums can prove of a person of the first task, by way. All that was released keeps the budget.
export const WAYS = { fresh: 0, remembered: 0.5 }, CAME = 5, LASTING = 10;

export function forgetting(digits, stream, decay, epsilon) {
  const std = sigma(epsilon, digits.delta), last = LASTING - 1;
  return Object.fromEntries(Object.entries(WAYS).map(([way, exponent]) => {
    const { decoder, sensitivity } = squareRoot(LASTING, decay, exponent), scale = std * sensitivity;
    const old = stream.seeds.map(({ clean, home, ways }) => {
      const sums = new Float64Array(clean[0].length);
      clean.forEach((one, task) => {
        const weight = decay ** (last - task), noise = scale * decoder[last - task], drawn = ways[0].noise[task];
        for (let k = 0; k < sums.length; k++) sums[k] += weight * one[k] + noise * drawn[k];
      });
      const later = home.map((task) => (task < CAME ? 0 : Infinity)); // of later digits no test counts
      return shareRight(digits, productsOf(digits, sums), classSums(digits, (k) => sums[k] * sums[k]).map(Math.sqrt), later, last);
    });
    const told = latecomer(decoder, decay);
    return [way, { old: old.reduce((sum, value) => sum + value, 0) / old.length, newcomer: epsilonOf(scale / told, digits.delta) }];
  }));
}

// Smallest epsilon at which Gaussian noise is (epsilon, delta)-DP; Infinity without noise.
function epsilonOf(std, delta) {
  if (std === 0) return Infinity;
  let low = 0, high = 2000;
  for (let step = 0; step < 100; step++) {
    const middle = (low + high) / 2;
    if (deltaOf(middle, std) > delta) low = middle;
    else high = middle;
  }
  return high;
}

// How far a row of length 1 in the first task moves the running sums from the sixth on, in standard deviations of noise 1
// (privacy/continual.py): |L^-1 v| with L L^T the covariance of B z.
function latecomer(decoder, decay) {
  const n = decoder.length - CAME, solved = [], root = [];
  for (let a = 0; a < n; a++) {
    root.push([]);
    for (let b = 0; b <= a; b++) {
      let value = 0;
      for (let k = 0; k <= CAME + b; k++) value += decoder[CAME + a - k] * decoder[CAME + b - k];
      for (let k = 0; k < b; k++) value -= root[a][k] * root[b][k];
      root[a].push(b === a ? Math.sqrt(value) : value / root[b][b]);
    }
    solved.push((decay ** (CAME + a) - solved.reduce((sum, value, k) => sum + value * root[a][k], 0)) / root[a][a]);
  }
  return Math.sqrt(solved.reduce((sum, value) => sum + value * value, 0));
}
