// The lesson on the label, step by step: what the releases of two neighbouring datasets give away. Each function draws what its step does and
// returns the place of the choice that came true. Appended to games.mjs and pictures.mjs.

const N_GUESSES = 5, N_ROUNDS = 2000, N_CURVE = 5000, MOST_ROUNDS = 20000, CUTS = 40;
const percent1 = (share) => `${(100 * share).toFixed(1)} %`;
const thousands = (n) => n.toLocaleString("en");

// The document's numbers, ready for games.mjs.
export function opened(game) {
  const rows = (text, size) => {
    const flat = wide(text);
    return Array.from({ length: flat.length / size }, (_, i) => flat.slice(i * size, (i + 1) * size));
  };
  const ready = { ...game, sums: rows(game.sums, game.size) };
  if (game.person) ready.person = rows(game.person, game.size)[0];
  if (game.tests) {
    const levels = new Uint8Array(bytes(game.tests));
    ready.testLabels = new Uint8Array(bytes(game.test_labels));
    ready.tests = new Float64Array(levels.length);
    for (let at = 0; at < levels.length; at += game.size) { // rows of length 1, as the classifier compares directions
      let squares = 0;
      for (let k = at; k < at + game.size; k++) squares += levels[k] ** 2;
      for (let k = at; k < at + game.size; k++) ready.tests[k] = levels[k] / Math.sqrt(squares);
    }
  }
  return ready;
}

function chips(title, classes, labels) {
  const list = made("ul", {}, ...labels.map((label) => made("li", { textContent: classes[label] })));
  list.setAttribute("aria-label", title);
  return made("div", { className: "labels" }, made("span", { textContent: `${title}:` }), list);
}

// Numbers of rounds a side at which the bound is drawn: 10, 20, 50, 100 ... and the last.
const steps125 = (n) => [...new Set([10, 100, 1000, 10000].flatMap((power) => [power, 2 * power, 5 * power]).filter((k) => k < n).concat(n))];

function promise(stage, listing, epsilon) {
  const { words, game, delta } = stage;
  if (listing === "data") stage.add(made("p", { className: "no-bound", textContent: `${words.no_bound} ${words.no_odds}` }));
  else stage.add(made("p", { className: "bound", textContent: `${game.promises[epsilon] ?? ""} ${filled(words.odds, { percent: oddsPercent(epsilon, delta) })}` }));
}

function counts(stage, duels) {
  const { words } = stage;
  stage.add(table(words.count_heads, Object.entries(duels).map(([name, duel]) => {
    const { hits, falseAlarms, share } = counted(duel);
    return [name, filled(words.of, { n: thousands(hits), all: thousands(duel.tookPart.length) }), filled(words.of, { n: thousands(falseAlarms), all: thousands(duel.stayedAway.length) }), percent1(share)];
  })));
}

function provenChart(stage, duels, rounds, epsilon) {
  const { words, delta } = stage, lines = Object.entries(duels).map(([name, duel]) => [name, proven(duel, rounds, delta)]);
  const top = 1.1 * Math.max(epsilon, ...lines.flatMap(([, bounds]) => bounds)), last = thousands(rounds.at(-1));
  const finding = lines.map(([name, bounds]) => filled(bounds.at(-1) > epsilon ? words.proven_more : words.proven_no_more, { name, rounds: last, least: bounds.at(-1).toFixed(2) })).join(" ");
  const series = lines.flatMap(([name, bounds], i) => {
    const points = rounds.map((n, k) => [n, bounds[k]]), colour = i ? "c0" : "c1";
    return [{ kind: "line", points, colour }, { name, kind: "dots", points, colour, isDashed: i > 0 }];
  });
  series.push({ name: filled(words.promised, { epsilon }), kind: "line", colour: "ink", isDashed: true, points: [[10, epsilon], [rounds.at(-1), epsilon]] });
  const ticks = [10, 100, 1000, 10000].filter((tick) => tick <= rounds.at(-1));
  const step = top > 8 ? 4 : top > 4 ? 2 : 1;
  stage.add(chart({ title: words.rounds_axis, low: 9, high: rounds.at(-1) * 1.1, isLog: true, ticks, shown: thousands }, { title: words.proven_axis, low: 0, high: top, ticks: Array.from({ length: Math.floor(top / step) + 1 }, (_, k) => k * step) }, series, finding));
  return lines[0][1].at(-1);
}

