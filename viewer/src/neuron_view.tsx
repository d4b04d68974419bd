// Inside one head, for one query: from q and k, number by number, to what it gives.

import { useSignal } from "@preact/signals";
import { useId, useMemo, useState } from "preact/hooks";
import { ask_binary, run, useScene } from "./asking";
import { PlaceBar, Problem, Waiting } from "./controls";
import { Answer, floats } from "./decode";
import { is_masked } from "./masks";
import { clamp, count_text, signed_text, weight_text } from "./numbers";
import { Inks } from "./palette";
import { Place, Role, Run } from "./protocol";
import { go, place_in, state, theme } from "./state";
import { Reading, Strip } from "./strip";
import { is_special, TokenLabel, token_text } from "./token_label";

const ROW = 26; // pixels
const SHOWN = 20; // rows in sight
const CHUNK = 256; // keys asked for at once of a long text
const WHOLE = 2048; // texts up to here are asked for whole

interface NeuronScene {
  run: Run;
  role: Role;
  place: Place;
  token: number;
  first: number; // key
  count: number;
  scale: number;
  form: string;
  q: Float32Array;
  k: Float32Array;
  v: Float32Array;
  out: Float32Array;
  weights: Float32Array;
  lse: number;
  top: number; // the largest number of q and k, for one scale
  top_product: number;
  top_v: number;
}

function largest_size(values: Float32Array): number {
  let top = 0;
  for (const x of values) top = Math.max(top, Math.abs(x));
  return top || 1;
}

function scene_of(a: Answer, facts: Pick<NeuronScene, "run" | "role" | "place" | "token" | "first" | "count">): NeuronScene {
  const q = floats(a, "q");
  const k = floats(a, "k");
  const v = floats(a, "v");
  const out = floats(a, "out");
  const products = k.map((x, i) => x * q[i % q.length]);
  return {
    ...facts, q, k, v, out, weights: floats(a, "weights"), lse: floats(a, "lse")[0],
    scale: a.header.scale as number, form: a.header.form as string,
    top: Math.max(largest_size(q), largest_size(k)),
    top_product: largest_size(products), top_v: Math.max(largest_size(v), largest_size(out)),
  };
}

function useNeuronScene(first: number) {
  const r = run.value;
  const at = r && place_in(r, state.value);
  const token = at ? chosen_token(at.role, at.token) : 0;
  const whole = !!at && at.role.keys <= WHOLE;
  const from = whole || !at ? 0 : clamp(Math.floor(first / (CHUNK / 2)) * (CHUNK / 2), 0, at.role.keys - 1);
  const count = at ? (whole ? at.role.keys : Math.min(CHUNK, at.role.keys - from)) : 0;
  const key = r && at ? [r.run, at.role.role, at.place.layer, at.place.head, token, from].join() : null;
  return useScene(key, async (signal) => {
    const range = { row: token, rows: 1, key: from, keys: count };
    const answer = await ask_binary("vectors", { run: r!.run, ...at!.place, ...range }, signal);
    return scene_of(answer, { run: r!, role: at!.role, place: at!.place, token, first: from, count });
  });
}

// Without a choice: the last token, which sees the most.
function chosen_token(role: Role, token: number): number {
  return token >= 0 ? token : Math.min(role.rows, role.row_side === role.key_side ? role.real_keys : role.rows) - 1;
}

function KeyRow({ scene, index, read }: {
  scene: NeuronScene; index: number; read: (r: Reading | null) => void;
}) {
  const { role, token, first, q } = scene;
  const i = index - first;
  const here = i >= 0 && i < scene.count;
  const paper = theme.value;
  const cells = useMemo(() => {
    if (!here) return null;
    const k = scene.k.subarray(i * role.dim, (i + 1) * role.dim);
    const product = k.map((x, d) => x * q[d]);
    return { k, product, dot: product.reduce((a, b) => a + b, 0),
             v: scene.v.subarray(i * role.dim_v, (i + 1) * role.dim_v) };
  }, [scene, index]);
  const side = scene.run.sides[role.key_side]!;
  const masked = is_masked(role, token, index);
  const inks = (top: number): Inks => ({ theme: paper, signed: true, top, scale: "linear" });
  const weight = here ? scene.weights[i] : 0;
  const scaled = cells ? cells.dot * scene.scale : 0;
  return (
    <div class={masked ? "neuron-row masked" : "neuron-row"} role="row" data-test="neuron-row" data-key={index}>
      <span role="rowheader" class="neuron-token">
        <span class="index">{index}</span>
        <TokenLabel token={side.tokens[index]} special={is_special(side, index)} />
      </span>
      {cells && !masked ? (
        <>
          <span role="cell"><Strip values={cells.k} inks={inks(scene.top)} name="k" index={index} read={read} /></span>
          <span role="cell"><Strip values={cells.product} inks={inks(scene.top_product)} name="q×k" index={index} read={read} /></span>
          <span role="cell" class="number" data-test="dot" data-key={index} data-number={cells.dot}>{signed_text(cells.dot, 2)}</span>
          <span role="cell" class="number" data-test="scaled" data-key={index} data-number={scaled}>{signed_text(scaled, 2)}</span>
          {role.bias && <span role="cell" class="number" data-test="bias">
            {weight > 0 ? signed_text(Math.log(weight) + scene.lse - scaled, 2) : "–"}</span>}
          <span role="cell" class="weight-bar" style={{ "--share": `${clamp(Math.abs(weight), 0, 1) * 100}%` }}>
            <span class="number" data-test="weight" data-row={token} data-key={index} data-number={weight}>{weight_text(weight)}</span>
          </span>
          <span role="cell"><Strip values={cells.v} inks={inks(scene.top_v)} name="v" index={index} read={read} /></span>
        </>
      ) : <span role="cell" class="faint masked-words">{masked ? `hidden: ${masked}` : "…"}</span>}
    </div>
  );
}

