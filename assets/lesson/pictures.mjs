// Pictures of the lessons: strips of small grey pictures, and charts in SVG, each with its finding as alternative text and its numbers
// as a table and as a file.

const SIZE = { width: 640, height: 300, left: 62, right: 14, top: 12, bottom: 46 };

// rows: {name: [numbers of a small picture, or null]}. The grey scale is that of each row's own largest and smallest number.
export function strips(rows, columns, finding, missing = "") {
  const bodies = Object.entries(rows).map(([name, pictures]) => {
    const all = pictures.filter(Boolean).flatMap((one) => Array.from(one)), low = Math.min(...all), high = Math.max(...all);
    const cells = pictures.map((one, place) => made("div", { className: "cell" }, one ? grey(one, low, high) : made("span", { className: "missing", textContent: missing }), made("small", { textContent: columns[place] })));
    return made("div", { className: "strip" }, ...(name ? [made("b", { textContent: name })] : []), made("div", { className: "cells" }, ...cells));
  });
  const picture = made("div", {}, ...bodies);
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", finding);
  const lines = Object.entries(rows).flatMap(([name, pictures]) => pictures.flatMap((one, place) => (one ? [[name, columns[place], ...one]] : [])));
  const heads = ["row", "picture", ...lines[0].slice(2).map((_, k) => `pixel ${k + 1}`)];
  return made("figure", {}, picture, made("figcaption", { textContent: finding }), numbers("pictures", [heads, ...lines], () => table(heads, lines.map((row) => row.map(rounded)))));
}

function grey(numbers, low, high) {
  const side = Math.sqrt(numbers.length), canvas = made("canvas", { width: side, height: side }), pen = canvas.getContext("2d");
  const image = pen.createImageData(side, side);
  Array.from(numbers).forEach((value, k) => image.data.set([0, 0, 0, 255 * Math.min(1, Math.max(0, (value - low) / (high - low)))], 4 * k));
  pen.putImageData(image, 0, 0);
  return canvas;
}

// An axis is {title, low, high, ticks: [number], isLog, shown}. A series is {name, kind, points, colour, isDashed, half}: a line, dots,
// rings, or an area down to the bottom; `half`: half widths of its error bars.
export function chart(x, y, series, finding) {
  const scale = ({ low, high, isLog }, from, to) => (value) => {
    const share = isLog ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    return from + share * (to - from);
  };
  const right = SIZE.width - SIZE.right, bottom = SIZE.height - SIZE.bottom;
  const across = scale(x, SIZE.left, right), down = scale(y, bottom, SIZE.top);
  const svg = drawn("svg", { role: "img", "aria-label": finding, viewBox: `0 0 ${SIZE.width} ${SIZE.height}` });
  for (const tick of y.ticks) svg.append(drawn("line", { class: "grid", x1: SIZE.left, x2: right, y1: down(tick), y2: down(tick) }), drawn("text", { x: SIZE.left - 8, y: down(tick) + 5, "text-anchor": "end" }, (y.shown ?? String)(tick)));
  for (const tick of x.ticks) svg.append(drawn("text", { x: across(tick), y: bottom + 20, "text-anchor": "middle" }, (x.shown ?? String)(tick)));
  svg.append(drawn("text", { x: right, y: SIZE.height - 4, "text-anchor": "end" }, x.title));
  for (const one of series) {
    const places = one.points.map(([a, b]) => [across(a), down(Math.min(b, y.high))]), path = places.map((place) => place.map((value) => value.toFixed(1)).join(",")).join(" ");
    const group = drawn("g", { class: `${one.kind} ${one.colour}${one.isDashed ? " dashed" : ""}` });
    if (one.kind === "area") group.append(drawn("polygon", { points: `${places[0][0]},${bottom} ${path} ${places.at(-1)[0]},${bottom}` }));
    if (one.kind === "line") group.append(drawn("polyline", { points: path }));
    if (one.kind === "dots" || one.kind === "rings") group.append(...places.map(([cx, cy]) => (one.isDashed ? drawn("rect", { x: cx - 5, y: cy - 5, width: 10, height: 10 }) : drawn("circle", { cx, cy, r: 5 }))));
    (one.half ?? []).forEach((half, k) => group.append(drawn("line", { x1: places[k][0], x2: places[k][0], y1: down(one.points[k][1] - half), y2: down(one.points[k][1] + half) })));
    svg.append(group);
  }
  const legend = series.filter(({ name }) => name).map(({ name, kind, colour, isDashed }) => made("span", {}, made("i", { className: `${kind} ${colour}${isDashed ? " dashed" : ""}` }), name));
  const under = numbers(y.title, drawnNumbers(x, y, series), () => numbersOf(x, series.filter(({ kind }) => kind === "dots" || kind === "rings")));
  return made("figure", {}, made("div", { className: "legend", textContent: y.title }), svg, made("div", { className: "legend" }, ...legend), made("figcaption", { textContent: finding }), under);
}

// The numbers under a figure: a table that is made when it is opened, and a file with all that is drawn.
function numbers(title, lines, makeTable) {
  const fold = made("details", {}, made("summary", { textContent: "Numbers" }));
  fold.addEventListener("toggle", () => fold.childElementCount > 1 || fold.append(makeTable()));
  const file = `${title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "")}.csv`;
  const button = made("button", { type: "button", textContent: "CSV", title: "The numbers of this figure as a file", onclick: () => save(file, csv(lines)) });
  return made("div", { className: "numbers" }, fold, button);
}

function save(name, text) {
  const href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  made("a", { href, download: name }).click();
  URL.revokeObjectURL(href);
}

// Lines of cells as a file: a cell with a comma, a quote or a line break is quoted.
export function csv(lines) {
  const cell = (value) => (/[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  return lines.map((line) => `${line.map(cell).join(",")}\n`).join("");
}

// Every point of every series with a name, as lines under a head.
export function drawnNumbers(x, y, series) {
  const points = series.filter(({ name }) => name).flatMap(({ name, points: all, half }) => all.map(([a, b], k) => [name, a, b, half ? half[k] : ""]));
  return [["series", x.title, y.title, "half width of the interval"], ...points];
}

const rounded = (value) => (typeof value === "number" ? String(Number(value.toPrecision(4))) : value);

// What was measured, as a table: a row for each place across, which all series share.
function numbersOf(x, series) {
  const rows = series[0].points.map(([across], row) => [rounded(across), ...series.map(({ points }) => rounded(points[row][1]))]);
  return table([x.title, ...series.map(({ name }) => name)], rows);
}

// heads and rows of a table, whose first column names the row.
export function table(heads, rows, title = "") {
  const head = made("tr", {}, ...heads.map((textContent) => (textContent ? made("th", { textContent, scope: "col" }) : made("td"))));
  const body = rows.map(([name, ...cells]) => made("tr", {}, made("th", { textContent: name, scope: "row" }), ...cells.map((textContent) => made("td", { textContent }))));
  return made("div", { className: "scroll", tabIndex: 0 }, made("table", {}, ...(title ? [made("caption", { textContent: title })] : []), made("thead", {}, head), made("tbody", {}, ...body)));
}
