// Tiles computed in the page from a whole head, by the rules of the request `tile`.

import { Pool } from "./protocol";

export const TILE = 256; // cells a side, as the program cuts them

interface Cells {
  height: number;
  width: number;
  values: Float32Array;
}

export function pooled_tile(
  weights: Float32Array,
  rows: number,
  keys: number,
  level: number,
  x: number,
  y: number,
  pool: Pool,
): Cells {
  const cell = 2 ** level;
  const top = y * TILE * cell;
  const left = x * TILE * cell;
  const height = Math.max(0, Math.min(TILE, Math.ceil((rows - top) / cell)));
  const width = Math.max(0, Math.min(TILE, Math.ceil((keys - left) / cell)));
  const values = new Float32Array(height * width);
  for (let r = 0; r < height; r++) {
    for (let c = 0; c < width; c++) {
      values[r * width + c] = pooled(
        weights,
        keys,
        top + r * cell,
        Math.min(rows, top + (r + 1) * cell),
        left + c * cell,
        Math.min(keys, left + (c + 1) * cell),
        pool,
      );
    }
  }
  return { height, width, values };
}

function pooled(
  weights: Float32Array,
  keys: number,
  row: number,
  row_end: number,
  key: number,
  key_end: number,
  pool: Pool,
): number {
  let sum = 0;
  let most = 0;
  for (let i = row; i < row_end; i++) {
    for (let j = key; j < key_end; j++) {
      const w = weights[i * keys + j];
      sum += w;
      if (Math.abs(w) > Math.abs(most)) most = w;
    }
  }
  return pool === "max" ? most : sum / ((row_end - row) * (key_end - key));
}