function QueryChoice({ scene }: { scene: NeuronScene }) {
  const id = useId();
  const { role, token } = scene;
  const tokens = scene.run.sides[role.row_side]!.tokens;
  return (
    <div class="field">
      <label for={id}>Query token</label>
      {role.rows <= 1000 ? (
        <select id={id} value={token} data-test="query" onChange={(e) => go({ token: Number(e.currentTarget.value) })}>
          {tokens.map((t, i) => <option key={i} value={i}>{i} {token_text(t)}</option>)}
        </select>
      ) : (
        <input id={id} type="number" min={0} max={role.rows - 1} value={token} data-test="query"
          onChange={(e) => go({ token: clamp(Number(e.currentTarget.value) || 0, 0, role.rows - 1) })} />
      )}
    </div>
  );
}

function read_words(scene: NeuronScene, r: Reading | null): string {
  if (!r) return "Point at a cell to read its number.";
  const of = r.key < 0 ? "" : ` of “${token_text(scene.run.sides[scene.role.key_side]!.tokens[r.key])}”`;
  return `${r.name}${of}, dimension ${r.dim}: ${signed_text(r.value, 4)}`;
}

export function NeuronView() {
  const scroll = useSignal(0);
  const first_seen = Math.floor(scroll.value / ROW);
  const { value: scene, error } = useNeuronScene(first_seen);
  const [reading, read] = useState<Reading | null>(null);
  if (!scene) return error ? <><PlaceBar /><Problem text={error} /></> : <Waiting />;
  const { role, token } = scene;
  const inks = (top: number): Inks => ({ theme: theme.value, signed: true, top, scale: "linear" });
  const from = clamp(first_seen - 4, 0, role.keys);
  const to = Math.min(role.keys, first_seen + SHOWN + 8);
  const softmax = scene.form.startsWith("softmax");
  return (
    <div class="view neuron-view">
      <PlaceBar><QueryChoice scene={scene} /></PlaceBar>
      <p class="reading" data-test="reading" data-number={reading?.value ?? ""}>{read_words(scene, reading)}</p>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Query, keys and values">
        <div class={role.bias ? "neuron with-bias" : "neuron"}>
          <div class="neuron-row neuron-q">
            <span class="neuron-token"><b>q</b> <TokenLabel token={scene.run.sides[role.row_side]!.tokens[token]} /></span>
            <Strip values={scene.q} inks={inks(scene.top)} name="q" index={-1} read={read} test="strip-q"
              label={`q of token ${token}, ${role.dim} numbers`} />
          </div>
          <div role="table" aria-rowcount={role.keys + 1}
            aria-label={`Query ${token}: products with ${count_text(role.keys)} keys`}>
            <div class="neuron-row neuron-head" role="row">
              <span role="columnheader">key</span><span role="columnheader">k</span>
              <span role="columnheader">q × k</span><span role="columnheader" class="right">q · k</span>
              <span role="columnheader" class="right" title={`times ${scene.scale}`}>scaled</span>
              {role.bias && <span role="columnheader" class="right">bias</span>}
              <span role="columnheader" class="right">{softmax ? "softmax" : "weight"}</span>
              <span role="columnheader">v</span>
            </div>
            <div class="neuron-scroll" role="rowgroup" tabIndex={0} aria-label="Keys"
              style={{ maxHeight: SHOWN * ROW + "px" }}
              onScroll={(e) => (scroll.value = e.currentTarget.scrollTop)}>
              <div class="neuron-space" role="presentation" style={{ height: role.keys * ROW + "px", paddingTop: from * ROW + "px" }}>
                {Array.from({ length: to - from }, (_, i) => (
                  <KeyRow key={from + i} scene={scene} index={from + i} read={read} />
                ))}
              </div>
            </div>
          </div>
          <div class="neuron-row neuron-out">
            <span class="neuron-token"><b>out</b></span>
            <span class="out-words faint">the sum of every v times its weight{softmax ? "" : ` (${scene.form})`}</span>
            <Strip values={scene.out} inks={inks(scene.top_v)} name="out" index={-1} read={read} test="strip-out"
              label={`What the head gives, ${role.dim_v} numbers`} />
          </div>
        </div>
      </div>
      <p class="faint hint">
        Scores are q · k times {signed_text(scene.scale, 4)}{role.bias ? ", and the bias of the distance," : ""}
        {softmax ? ` and their softmax is the weight: exp(score − ${signed_text(scene.lse, 3)}).` : `; the weights are those of ${scene.form}.`}
        {" "}Colours reach ±{signed_text(scene.top, 1)} for q and k, ±{signed_text(scene.top_product, 1)} for
        products, ±{signed_text(scene.top_v, 1)} for v.
      </p>
    </div>
  );
}
