// The protocol of page and program: viewer/README.md as types.

export type RoleName = "encoder" | "decoder" | "cross";
export type ViewName =
  | "model"
  | "head"
  | "neuron"
  | "matrix"
  | "flow"
  | "compare"
  | "generate"
  | "embeddings"
  | "intervene"
  | "attribute";
export type Filter = "all" | "aa" | "ab" | "ba" | "bb";
export type Pool = "max" | "mean";
export type Way = "argmax" | "rollout";

export interface Model {
  id: string;
  name: string;
  family: string;
  parts: "encoder" | "decoder" | "both";
  layers: number;
  heads: number;
  context: number;
  writes: boolean;
  fills: boolean;
  pairs: boolean;
  words?: boolean; // false: no tokenizer, a text is token numbers
  tensors?: boolean; // of a file: there is no model to run
  without?: Partial<Record<ViewName, string>>; // views that do not apply, and why
  positions: "learned" | "sinusoidal" | "rotary" | "buckets";
}

export interface Case {
  model: string;
  text: string;
  second: string | null;
  attention: string;
  untrained: boolean;
  seed: number;
  pad: number;
  step: number; // of a training run; -1: the model has none
  changes: string; // the run is computed with them: "ablate 1.2; patch residual:1:2-3"
  from: string | null; // the text that patches and means take values from
}

// A segment of a curve: step, mean, minimum, maximum.
export type Point = [number, number, number, number];

export interface Training {
  model: string;
  steps: number[]; // rising
  left_out: number; // of a still page: saved steps that are not in it
  best: number | null;
  last: number | null;
  loss: Point[];
  valid: Point[];
}

export interface State {
  view: ViewName;
  case: Case;
  other: Case | null;
  role: RoleName | ""; // "": the first that the run has
  layer: number;
  head: number;
  heads: number[];
  token: number;
  key: number;
  other_layer: number; // of the other run; -1: at the same depth,
  other_head: number; // the same head,
  other_token: number; // the same word
  filter: Filter;
  pool: Pool;
  way: Way;
  form: string;
  sort: string;
  zoom: string; // of a matrix: key, row, pixels a token; "": all of it
  colour: "root" | "linear";
  target: number; // the token of a prediction; -1: the likeliest
  against: number; // whose logit is subtracted; -1: none
  method: Method;
  metric: Metric;
  sweep: boolean; // the map of a sweep is shown
  change: "ablate" | "mean" | "patch" | "pin"; // what a press makes
  point: "head_output" | "mlp" | "residual"; // where
}

export type Method =
  "gradient" | "integrated" | "attention" | "direct" | "lens";
export type Metric = "logit" | "probability" | "loss" | "kl" | "state";

// A prediction: of a token at a position, its logit or the difference of two.
export interface Target {
  position: number;
  token: number;
  label: string;
  against: number;
  against_label: string;
}

export interface Shift {
  id: number;
  text: string;
  label: string;
  p: number;
  before: number;
  logit: number;
  logit_before: number;
}

export interface Effect {
  target: Target;
  value: number | null; // null: the model has no head
  before: number | null;
  loss: number | null;
  loss_before: number | null;
  divergence: number | null;
  state: number;
  has_head: boolean;
  rows: number;
  tokens: Shift[];
}

export interface SweepMap {
  target: Target;
  layers: number;
  columns: number;
  before: number;
  map: (number | null)[][];
}

export interface Attribution {
  target: Target;
  logit: number;
  baseline: number | null; // the sum is compared with logit - baseline; null: with nothing
  sum: number;
  steps: number;
  scores: number[] | null; // the encoder's tokens, then the decoder's
  heads: number[][] | null;
  cross: number[][] | null;
  mlps: number[] | null;
  embedding: number | null;
  rest: number | null;
  map: number[][] | null;
}

export interface LensCell {
  id: number;
  label: string;
  p: number;
}

export interface LogitLens {
  row: number; // the first token
  cells: LensCell[][][]; // [layers + 1][tokens][top]
}

export interface GalleryEntry {
  id: string;
  title: string;
  for: "decoder" | "encoder";
  beside: "decoder" | "encoder" | null; // compared with a model of this kind
  questions: string[];
  // What its head is chosen by, when it is opened.
  shows: { query?: string; key?: string; pattern?: string; distance?: boolean };
  state: Partial<State>;
}

