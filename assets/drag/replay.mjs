// The arithmetic of dpcl_core/explorers/cosine_replay.py, in the browser: accuracies of the cosine classifier at any budget.
// Every formula is explained there; the two are tested against each other. No page, no network, no state.

const SQRT2 = Math.SQRT2;

// Complementary error function to full precision: series below 2, continued fraction above.
function erfc(x) {
  if (x < 0) return 2 - erfc(-x);
  if (x >= 2) return Math.exp(-x * x) * scaledErfc(x);
  let term = x, sum = x;
  for (let n = 1; term > sum * 1e-17 && n < 200; n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return 1 - (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

// erfc(x) e^(x^2), which stays a number where erfc(x) is too small for one.
function scaledErfc(x) {
  if (x < 2) return erfc(x) * Math.exp(x * x);
  let tail = x;
  for (let n = 120; n >= 1; n--) tail = x + n / 2 / tail;
  return 1 / Math.sqrt(Math.PI) / tail;
}

export const normalBelow = (x) => 0.5 * erfc(-x / SQRT2);

// Smallest delta of Gaussian noise at a sensitivity of 1 (Balle and Wang 2018, Theorem 8). Its second term, e^epsilon times a
// tail, is written so that no factor overflows.
function deltaOf(epsilon, std) {
  const near = 1 / (2 * std) - epsilon * std, far = 1 / (2 * std) + epsilon * std;
  return normalBelow(near) - 0.5 * Math.exp((-near * near) / 2) * scaledErfc(far / SQRT2);
}

// Smallest standard deviation that is (epsilon, delta)-DP, rounded up as privacy/gaussian.py does; 0 for infinity.
export function sigma(epsilon, delta) {
  if (epsilon === Infinity) return 0;
  let low = -14, high = 21;
  for (let step = 0; step < 100; step++) {
    const middle = (low + high) / 2;
    if (deltaOf(epsilon, Math.exp(middle)) > delta) low = middle;
    else high = middle;
  }
  return Math.exp((low + high) / 2) * (1 + 1e-6);
}

// What is kept of a release of squared length `squares` in `width` numbers (privacy/continual.py, `shrunk`).
export const shrinkage = (squares, std, width) => (std === 0 ? 1 : squares > 0 ? Math.max(0, 1 - ((width - 2) * std * std) / squares) : 0);

// The square root of the running sums, or with exponent 0 fresh noise, with C on its grid (privacy/continual.py): first
// columns of C and of B = A / C. `decay`: what each task leaves of the sums before it.
export function squareRoot(nTasks, decay = 1, exponent = 0.5) {
  const column = new Float64Array(nTasks), decoder = new Float64Array(nTasks);
  for (let k = 0, exact = 1; k < nTasks; k++) {
    if (k) exact *= (decay * (k - 1 + exponent)) / k;
    column[k] = Math.round(exact * 2 ** 14) / 2 ** 14;
    decoder[k] = decay ** k;
    for (let n = 0; n < k; n++) decoder[k] -= column[k - n] * decoder[n];
  }
  const length = (values) => Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  return { column, decoder, sensitivity: length(column), noise: length(column) * length(decoder) };
}

// The bound beside every finite budget, and a bound in percent, rounded up, as privacy/statement.py prints them.
export const oddsBound = (epsilon, delta) => (epsilon > 700 ? 1 : Math.min(1, (Math.exp(epsilon) + delta) / (1 + Math.exp(epsilon))));
export const percentUp = (share) => String(Number((Math.ceil(share * 1e4 - 1e-6) / 100).toPrecision(6)));
export const oddsPercent = (epsilon, delta) => percentUp(oddsBound(epsilon, delta));

function bytes(text) {
  const raw = atob(text);
  const found = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) found[i] = raw.charCodeAt(i);
  return found.buffer;
}

const scaled = (doc) => Float64Array.from(new Int16Array(bytes(doc.steps)), (step) => step * doc.scale);
const wide = (text) => Float64Array.from(new Float32Array(bytes(text)));

// The document that `encode` wrote, ready for `accuracies`.
export function decode(doc) {
  return {
    shared: doc.setting === "prior-const",
    delta: doc.delta,
    nTasks: doc.n_tasks,
    nSeeds: doc.n_seeds,
    nClasses: doc.n_classes,
    labels: new Int16Array(bytes(doc.labels)),
    taskOfClass: new Int16Array(bytes(doc.task_of_class)),
    clean: scaled(doc.clean),
    cleanSquares: wide(doc.clean_squares),
    noise: scaled(doc.noise),
    crosses: wide(doc.crosses),
    noiseSquares: wide(doc.noise_squares),
  };
}

// {matrices: [seed][after task][on task], classes: [seed][class]}: accuracies at a budget; null above the diagonal.
export function accuracies(data, epsilon) {
  const { nSeeds, nTasks, nClasses, labels, taskOfClass, clean, noise } = data;
  const std = sigma(epsilon, data.delta);
  const n = labels.length;
  const length = new Float64Array(nClasses);
  const known = new Uint8Array(nClasses);
  const matrices = [], classes = [];
  let row = 0; // of `noise`, where each task has rows of its own: only those of examples that are looked at
  for (let seed = 0; seed < nSeeds; seed++) {
    const matrix = [];
    for (let task = 0; task < nTasks; task++) {
      const at = (data.shared ? seed * nTasks + task : seed) * nClasses;
      for (let c = 0; c < nClasses; c++) {
        known[c] = taskOfClass[seed * nClasses + c] <= task ? 1 : 0;
        const own = known[c] ? data.cleanSquares[c] + 2 * std * data.crosses[at + c] : 0;
        const squares = own + std * std * data.noiseSquares[at + c];
        // Not released yet, or a sum of length zero: marked by 0, never chosen.
        length[c] = (known[c] || data.shared) && squares > 0 ? Math.sqrt(squares) : 0;
      }
      const hits = new Float64Array(nTasks), counts = new Float64Array(nTasks);
      const classHits = new Float64Array(nClasses), classCounts = new Float64Array(nClasses);
      for (let i = 0; i < n; i++) {
        const home = taskOfClass[seed * nClasses + labels[i]];
        if (home > task) continue;
        const q = (data.shared ? row++ : seed * n + i) * nClasses, p = i * nClasses;
        let best = -Infinity, chosen = 0;
        for (let c = 0; c < nClasses; c++) {
          if (length[c] === 0) continue;
          const score = ((known[c] ? clean[p + c] : 0) + std * noise[q + c]) / length[c];
          if (score > best) { best = score; chosen = c; }
        }
        const right = chosen === labels[i] ? 1 : 0;
        hits[home] += right; counts[home] += 1;
        classHits[labels[i]] += right; classCounts[labels[i]] += 1;
      }
      matrix.push(Array.from(hits, (hit, i) => (i <= task ? hit / counts[i] : null)));
      if (task === nTasks - 1) classes.push(Array.from(classHits, (hit, c) => hit / classCounts[c]));
    }
    matrices.push(matrix);
  }
  return { matrices, classes };
}
