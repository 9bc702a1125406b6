// The arithmetic of dpcl_core/lessons/noise.py and explorers/matching.py, in the browser, tested against them.
// `lists` is a document of the former. No page, no network, no state.

// Places [[x, y], ...] of all entries with the place-th number of anchors, at this noise: straight lines.
export const placed = (lists, place, noise) => {
  const { start, step } = lists.places[place];
  return start.map((from, i) => from.map((value, axis) => value + noise * step[i][axis]));
};

// The grey levels in [0, 1] of the entry's picture at this noise.
export function picture(lists, entry, noise) {
  const drawn = lists.pictures.start[entry].map((value, i) => Math.max(value + noise * lists.pictures.step[entry][i], 0));
  const most = Math.max(...drawn, 1e-9);
  return drawn.map((value) => value / most);
}

// Adjusted Rand index of two labellings (strings or arrays): 1 for equal partitions, 0 on average by chance.
export function adjustedRand(groups, modes) {
  const pairs = (n) => (n * (n - 1)) / 2;
  const paired = (labels) => {
    const sizes = new Map();
    for (const label of labels) sizes.set(label, (sizes.get(label) ?? 0) + 1);
    return [...sizes.values()].reduce((sum, size) => sum + pairs(size), 0);
  };
  const both = paired([...groups].map((group, i) => `${group} ${modes[i]}`)), one = paired(groups), other = paired(modes);
  const expected = (one * other) / Math.max(pairs(groups.length), 1), most = (one + other) / 2;
  return most === expected ? 1 : (both - expected) / (most - expected);
}

export const countRight = (groups, modes) => [...groups].filter((group, i) => group === modes[i]).length;
