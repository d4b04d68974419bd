// Contents of the head view: the weights of its heads in a window of tokens.
//
// A head that fits into one block is requested as a whole, as a recording keeps it.
// For a longer text a window is requested, and the view shows the share of the
// weight outside.

import { ask_binary, hello, run, Scene, useScene } from "./asking";
import { floats } from "./decode";
import { Place, Role, Run } from "./protocol";
import { clamp } from "./numbers";
import { place_in, state } from "./state";

export const WINDOW = 48; // tokens shown at once of a long text
const ALL = 80; // texts up to here are shown whole

interface Range {
  row: number;
  rows: number;
  key: number;
  keys: number;
}

export interface HeadWeights {
  head: number;
  // The weight of a row and key of the window, by their places in the text.
  at: (row: number, key: number) => number;
}

export interface HeadScene {
  run: Run;
  role: Role;
  place: Place;
  range: Range;
  heads: HeadWeights[];
}

export function fits_a_block(role: Role): boolean {
  return role.rows * role.keys <= (hello.value?.block_cells ?? 262144);
}

export async function ask_block(
  r: Run,
  role: Role,
  place: Place,
  range: Range,
  signal?: AbortSignal,
  attention?: string,
): Promise<(row: number, key: number) => number> {
  const asked = fits_a_block(role)
    ? { row: 0, rows: role.rows, key: 0, keys: role.keys }
    : range;
  const form = attention ? { attention } : {};
  const answer = await ask_binary(
    "block",
    { run: r.run, ...place, ...asked, ...form },
    signal,
  );
  const weights = floats(answer, "weights");
  return (row, key) =>
    weights[(row - asked.row) * asked.keys + key - asked.key];
}

// One whole row: the weights of a token on all keys.
export async function ask_row(
  r: Run,
  role: Role,
  place: Place,
  row: number,
  signal?: AbortSignal,
  attention?: string,
): Promise<Float32Array> {
  const range = { row, rows: 1, key: 0, keys: role.keys };
  const at = await ask_block(r, role, place, range, signal, attention);
  return Float32Array.from({ length: role.keys }, (_, key) => at(row, key));
}

function window_at(role: Role, start: number): Range {
  const rows = role.rows <= ALL ? role.rows : WINDOW;
  const keys = role.keys <= ALL ? role.keys : WINDOW;
  const row = clamp(start, 0, role.rows - rows);
  // Keys of the other side have no corresponding position: use the same fraction of
  // the length.
  const same = role.row_side === role.key_side;
  const key = same
    ? row
    : Math.round((row / Math.max(1, role.rows - rows)) * (role.keys - keys));
  return { row, rows, key: clamp(key || 0, 0, role.keys - keys), keys };
}

export function useHeadScene(start: number): Scene<HeadScene> {
  const r = run.value;
  const at = r && place_in(r, state.value);
  const heads = at
    ? heads_shown(at.role.heads, state.value.heads, at.place.head)
    : [];
  const range = at && window_at(at.role, start);
  const key =
    r && at && range
      ? [r.run, at.role.role, at.place.layer, heads.join(), range.row].join()
      : null;
  return useScene(key, async (signal) => ({
    run: r!,
    role: at!.role,
    place: at!.place,
    range: range!,
    heads: await Promise.all(
      heads.map(async (head) => ({
        head,
        at: await ask_block(
          r!,
          at!.role,
          { ...at!.place, head },
          range!,
          signal,
        ),
      })),
    ),
  }));
}

export function heads_shown(
  count: number,
  chosen: number[],
  head: number,
): number[] {
  const valid = chosen.filter((h) => h >= 0 && h < count);
  return valid.length ? [...new Set(valid)].sort((a, b) => a - b) : [head];
}