// Five rounds, each with a hidden coin and a fresh release.
function guessing(stage, listing) {
  const { game, words } = stage, std = sigma(stage.values.epsilon, stage.delta), rounds = stage.kept("rounds") ?? [];
  if (rounds.length < N_GUESSES) {
    const key = `round-${rounds.length}`;
    if (!stage.kept(key)) {
      const isIn = coin();
      stage.keep(key, { isIn, released: release(game, isIn, listing, std) });
    }
    const { isIn, released } = stage.kept(key);
    stage.say(filled(words.round, { n: rounds.length + 1, of: N_GUESSES }));
    stage.add(chips(words.list, game.classes, released.labels));
    if (listing !== "data") {
      const held = released.sums[game.label], low = Math.min(...held), high = Math.max(...held);
      stage.add(strips({ "": [held.map((value) => (value - low) / (high - low)), game.person.map((value) => value / Math.max(...game.person))] }, [filled(words.held, { digit: game.classes[game.label] }), words.hers], words.like_noise));
    }
    const guess = (guessedIn) => () => {
      stage.keep("rounds", [...rounds, { isIn, guessedIn }]);
      stage.again();
    };
    stage.buttons([words.in, guess(true)], [words.out, guess(false)]);
  }
  rounds.forEach(({ isIn, guessedIn }, i) => stage.say(filled(words.guessed, { n: i + 1, guess: guessedIn ? "in" : "out", truth: isIn ? "in" : "out", verdict: isIn === guessedIn ? "right" : "wrong" })));
  if (rounds.length < N_GUESSES) stage.wait();
  stage.see();
  const right = rounds.filter(({ isIn, guessedIn }) => isIn === guessedIn).length;
  stage.say(filled(words.right, { n: right, of: N_GUESSES }));
  stage.buttons([words.more, () => { stage.forget(); stage.again(); }]);
  return right === N_GUESSES ? 2 : right === N_GUESSES - 1 ? 1 : 0;
}

