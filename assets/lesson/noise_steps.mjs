// The lesson on noise that piles up, step by step: one public list against a list per task, in released sums and in accuracy. As label_steps.mjs.

const N_DRAWS = 300; // classifiers released to measure the noise: a standard error of 0.5 %
const share0 = (value) => `${Math.round(100 * value)} %`;
const repeated = (n, make) => Array.from({ length: n }, make);

// Accuracies of several runs: {one, own}, of both lists; of one list whose releases are shrunk; and with noise of one strength.
const learned = (game, nTasks, std) => ({ one: repeated(game.n_runs, () => finalAccuracy(game, true, nTasks, std)), own: repeated(game.n_runs, () => finalAccuracy(game, false, nTasks, std)) });
const shrunkRuns = (game, nTasks, std) => repeated(game.n_runs, () => finalAccuracy(game, true, nTasks, std, shuffled(game.sums.length), normals, true));
const atStrength = (game, std) => repeated(game.n_runs, () => finalAccuracy(game, false, 1, std));

// Lines with error bars: of each, name, runs at every x, colour, and whether it is dashed.
const linesOf = (factor, xs, lines) => lines.flatMap(([name, runs, colour, isDashed]) => {
  const points = xs.map((x, k) => [x, meanOf(runs[k])]);
  return [{ kind: "line", colour, isDashed, points }, { name, kind: "dots", colour, isDashed, points, half: runs.map((run) => halfWidth(run, factor)) }];
});
const pair = (words, factor, xs, one, own) => linesOf(factor, xs, [[words.names.one, one, "c1", true], [words.names.own, own, "c0", false]]);

function accuracyAxis(words, values) {
  const low = Math.max(0, Math.floor(10 * Math.min(...values) - 0.5) / 10), ticks = [];
  for (let tick = Math.round(10 * low); tick <= 10; tick++) ticks.push(tick / 10);
  return { title: words.accuracy_axis, low, high: 1, ticks: ticks.length > 6 ? ticks.filter((tick) => Math.round(10 * tick) % 2 === 0) : ticks, shown: share0 };
}

