// A design as the page receives it, and its forward pass.
//
// The weights are few enough to be computed here, so that a page from disk answers
// any input at any sharpness. The page also contains the program's run of the
// example, and the tests compare the two.

interface DesignHead {
  name: string;
  layer: number;
  dim: number;
  dim_v: number;
  reads: number;
  slot: number;
  ties: "first" | "average";
  columns: string[];
}

interface DesignPart {
  name: string;
  head: number;
  rows: number;
  columns: number;
  at: number;
}

export interface Twin {
  ok: boolean;
  inputs: number;
  places: number;
  accuracy: number;
  margin: number;
  counterexample: string | null;
  weights: number[];
  least?: { sharpness: number; any: boolean; monotone: boolean } | null;
  seed?: number;
  steps?: number;
  at?: number[];
  loss?: number[];
  last_loss?: number;
  run: { sharpness: number; logits: number[]; attention: number[][] };
}

export interface Design {
  name: string;
  about: string;
  task: string;
  example: string;
  spec: string;
  letters: number;
  starts: boolean;
  ends: boolean;
  shortest: number;
  longest: number;
  embedded: number;
  causal: boolean;
  at: "every" | "first" | "last"; // where there is an answer
  positions: "none" | "concatenated" | "added";
  tokens: string[];
  answers: string[];
  features: string[];
  heads: DesignHead[];
  parts: DesignPart[];
  designed: Twin;
  learned: Twin | null;
  words: string[];
}

export interface Matrix {
  rows: number;
  columns: number;
  cells: Float32Array;
}

interface HeadRun {
  q: Matrix;
  k: Matrix;
  v: Matrix;
  attention: Matrix;
  out: Matrix;
}

export interface Run {
  ids: number[];
  x: Matrix;
  heads: HeadRun[];
  logits: Matrix;
  given: (number | null)[]; // null: two answers share the largest logit
}

const matrix = (rows: number, columns: number): Matrix => ({
  rows,
  columns,
  cells: new Float32Array(rows * columns),
});

export function part_of(d: Design, twin: Twin, name: string): Matrix {
  const p = d.parts.find((one) => one.name === name)!;
  return {
    rows: p.rows,
    columns: p.columns,
    cells: Float32Array.from(
      twin.weights.slice(p.at, p.at + p.rows * p.columns),
    ),
  };
}

export function head_part(
  d: Design,
  twin: Twin,
  head: number,
  which: "query" | "key" | "value",
): Matrix {
  const p = d.parts.find((o) => o.head === head && o.name.endsWith(which))!;
  return part_of(d, twin, p.name);
}

// Letters of a text, or an error message.
export function letters_of(d: Design, text: string): number[] | string {
  const letters = d.tokens.slice(0, d.letters);
  const ids: number[] = [];
  for (let rest = text.trim(); rest; ) {
    let best = -1;
    letters.forEach((l, i) => {
      if (
        rest.startsWith(l) &&
        (best < 0 || l.length > letters[best].length)
      )
        best = i;
    });
    if (best < 0)
      return `“${[...rest][0]}” is not of the alphabet ${letters.join(" ")}.`;
    ids.push(best);
    rest = rest.slice(letters[best].length).trimStart();
  }
  if (ids.length < d.shortest || ids.length > d.longest)
    return `Inputs have ${d.shortest} to ${d.longest} letters; this has ${ids.length}.`;
  return ids;
}

function embed(d: Design, twin: Twin, ids: number[]): Matrix {
  const x = matrix(ids.length, d.features.length);
  const added = d.positions === "added";
  const tokens = added ? part_of(d, twin, "tokens") : null;
  const places = added ? part_of(d, twin, "positions") : null;
  ids.forEach((id, i) => {
    const row = x.cells.subarray(i * x.columns, (i + 1) * x.columns);
    if (tokens && places)
      for (let f = 0; f < d.embedded; f++)
        row[f] =
          tokens.cells[id * tokens.columns + f] +
          places.cells[i * places.columns + f];
    else {
      row[id] = 1;
      if (d.positions === "concatenated") row[d.tokens.length + i] = 1;
    }
  });
  return x;
}

function times(x: Matrix, w: Matrix): Matrix {
  const y = matrix(x.rows, w.columns);
  for (let i = 0; i < x.rows; i++)
    for (let j = 0; j < w.columns; j++) {
      let sum = 0;
      for (let f = 0; f < w.rows; f++)
        sum += x.cells[i * x.columns + f] * w.cells[f * w.columns + j];
      y.cells[i * w.columns + j] = sum;
    }
  return y;
}

// The weights of a row of scores; masked keys have weight 0.
function weigh(scores: number[], sharpness: number, first: boolean): number[] {
  const most = Math.max(...scores);
  if (sharpness > 0) {
    const e = scores.map((s) => Math.exp(sharpness * (s - most)));
    const sum = e.reduce((a, b) => a + b, 0);
    return e.map((x) => x / sum);
  }
  const best = scores.map((s) => s === most);
  if (first) return scores.map((_, j) => (best.indexOf(true) === j ? 1 : 0));
  const count = best.filter(Boolean).length;
  return best.map((b) => (b ? 1 / count : 0));
}

function attend(
  d: Design,
  h: DesignHead,
  q: Matrix,
  k: Matrix,
  sharpness: number,
): Matrix {
  const a = matrix(q.rows, q.rows);
  for (let i = 0; i < q.rows; i++) {
    const scores: number[] = [];
    for (let j = 0; j < (d.causal ? i + 1 : q.rows); j++) {
      let sum = 0;
      for (let c = 0; c < h.dim; c++)
        sum += q.cells[i * h.dim + c] * k.cells[j * h.dim + c];
      scores.push(Math.fround(sum));
    }
    weigh(scores, sharpness, h.ties === "first").forEach(
      (w, j) => (a.cells[i * q.rows + j] = w),
    );
  }
  return a;
}

export function is_asked(d: Design, place: number, places: number): boolean {
  if (d.at === "first") return place === 0;
  if (d.at === "last") return place === places - 1;
  return !(d.starts && place === 0) && !(d.ends && place === places - 1);
}

// sharpness 0: argmax.
export function run_design(
  d: Design,
  twin: Twin,
  letters: number[],
  sharpness: number,
): Run {
  const ids = [...letters];
  if (d.starts) ids.unshift(d.letters);
  if (d.ends) ids.push(d.letters + (d.starts ? 1 : 0));
  const x = embed(d, twin, ids);
  const heads = d.heads.map((h, i) => {
    const q = times(x, head_part(d, twin, i, "query"));
    const k = times(x, head_part(d, twin, i, "key"));
    const v = times(x, head_part(d, twin, i, "value"));
    const attention = attend(d, h, q, k, sharpness);
    const out = times(attention, v);
    for (let r = 0; r < x.rows; r++)
      for (let c = 0; c < h.dim_v; c++)
        x.cells[r * x.columns + h.slot + c] = out.cells[r * h.dim_v + c];
    return { q, k, v, attention, out };
  });
  const logits = times(x, part_of(d, twin, "readout"));
  const given = ids.map((_, i) => {
    const row = [
      ...logits.cells.subarray(
        i * logits.columns,
        (i + 1) * logits.columns,
      ),
    ];
    const best = Math.max(...row);
    return row.filter((l) => l === best).length > 1 ? null : row.indexOf(best);
  });
  return { ids, x, heads, logits, given };
}