const labelSteps = {
  "two-models": (stage) => {
    const { game, words } = stage, epsilon = stage.values.epsilon, std = sigma(epsilon, stage.delta);
    const sides = stage.results(words.release_both, () => [false, true].map((isIn) => release(game, isIn, "data", std)));
    const names = [words.without, words.with];
    sides.forEach((one, i) => stage.add(chips(filled(words.list_of, { who: names[i] }), game.classes, one.labels)));
    const finding = sides[1].labels.length > sides[0].labels.length ? words.lists_differ : words.lists_same;
    stage.add(strips(Object.fromEntries(sides.map((one, i) => [names[i], one.sums])), game.classes, finding, words.missing));
    promise(stage, "data", epsilon);
    return sides[1].labels.length > sides[0].labels.length ? 2 : 0;
  },
  "your-turn": (stage) => guessing(stage, "data"),
  thousands: (stage) => {
    const { game, words } = stage, epsilon = stage.values.epsilon, std = sigma(epsilon, stage.delta);
    const duel = stage.results(words.play_rounds, (before) => {
      if (before?.tookPart.length >= MOST_ROUNDS) return before;
      const more = play(game, "data", std, N_ROUNDS);
      return before ? { tookPart: joined(before.tookPart, more.tookPart), stayedAway: joined(before.stayedAway, more.stayedAway) } : more;
    }, epsilon);
    counts(stage, { [words.lists.data]: duel });
    const least = provenChart(stage, { [words.lists.data]: duel }, steps125(duel.tookPart.length), epsilon);
    promise(stage, "data", epsilon);
    return least > epsilon ? 1 : 0;
  },
  "public-list": (stage) => guessing(stage, "prior-const"),
  "the-bound": (stage) => {
    const { game, words, delta } = stage, epsilon = stage.choose("epsilon", game.epsilons), std = sigma(epsilon, delta);
    const { held, free } = stage.results(words.play_curve, () => ({ held: play(game, "prior-const", std, N_CURVE), free: play(game, "data", std, N_ROUNDS) }), epsilon);
    counts(stage, { [words.lists["prior-const"]]: held, [words.lists.data]: free });
    const points = curve(held, CUTS), { share, rounds } = counted(held), isRight = isHeld(held, std, points);
    const result = filled(words.duel, { right: percent1(share), rounds: thousands(rounds), best: percent1(normalBelow(1 / (2 * std))), luck: (98 / Math.sqrt(rounds)).toFixed(1) });
    const grid = Array.from({ length: 101 }, (_, k) => (k / 100) ** 2);
    const pairs = (of) => grid.map((alarms) => [alarms, of(alarms)]);
    const share0 = (value) => `${Math.round(100 * value)} %`, ticks = [0, 0.25, 0.5, 0.75, 1];
    stage.add(chart({ title: words.alarms_axis, low: 0, high: 1, ticks, shown: share0 }, { title: words.hits_axis, low: 0, high: 1, ticks, shown: share0 }, [
      { name: filled(words.promised, { epsilon }), kind: "area", colour: "soft-fill", points: pairs((alarms) => promisedHits(alarms, epsilon, delta)) },
      { kind: "line", colour: "soft-line", isDashed: true, points: [[0, 0], [1, 1]] },
      { name: words.best, kind: "line", colour: "c0", points: pairs((alarms) => exactHits(alarms, std)) },
      { name: words.attack, kind: "rings", colour: "c1", points },
    ], `${result} ${isRight ? words.is_held : words.not_held}`));
    provenChart(stage, { [words.lists.data]: free, [words.lists["prior-const"]]: held }, steps125(N_ROUNDS), epsilon);
    promise(stage, "prior-const", epsilon);
    if (share >= 0.95) return 2;
    return share - 0.5 > 1.5 / Math.sqrt(rounds) ? 1 : 0; // three standard errors of a coin
  },
  "side-doors": (stage) => {
    const { game, words } = stage;
    stage.results(words.look, () => true);
    for (const [listing, doors] of Object.entries(game.doors)) stage.add(table(words.door_heads, doors.map(([name, without, withHer]) => [name, without, withHer, without === withHer ? "no" : "yes"]), words.lists[listing]));
    return game.doors.data.some(([, without, withHer]) => without !== withHer) ? 1 : 0;
  },
  "a-rule": (stage) => {
    const { game, words } = stage, std = sigma(stage.values.epsilon, stage.delta), four = { ...game, counts: game.counts.map((n, c) => (c === game.label ? 4 : n)) };
    const duel = stage.results(words.play_rounds, () => play(four, "data", std, N_ROUNDS, 5));
    counts(stage, { [words.five]: duel });
    promise(stage, "data");
    return counted(duel).share > 0.95 ? 1 : 0;
  },
  nobody: (stage) => {
    const { game, words } = stage, epsilon = stage.values.epsilon, std = sigma(epsilon, stage.delta);
    const duels = stage.results(words.play_rounds, () => Object.fromEntries(Object.entries(words.empty_rules).map(([rule, name]) => [name, playEmpty(game, rule === "same", std, N_ROUNDS)])), epsilon);
    counts(stage, duels);
    stage.say(filled(words.empty, { epsilon, best: percent1(normalBelow(1 / (2 * std))), luck: (98 / Math.sqrt(2 * N_ROUNDS)).toFixed(1) }));
    return counted(Object.values(duels)[0]).share > 0.95 ? 1 : 0;
  },
};

function joined(a, b) {
  const all = new Float64Array(a.length + b.length);
  all.set(a);
  all.set(b, a.length);
  return all;
}
