// Contents of the neuron view: one query, its keys and values, and the head output.

import { ask_binary, run, useScene } from "./asking";
import { Answer, floats } from "./decode";
import { clamp } from "./numbers";
import { Inks } from "./palette";
import { Place, Role, Run } from "./protocol";
import { place_in, state, theme } from "./state";

const CHUNK = 256; // keys asked for at once of a long text
const WHOLE = 2048; // texts up to here are asked for whole

export interface NeuronScene {
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

function scene_of(
  a: Answer,
  facts: Pick<
    NeuronScene,
    "run" | "role" | "place" | "token" | "first" | "count"
  >,
): NeuronScene {
  const q = floats(a, "q");
  const k = floats(a, "k");
  const v = floats(a, "v");
  const out = floats(a, "out");
  const products = k.map((x, i) => x * q[i % q.length]);
  return {
    ...facts,
    q,
    k,
    v,
    out,
    weights: floats(a, "weights"),
    lse: floats(a, "lse")[0],
    scale: a.header.scale as number,
    form: a.header.form as string,
    top: Math.max(largest_size(q), largest_size(k)),
    top_product: largest_size(products),
    top_v: Math.max(largest_size(v), largest_size(out)),
  };
}

// One query of a head of any run.
export interface Query {
  run: Run;
  role: Role;
  place: Place;
  token: number;
}

export function useNeuronScene(first: number) {
  const r = run.value;
  const at = r && place_in(r, state.value);
  const token = at ? chosen_token(at.role, at.token) : 0;
  return useVectors(
    at ? { run: r, role: at.role, place: at.place, token } : null,
    first,
  );
}

export function useVectors(at: Query | null, first = 0) {
  const r = at?.run;
  const token = at?.token ?? 0;
  const whole = !!at && at.role.keys <= WHOLE;
  const from =
    whole || !at
      ? 0
      : clamp(
          Math.floor(first / (CHUNK / 2)) * (CHUNK / 2),
          0,
          at.role.keys - 1,
        );
  const count = at
    ? whole
      ? at.role.keys
      : Math.min(CHUNK, at.role.keys - from)
    : 0;
  const key =
    r && at
      ? [r.run, at.role.role, at.place.layer, at.place.head, token, from].join()
      : null;
  return useScene(key, async (signal) => {
    const range = { row: token, rows: 1, key: from, keys: count };
    const answer = await ask_binary(
      "vectors",
      { run: r!.run, ...at!.place, ...range },
      signal,
    );
    return scene_of(answer, {
      run: r!,
      role: at!.role,
      place: at!.place,
      token,
      first: from,
      count,
    });
  });
}

// By default the last token, which sees the most keys.
function chosen_token(role: Role, token: number): number {
  return token >= 0
    ? token
    : Math.min(
        role.rows,
        role.row_side === role.key_side ? role.real_keys : role.rows,
      ) - 1;
}

export function vector_inks(top: number): Inks {
  return { theme: theme.value, signed: true, top, scale: "linear" };
}
