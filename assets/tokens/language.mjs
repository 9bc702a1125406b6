// The bundled language model in the browser: the tokenizer and the arithmetic of dpcl_core/backbones/plain_language.py, and the
// nearest token of a noisy embedding (attacks/token_noise_games.py). Tested against both. No page, no network, no state.

const rawBytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

// Half precision to single, exactly.
function singles(text) {
  const halves = new Uint16Array(rawBytes(text).buffer), found = new Float32Array(halves.length);
  for (let i = 0; i < halves.length; i++) {
    const sign = halves[i] & 0x8000 ? -1 : 1, power = (halves[i] >> 10) & 31, rest = halves[i] & 1023;
    found[i] = sign * (power ? 2 ** (power - 15) * (1 + rest / 1024) : 2 ** -24 * rest);
  }
  return found;
}

// The document that explorers/tokens.py wrote, ready for use.
export function opened(doc) {
  const weights = Object.fromEntries(Object.entries(doc.weights).map(([name, text]) => [name, singles(text)]));
  const letters = []; // GPT-2's printable stand-in of every byte
  for (let byte = 0, next = 256; byte < 256; byte++) {
    const isPrintable = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    letters.push(String.fromCharCode(isPrintable ? byte : next++));
  }
  const model = {
    shape: doc.shape, bos: doc.bos, weights, letters,
    byLetter: new Map(letters.map((letter, byte) => [letter, byte])),
    vocabulary: doc.vocabulary,
    ids: new Map(doc.vocabulary.map((token, id) => [token, id])),
    ranks: new Map(doc.merges.map((pair, rank) => [pair, rank])),
    stops: new Set(doc.stop_words),
    commonness: new Float64Array(rawBytes(doc.commonness).buffer),
  };
  model.rows = clippedRows(weights["transformer.wte.weight"], doc.shape.width);
  return model;
}

const PIECES = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;

function merged(model, word) {
  const parts = [...word];
  while (parts.length > 1) {
    let best = Infinity, at = -1;
    for (let i = 0; i + 1 < parts.length; i++) {
      const rank = model.ranks.get(`${parts[i]} ${parts[i + 1]}`) ?? Infinity;
      if (rank < best) [best, at] = [rank, i];
    }
    if (at < 0) break;
    parts.splice(at, 2, parts[at] + parts[at + 1]);
  }
  return parts;
}

// {ids, tokens, isStop, words}: the tokens of a text. A character of several tokens is printed with the first of them. `words`:
// of every word, split at blanks, the tokens whose last character lies in it; a stop word's tokens are marked.
export function encoded(model, given) {
  const text = given.toWellFormed ? given.toWellFormed() : given;
  const ids = [], lengths = [];
  for (const part of text.split(/(\p{N})/u)) { // every digit by itself
    for (const [piece] of part.matchAll(PIECES)) {
      const bytes = new TextEncoder().encode(piece);
      for (const token of merged(model, Array.from(bytes, (byte) => model.letters[byte]).join(""))) {
        ids.push(model.ids.get(token));
        lengths.push(token.length);
      }
    }
  }
  const ends = []; // of each token, in code units of the text
  let bytes = 0, read = 0, at = 0;
  for (const length of lengths) {
    bytes += length;
    while (read < bytes) {
      const code = text.codePointAt(at);
      read += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
      at += code < 0x10000 ? 1 : 2;
    }
    ends.push(at);
  }
  const tokens = ends.map((end, i) => text.slice(i ? ends[i - 1] : 0, end));
  return { ids, tokens, ...wordsOf(tokens, model.stops) };
}

// {words, isStop} of printed tokens: the tokens of every word, and whether each token's word is in the list.
export function wordsOf(tokens, stops) {
  const text = tokens.join(""), words = [], isStop = tokens.map(() => false);
  const found = [...text.matchAll(/\P{White_Space}+/gu)].map((match) => ({ from: match.index, to: match.index + match[0].length, text: match[0], tokens: [] }));
  let end = 0, next = 0;
  tokens.forEach((token, i) => {
    end += token.length;
    while (next < found.length && found[next].to < end) next++;
    const word = found[next];
    if (!word || end - 1 < word.from) return;
    word.tokens.push(i);
    isStop[i] = stops.has(word.text.toLowerCase());
  });
  for (const word of found) if (word.tokens.length) words.push(word);
  return { words, isStop };
}

// x [n, a] times w [a, b], plus a row [b].
function affine(x, n, w, bias) {
  const b = bias.length, a = w.length / b, out = new Float32Array(n * b);
  for (let i = 0; i < n; i++) {
    const row = out.subarray(i * b, (i + 1) * b);
    row.set(bias);
    for (let k = 0; k < a; k++) {
      const value = x[i * a + k], from = k * b;
      for (let j = 0; j < b; j++) row[j] += value * w[from + j];
    }
  }
  return out;
}

function normed(x, n, gain, bias) {
  const width = gain.length, out = new Float32Array(x.length);
  for (let i = 0; i < n; i++) {
    let mean = 0, variance = 0;
    for (let j = 0; j < width; j++) mean += x[i * width + j] / width;
    for (let j = 0; j < width; j++) variance += (x[i * width + j] - mean) ** 2 / width;
    const scale = 1 / Math.sqrt(variance + 1e-5);
    for (let j = 0; j < width; j++) out[i * width + j] = (x[i * width + j] - mean) * scale * gain[j] + bias[j];
  }
  return out;
}

