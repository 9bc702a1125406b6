// The arithmetic of scripts/one_person.py, in the browser: two releases, their difference, and an accuracy.
// Appended to drag/replay.mjs, which has `sigma` and the readers of numbers. The two are tested against each other.

// The document that `encode` of one_person.py wrote.
export function opened(doc) {
  const size = doc.n_pixels, people = new Uint8Array(bytes(doc.people)), tests = new Uint8Array(bytes(doc.tests));
  return {
    delta: doc.delta, size, labels: doc.labels, testLabels: new Uint8Array(bytes(doc.test_labels)),
    people: unitRows(people, size), tests: unitRows(tests, size), sums: wide(doc.sums), noise: wide(doc.noise),
  };
}

function unitRows(levels, size) {
  const rows = [];
  for (let at = 0; at < levels.length; at += size) {
    const row = Float64Array.from(levels.subarray(at, at + size));
    const length = Math.sqrt(row.reduce((sum, value) => sum + value * value, 0));
    rows.push(row.map((value) => value / length));
  }
  return rows;
}

// {with, without, difference}: the releases of her class's sum. `isShared`: with the same noise in both.
export function releases(data, person, std, isShared) {
  const { size, sums, noise } = data, at = data.labels[person] * size, second = isShared ? 0 : sums.length;
  const hers = data.people[person];
  const taken = Float64Array.from(hers, (_, k) => sums[at + k] + std * noise[at + k]);
  const left = Float64Array.from(hers, (pixel, k) => sums[at + k] - pixel + std * noise[second + at + k]);
  return { with: taken, without: left, difference: taken.map((value, k) => value - left[k]) };
}

// The released sums [class][pixel], and the share of test pictures that they classify correctly.
export function classifier(data, std) {
  const { size, sums, noise, tests, testLabels } = data, released = [];
  for (let at = 0; at < sums.length; at += size) {
    released.push(Float64Array.from({ length: size }, (_, k) => sums[at + k] + std * noise[at + k]));
  }
  const lengths = released.map((row) => Math.sqrt(row.reduce((sum, value) => sum + value * value, 0)));
  let right = 0;
  tests.forEach((test, i) => {
    let best = -Infinity, chosen = 0;
    released.forEach((row, c) => {
      let product = 0;
      for (let k = 0; k < size; k++) product += test[k] * row[k];
      if (product / lengths[c] > best) { best = product / lengths[c]; chosen = c; }
    });
    if (chosen === testLabels[i]) right += 1;
  });
  return { released, accuracy: right / tests.length };
}