export interface Hello {
  version: string;
  models: Model[];
  training: Training | null;
  start: Partial<State>;
  gallery: GalleryEntry[];
  open_gallery: boolean;
  live: boolean;
  command: string | null; // of a still page: what to type for the live one
  block_cells: number;
  captions: Record<string, string>; // of views, with names in braces
}

export interface Side {
  tokens: string[]; // pieces of the vocabulary
  labels: string[]; // the same as they are shown
  ids: number[];
  part: number[];
  special: number[];
  real: number;
}

export interface Role {
  role: RoleName;
  words: string; // "softmax self-attention of the decoder"
  layers: number;
  heads: number;
  kv_heads: number;
  rows: number;
  keys: number;
  row_labels?: string[]; // of cross-attention: what each step writes, "→ dog"
  row_side: "encoder" | "decoder";
  key_side: "encoder" | "decoder";
  dim: number;
  dim_v: number;
  scale: number;
  causal: boolean;
  window: number;
  real_keys: number;
  signed: boolean;
  bias: boolean;
}

export interface Candidate {
  id: number;
  text: string;
  label: string; // the text as it is shown
  p: number;
}

export interface Step extends Candidate {
  position: number;
  candidates: Candidate[];
  cache_bytes: number;
  length: number;
}

export interface Run {
  run: string;
  case: Case;
  model: Model;
  seconds: number;
  bytes: number;
  sides: { encoder?: Side; decoder?: Side };
  roles: Role[];
  from: Side | null; // the tokens of case.from
  notice: string;
  generated: number;
  steps: Step[];
}

export interface Place {
  role: RoleName;
  layer: number;
  head: number;
}

export interface Patterns {
  names: string[];
  labels: string[];
  about: string[];
  scores: (number | null)[][][];
  does: string[][];
  entropy: number[][];
  rows_looked: number;
  rows: number;
}

export interface Comparison {
  // null: rows cannot be matched; `why` has the reason.
  distance: (number | null)[][] | null;
  entropy: number[][] | null;
  other_entropy: number[][] | null;
  output_error: (number | null)[][] | null;
  hidden_error: number[] | null;
  rows_looked: number;
  rows: number;
  why: string;
}

// All heads of a role, counted by pattern; the last of layers + 1 is all of them.
export interface Summary {
  role: RoleName;
  layers: number;
  heads: number;
  causal: boolean;
  visible: number; // share of pairs of query and key
  counts: number[][]; // [layers + 1][names + 1], the last: no pattern
  entropy: number[];
  broad: (number | null)[];
  later: (number | null)[]; // weight on later tokens
  best: [number, number, number][][]; // by pattern: layer, head, score
  rows_looked: number;
  rows: number;
}

export interface Beside {
  names: string[];
  labels: string[];
  about: string[];
  first: Summary;
  second: Summary;
  depth: [number, number][]; // layers at the same depth
}

// A word in two runs: [first token, tokens].
export interface WordPair {
  why: string;
  word: [number, number];
  other: [number, number];
  same: boolean;
  cosine: number[] | null; // [layers + 1]
  q: number[][] | null; // [layers][heads]
  k: number[][] | null;
  v: number[][] | null;
}

export interface ArgmaxFlow {
  layers: number[][];
  edges: [number, number, number, number][];
}

export interface RolloutFlow {
  layers: [number, number][][];
  links: [number, number, number, number][]; // layer, from, to, share; the largest of a layer first
  rest: number[];
}

export interface Progress {
  done: number | null; // share, from 0 to 1; null: unknown
  what: string;
}

export type Request = Record<string, unknown>;

// Canonical form of a request: the key of the page's cache and of a still file.
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return "[" + value.map(canonical).join(",") + "]";
  if (value && typeof value === "object") {
    const members = value as Record<string, unknown>;
    const names = Object.keys(members)
      .filter((n) => members[n] !== undefined)
      .sort();
    return (
      "{" +
      names
        .map((n) => JSON.stringify(n) + ":" + canonical(members[n]))
        .join(",") +
      "}"
    );
  }
  return JSON.stringify(value);
}