function attended(model, x, n, name) {
  const { width, n_heads: nHeads } = model.shape, size = width / nHeads;
  const all = affine(x, n, model.weights[`${name}.c_attn.weight`], model.weights[`${name}.c_attn.bias`]);
  const mixed = new Float32Array(n * width), shares = new Float64Array(n);
  for (let head = 0; head < nHeads; head++) {
    for (let i = 0; i < n; i++) {
      const query = i * 3 * width + head * size;
      let most = -Infinity, total = 0;
      for (let j = 0; j <= i; j++) {
        const key = j * 3 * width + width + head * size;
        let score = 0;
        for (let k = 0; k < size; k++) score += all[query + k] * all[key + k];
        shares[j] = score / Math.sqrt(size);
        most = Math.max(most, shares[j]);
      }
      for (let j = 0; j <= i; j++) total += shares[j] = Math.exp(shares[j] - most);
      for (let j = 0; j <= i; j++) {
        const value = j * 3 * width + 2 * width + head * size;
        for (let k = 0; k < size; k++) mixed[i * width + head * size + k] += (shares[j] / total) * all[value + k];
      }
    }
  }
  return affine(mixed, n, model.weights[`${name}.c_proj.weight`], model.weights[`${name}.c_proj.bias`]);
}

const gelu = (v) => 0.5 * v * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3)));

// log P of each token of a window, given those before it in the window.
function ofWindow(model, ids) {
  const { shape, weights } = model, n = ids.length, { width } = shape, table = weights["transformer.wte.weight"];
  const inputs = [model.bos, ...ids.slice(0, -1)], add = (x, y) => x.map((value, i) => value + y[i]);
  let x = new Float32Array(n * width);
  inputs.forEach((id, i) => {
    for (let j = 0; j < width; j++) x[i * width + j] = table[id * width + j] + weights["transformer.wpe.weight"][i * width + j];
  });
  for (let block = 0; block < shape.n_blocks; block++) {
    const at = (name) => weights[`transformer.h.${block}.${name}`];
    x = add(x, attended(model, normed(x, n, at("ln_1.weight"), at("ln_1.bias")), n, `transformer.h.${block}.attn`));
    const inner = affine(normed(x, n, at("ln_2.weight"), at("ln_2.bias")), n, at("mlp.c_fc.weight"), at("mlp.c_fc.bias")).map(gelu);
    x = add(x, affine(inner, n, at("mlp.c_proj.weight"), at("mlp.c_proj.bias")));
  }
  x = normed(x, n, weights["transformer.ln_f.weight"], weights["transformer.ln_f.bias"]);
  const logits = new Float64Array(shape.size);
  return ids.map((id, i) => {
    let most = -Infinity, total = 0;
    for (let v = 0; v < shape.size; v++) {
      let logit = 0;
      for (let j = 0; j < width; j++) logit += x[i * width + j] * table[v * width + j];
      logits[v] = logit;
      most = Math.max(most, logit);
    }
    for (let v = 0; v < shape.size; v++) total += Math.exp(logits[v] - most);
    return logits[id] - most - Math.log(total);
  });
}

// log P of each token in nats; a text beyond the context is read in windows that overlap by half.
export function logProbabilities(model, ids) {
  const { context } = model.shape, found = [];
  for (let end = Math.min(ids.length, context); found.length < ids.length; end = Math.min(ids.length, end + context / 2)) {
    const start = Math.max(0, end - context);
    found.push(...ofWindow(model, ids.slice(start, end)).slice(found.length - start));
  }
  return found;
}

// The table of embeddings with rows cut to the median of their lengths, C, as the noise takes them.
function clippedRows(table, width) {
  const n = table.length / width, lengths = [], squares = new Float64Array(n), values = Float64Array.from(table);
  for (let v = 0; v < n; v++) lengths.push(Math.hypot(...table.subarray(v * width, (v + 1) * width)));
  const sorted = [...lengths].sort((a, b) => a - b), bound = (sorted[Math.floor((n - 1) / 2)] + sorted[Math.floor(n / 2)]) / 2;
  for (let i = 0; i < values.length; i++) {
    const v = Math.floor(i / width);
    values[i] *= Math.min(1, bound / lengths[v]);
    squares[v] += values[i] ** 2;
  }
  return { values, squares, bound, width };
}

// The token nearest to a token's clipped embedding plus `ratio` · C times these standard normal numbers [width].
export function nearest(model, id, ratio, draws) {
  const { values, squares, bound, width } = model.rows;
  const seen = draws.map((draw, j) => values[id * width + j] + ratio * bound * draw);
  let best = Infinity, found = id;
  for (let v = 0; v < squares.length; v++) {
    let product = 0;
    for (let j = 0; j < width; j++) product += seen[j] * values[v * width + j];
    const distance = squares[v] - 2 * product;
    if (distance < best) [best, found] = [distance, v];
  }
  return found;
}

// A token as printed, leading blank included; "�" for a part of a character.
export const printed = (model, id) =>
  new TextDecoder().decode(Uint8Array.from([...model.vocabulary[id]], (letter) => model.byLetter.get(letter) ?? 63));
