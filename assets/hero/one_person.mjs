// The arithmetic of scripts/one_person.py, in the browser: a model that learns digits two by two, and what it tells of one person.
// Appended to drag/replay.mjs, which has `sigma` and `accuracies`. The two are tested against each other.

const MODULUS = 2147483647, FACTOR = 48271; // Lehmer's generator: products stay below 2^53, so every step is exact

// The standard normal numbers that follow from a seed, for teaching only: whoever knows the seed draws the same ones.
export function seeded(seed) {
  let state = seed, spare = null;
  const uniform = () => { for (let skip = 0; skip < 2; skip++) state = (state * FACTOR) % MODULUS; return state / MODULUS; };
  return () => {
    if (spare !== null) { const kept = spare; spare = null; return kept; }
    const radius = Math.sqrt(-2 * Math.log(uniform())), angle = 2 * Math.PI * uniform();
    spare = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  };
}

// The document that `encode` of one_person.py wrote, with its noise drawn and all products that no budget changes.
export function opened(doc) {
  const size = doc.n_pixels, sums = wide(doc.sums), nClasses = sums.length / size, nTasks = nClasses / doc.per_task;
  const labels = new Uint8Array(bytes(doc.labels)), tests = unitRows(new Uint8Array(bytes(doc.tests)), size);
  const taskOfClass = Array.from({ length: nClasses }, (_, c) => Math.floor(c / doc.per_task));
  const normal = seeded(doc.seed), units = []; // [draw][task][class * size + pixel]: noise added up over tasks
  for (let draw = 0; draw < doc.n_draws; draw++) {
    let total = new Float64Array(sums.length);
    units.push(taskOfClass.slice(0, nTasks).map(() => (total = total.map((value) => value + normal()))));
  }
  const data = { delta: doc.delta, size, nClasses, nTasks, perTask: doc.per_task, you: doc.you, sums, units };
  const replay = products(data, tests, labels, taskOfClass);
  return { ...data, replay, people: unitRows(new Uint8Array(bytes(doc.people)), size) };
}

function unitRows(levels, size) {
  const rows = [];
  for (let at = 0; at < levels.length; at += size) {
    const row = Float64Array.from(levels.subarray(at, at + size)), length = Math.sqrt(dot(row, row, 0, size));
    rows.push(row.map((value) => value / length));
  }
  return rows;
}

function dot(row, all, at, size) {
  let sum = 0;
  for (let k = 0; k < size; k++) sum += row[k] * all[at + k];
  return sum;
}

// What `accuracies` reads, as `products` of make_playground.py.
function products({ delta, size, nClasses, nTasks, sums, units }, tests, labels, taskOfClass) {
  const classes = [...taskOfClass.keys()], noise = [], crosses = [], noiseSquares = [];
  const ofClasses = (row, all) => classes.map((c) => dot(row, all, c * size, size));
  for (const draw of units) {
    draw.forEach((unit, task) => {
      tests.forEach((row, i) => { if (taskOfClass[labels[i]] <= task) noise.push(...ofClasses(row, unit)); });
      for (const c of classes) {
        const own = unit.subarray(c * size, (c + 1) * size);
        crosses.push(dot(own, sums, c * size, size));
        noiseSquares.push(dot(own, own, 0, size));
      }
    });
  }
  return {
    shared: true, delta, nTasks, nSeeds: units.length, nClasses, labels, taskOfClass: units.flatMap(() => taskOfClass),
    clean: tests.flatMap((row) => ofClasses(row, sums)), noise: Float64Array.from(noise), crosses, noiseSquares,
    cleanSquares: classes.map((c) => dot(sums.subarray(c * size, (c + 1) * size), sums, c * size, size)),
  };
}

// [after task][on task]: the share of new digits that are recognised, the mean over the draws of the noise.
export function knowledge({ replay }, epsilon) {
  const { matrices } = accuracies(replay, epsilon);
  return matrices[0].map((_, k) => Array.from({ length: k + 1 }, (_, i) => matrices.reduce((sum, one) => sum + one[k][i], 0) / matrices.length));
}

// The released sum of a class after a task, in the first draw.
export function released({ size, perTask, sums, units }, label, task, std) {
  const isKnown = Math.floor(label / perTask) <= task;
  return Float64Array.from({ length: size }, (_, k) => (isKnown ? sums[label * size + k] : 0) + std * units[0][task][label * size + k]);
}

// How often the best guess is right whether you took part, from even odds: one Gaussian, whose mean you move by 1.
export const chance = (std) => (std === 0 ? 1 : normalBelow(1 / (2 * std)));

// Your picture as strong as that guess beats a coin. `isLeaked`: the sums with and without you, under the same noise, subtracted.
export function trace(data, std, isLeaked) {
  const yours = data.people[data.you], task = Math.floor(data.you / data.perTask);
  if (!isLeaked) return yours.map((pixel) => (2 * chance(std) - 1) * pixel);
  const taken = released(data, data.you, task, std);
  return taken.map((value, k) => value - (data.sums[data.you * data.size + k] - yours[k] + std * data.units[0][task][data.you * data.size + k]));
}