const noiseSteps = {
  "two-lists": (stage) => {
    const { game, words } = stage, epsilon = stage.choose("epsilon", game.epsilons), std = sigma(epsilon, stage.delta), clean = game.sums[game.watched];
    const { one, own } = stage.results(words.learn, () => ({ one: heldOverTasks(clean, true, std, game.n_tasks), own: heldOverTasks(clean, false, std, game.n_tasks) }), epsilon);
    const width = (held) => Math.sqrt(meanOf(Array.from(held.at(-1), (value, k) => (value - clean[k]) ** 2))), ratio = width(one) / width(own);
    const finding = filled(words.ratio, { digit: game.classes[game.watched], ratio: ratio.toFixed(1) });
    stage.add(strips({ [words.names.clean]: repeated(game.n_tasks, () => clean), [words.names.own]: own, [words.names.one]: one }, repeated(game.n_tasks, (_, k) => String(k + 1)), finding));
    return ratio < 1.5 ? 0 : ratio < 6 ? 1 : 2;
  },
  measured: (stage) => {
    const { game, words } = stage, epsilon = stage.choose("epsilon", game.epsilons), std = sigma(epsilon, stage.delta);
    const { one, own } = stage.results(words.draw, () => ({ one: measuredStd(true, std, game.n_tasks, N_DRAWS, game.size), own: measuredStd(false, std, game.n_tasks, N_DRAWS, game.size) }), epsilon);
    const tasks = repeated(game.n_tasks, (_, k) => k + 1), top = 1.1 * Math.max(...one), ratio = one.at(-1) / one[game.n_tasks / 2 - 1];
    const finding = filled(words.grown, { n: (N_DRAWS * game.size).toLocaleString("en"), one: (one.at(-1) / one[0]).toFixed(2), own: (own.at(-1) / own[0]).toFixed(2) });
    const step = [0.5, 1, 2, 5, 10, 20, 50].find((size) => top / size <= 6) ?? 100;
    stage.add(chart({ title: words.tasks_axis, low: 0.6, high: game.n_tasks + 0.4, ticks: tasks }, { title: words.spread_axis, low: 0, high: top, ticks: repeated(Math.floor(top / step) + 1, (_, k) => k * step) }, [
      { name: `${words.names.one}: σ × √tasks`, kind: "line", colour: "c1", isDashed: true, points: tasks.map((t) => [t, std * Math.sqrt(t)]) },
      { name: `${words.names.one}: ${words.measured}`, kind: "dots", colour: "c1", isDashed: true, points: tasks.map((t, k) => [t, one[k]]) },
      { name: `${words.names.own}: σ`, kind: "line", colour: "c0", points: tasks.map((t) => [t, std]) },
      { name: `${words.names.own}: ${words.measured}`, kind: "dots", colour: "c0", points: tasks.map((t, k) => [t, own[k]]) },
    ], finding));
    return ratio < 1.2 ? 0 : ratio < 1.7 ? 1 : 2;
  },
  cost: (stage) => {
    const { game, words } = stage, epsilon = stage.choose("epsilon", game.epsilons), std = sigma(epsilon, stage.delta), factor = game.interval_factor;
    const runs = stage.results(words.train, () => game.cuts.map((cut) => learned(game, cut, std)), epsilon);
    const one = runs.map((run) => run.one), own = runs.map((run) => run.own), first = one[0], last = one.at(-1);
    const finding = filled(words.cut, { epsilon, one: percent1(meanOf(first)), one_last: percent1(meanOf(last)), own: percent1(meanOf(own[0])), own_last: percent1(meanOf(own.at(-1))) });
    stage.add(chart({ title: words.cuts_axis, low: 0.9, high: 11, isLog: true, ticks: game.cuts }, accuracyAxis(words, [...one, ...own].flat()), pair(words, factor, game.cuts, one, own), finding));
    const gap = meanOf(first) - meanOf(last), margin = halfWidth(first, factor) + halfWidth(last, factor);
    return gap > margin ? 1 : gap < -margin ? 2 : 0;
  },
  shrunk: (stage) => {
    const { game, words } = stage, epsilon = stage.choose("epsilon", game.epsilons), std = sigma(epsilon, stage.delta), factor = game.interval_factor;
    const runs = stage.results(words.train, () => game.cuts.map((cut) => ({ ...learned(game, cut, std), shrunk: shrunkRuns(game, cut, std) })), epsilon);
    const [one, own, shrunk] = ["one", "own", "shrunk"].map((name) => runs.map((run) => run[name])), [added, listed, kept] = [one, own, shrunk].map((all) => meanOf(all.at(-1)));
    const finding = filled(words.shrunk_finding, { epsilon, one: percent1(added), shrunk: percent1(kept), own: percent1(listed) });
    stage.add(chart({ title: words.cuts_axis, low: 0.9, high: 11, isLog: true, ticks: game.cuts }, accuracyAxis(words, [...one, ...own, ...shrunk].flat()), linesOf(factor, game.cuts, [[words.added_up, one, "c1", true], [words.shrunk, shrunk, "c2", false], [words.names.own, own, "c0", false]]), finding));
    const back = (kept - added) / Math.max(listed - added, 0.005);
    return back < 0.25 ? 0 : back < 0.6 ? 1 : 2;
  },
  remembered: (stage) => {
    const { game, words } = stage, epsilon = stage.choose("epsilon", game.epsilons), std = sigma(epsilon, stage.delta), tasks = game.returns, last = tasks.at(-1);
    const found = stage.results(words.train, () => tasks.map((n) => ({ spread: measuredRemembered(n, 100, game.size), fresh: atStrength(game, std * Math.sqrt(n)), remembered: atStrength(game, std * squareRoot(n).noise) })), epsilon);
    const spread = found.at(-1).spread, finding = filled(words.remembered_finding, { n: last, fresh: Math.sqrt(last).toFixed(1), remembered: spread.toFixed(2) });
    stage.add(table(["", ...tasks.map((n) => filled(n > 1 ? words.n_tasks : words.one_task, { n }))], [["fresh", words.added_up], ["remembered", words.remembered]].map(([name, title]) => [title, ...found.map((one) => percent1(meanOf(one[name])))])));
    stage.add(chart({ title: words.tasks_axis, low: 0.9, high: 1.1 * last, isLog: true, ticks: tasks }, { title: words.relative_axis, low: 0, high: 11, ticks: [0, 2, 4, 6, 8, 10] }, [
      { name: words.added_up, kind: "line", colour: "c1", isDashed: true, points: tasks.map((n) => [n, Math.sqrt(n)]) },
      { name: words.remembered, kind: "line", colour: "c2", points: tasks.map((n) => [n, squareRoot(n).noise]) },
      { name: `${words.remembered}: ${words.measured}`, kind: "dots", colour: "c2", points: tasks.map((n, k) => [n, found[k].spread]) },
    ], finding));
    return spread < 3 ? 2 : spread < 7 ? 1 : 0;
  },
  "where-not": (stage) => {
    const { game, words } = stage, budgets = [...game.epsilons, Infinity];
    const runs = stage.results(words.train, () => budgets.map((epsilon) => learned(game, game.n_tasks, sigma(epsilon, stage.delta))));
    const lost = runs.map(({ one, own }) => 100 * (meanOf(own) - meanOf(one))), ends = lost.map((points) => (Math.abs(points) < 0.05 ? 0 : points).toFixed(1));
    stage.add(table(["", ...budgets.map((epsilon) => (epsilon === Infinity ? words.no_noise : `ε = ${epsilon}`))], [[words.points, ...ends]]));
    const one = runs.map((run) => run.one).slice(0, -1), own = runs.map((run) => run.own).slice(0, -1);
    const finding = filled(words.loss, { low: game.epsilons[0], low_points: ends[0], high: game.epsilons.at(-1), high_points: ends.at(-2), none: ends.at(-1) });
    stage.add(chart({ title: "ε", low: game.epsilons[0] * 0.9, high: game.epsilons.at(-1) * 1.1, isLog: true, ticks: game.epsilons }, accuracyAxis(words, [...one, ...own].flat()), pair(words, game.interval_factor, game.epsilons, one, own), finding));
    const largest = lost.at(-2);
    return largest > 10 ? 0 : largest >= 3 ? 1 : 2;
  },
  "which-list": (stage) => {
    const { game, words } = stage, epsilon = stage.choose("epsilon", game.epsilons), std = sigma(epsilon, stage.delta);
    const { one, own, shrunk } = stage.results(words.compare, () => ({ ...learned(game, game.n_tasks, std), shrunk: shrunkRuns(game, game.n_tasks, std) }), epsilon);
    const list = (name, bound, accuracies) => [name, bound, percent1(meanOf(accuracies))];
    stage.add(table(words.list_heads, [list(words.names.data, words.no_bound_short, own), list(words.names.own, String(epsilon), own), list(words.added_up, String(epsilon), one), list(words.shrunk, String(epsilon), shrunk)]));
    stage.add(made("p", { className: "no-bound", textContent: `${words.no_bound} ${words.no_odds}` }));
    return 0; // the list that is read from the data
  },
};
