// Tiles of one head's matrix: fetched when visible, painted once, evicted when there are
// too many.
//
// Level l has cells of 2^l tokens a side. A short text's tiles are pooled in
// the page from the whole head; a long one's come from the program.

import { ask_tile, source } from "./asking";
import { floats } from "./decode";
import { ask_block, fits_a_block } from "./head_scene";
import { Inks, paint_cells } from "./palette";
import { pooled_tile, TILE } from "./pooling";
import { Place, Pool, Progress, Request, Role, Run } from "./protocol";

// Half a MiB each, numbers and picture together: well under 100 MiB in all.
const MOST_TILES = 160;
const AT_ONCE = 4;

export interface TileSpec {
  run: Run;
  role: Role;
  place: Place;
  pool: Pool;
  attention?: string;
  minus?: { run: Run; attention?: string };
  // Numbers other than weights (cosines): all of them, and their name.
  axes?: { rows: string; keys: string }; // else queries and keys
  given?: { id: string; values: () => Promise<Float32Array> };
}

export interface Tile {
  level: number;
  x: number;
  y: number;
  height: number;
  width: number;
  values: Float32Array;
  sampled: boolean; // not every row was looked at
  precise: boolean; // numbers as computed, not rounded to a byte
  top: number; // the largest size of a value
  image: HTMLCanvasElement;
  painted: string; // the inks it was painted with
}

interface Spot {
  level: number;
  x: number;
  y: number;
}

const name_of = (s: Spot) => `${s.level}/${s.x}/${s.y}`;

export function spec_key(spec: TileSpec): string {
  const { run, place, pool, attention, minus } = spec;
  return [
    run.run,
    place.role,
    place.layer,
    place.head,
    pool,
    attention,
    minus?.run.run,
    minus?.attention,
    spec.given?.id,
  ].join();
}

export class TileStore {
  readonly levels: number; // the last level shows everything in one tile
  private tiles = new Map<string, Tile>();
  private queue: Spot[] = [];
  private underway = new Map<string, AbortController>();
  private whole: Promise<Float32Array> | null = null;
  // Not requested again: every redraw would repeat the request.
  private failed = new Set<string>();
  error = "";

  constructor(
    readonly spec: TileSpec,
    private changed: () => void,
  ) {
    const longest = Math.max(spec.role.rows, spec.role.keys);
    this.levels = Math.max(0, Math.ceil(Math.log2(longest / TILE)));
  }

  get bytes(): number {
    return this.tiles.size * TILE * TILE * 8;
  }

  get count(): number {
    return this.tiles.size;
  }

  find(spot: Spot): Tile | undefined {
    const id = name_of(spot);
    const tile = this.tiles.get(id);
    if (tile) {
      this.tiles.delete(id); // to the young end
      this.tiles.set(id, tile);
    }
    return tile;
  }

  // Visible tiles that are missing, by priority; tiles that are no longer visible are
  // dropped.
  want(spots: Spot[]): void {
    const names = new Set(spots.map(name_of));
    for (const [id, control] of this.underway) {
      if (!names.has(id)) {
        control.abort();
        this.underway.delete(id);
      }
    }
    this.queue = spots.filter((s) => {
      const id = name_of(s);
      return (
        !this.tiles.has(id) && !this.underway.has(id) && !this.failed.has(id)
      );
    });
    this.pump();
  }

  private pump(): void {
    while (this.queue.length && this.underway.size < AT_ONCE)
      void this.fetch(this.queue.shift()!);
  }

  private async fetch(spot: Spot): Promise<void> {
    const id = name_of(spot);
    const control = new AbortController();
    this.underway.set(id, control);
    try {
      this.put(await this.load(spot, false, control.signal));
    } catch (e) {
      if (control.signal.aborted) return;
      this.error = e instanceof Error ? e.message : String(e);
      this.failed.add(id);
    } finally {
      if (this.underway.get(id) === control) this.underway.delete(id);
    }
    this.changed();
    this.pump();
  }

  private put(tile: Tile): void {
    this.tiles.set(name_of(tile), tile);
    for (const oldest of this.tiles.keys()) {
      if (this.tiles.size <= MOST_TILES) break;
      this.tiles.delete(oldest);
    }
  }

  private get local(): boolean {
    const { role, minus, given } = this.spec;
    if (given) return true;
    const other = minus?.run.roles.find((r) => r.role === role.role);
    return fits_a_block(role) && (!other || fits_a_block(other));
  }

  private request(spot: Spot, exact: boolean): Request {
    const { run, place, pool, attention, minus } = this.spec;
    return {
      run: run.run,
      ...place,
      level: spot.level,
      x: spot.x,
      y: spot.y,
      pool,
      exact,
      ...(attention ? { attention } : {}),
      ...(minus
        ? {
            minus: {
              run: minus.run.run,
              ...(minus.attention ? { attention: minus.attention } : {}),
            },
          }
        : {}),
    };
  }

  private async whole_head(): Promise<Float32Array> {
    const { run, role, place, attention, minus } = this.spec;
    const range = { row: 0, rows: role.rows, key: 0, keys: role.keys };
    const mine = await ask_block(run, role, place, range, undefined, attention);
    const other =
      minus &&
      (await ask_block(
        minus.run,
        role,
        place,
        range,
        undefined,
        minus.attention,
      ));
    const out = new Float32Array(role.rows * role.keys);
    for (let i = 0, row = 0; row < role.rows; row++) {
      for (let key = 0; key < role.keys; key++, i++) {
        out[i] = mine(row, key) - (other ? other(row, key) : 0);
      }
    }
    return out;
  }

  private async load(
    spot: Spot,
    exact: boolean,
    signal?: AbortSignal,
  ): Promise<Tile> {
    const { role, pool } = this.spec;
    if (this.local) {
      this.whole ??= this.spec.given
        ? this.spec.given.values()
        : this.whole_head();
      const cells = pooled_tile(
        await this.whole,
        role.rows,
        role.keys,
        spot.level,
        spot.x,
        spot.y,
        pool,
      );
      return made({ ...spot, ...cells, sampled: false, precise: true });
    }
    const answer = await ask_tile(this.request(spot, exact), signal);
    const [height, width] = answer.parts.cells.shape;
    return made({
      ...spot,
      height,
      width,
      values: floats(answer, "cells"),
      sampled:
        answer.header.exact !== true &&
        (answer.header.rows_each as number) < 2 ** spot.level,
      precise: !(answer.parts.cells.data instanceof Uint8Array),
    });
  }

  async refine(
    spots: Spot[],
    tell: (p: Progress, tile: number) => void,
    signal: AbortSignal,
  ): Promise<void> {
    for (let i = 0; i < spots.length && !signal.aborted; i++) {
      await source.stream(
        "refine",
        this.request(spots[i], true),
        { progress: (p) => tell(p, i) },
        signal,
      );
      this.put(await this.load(spots[i], true, signal));
      this.changed();
    }
  }

  image_of(tile: Tile, inks: Inks): HTMLCanvasElement {
    const key = [inks.theme, inks.signed, inks.top, inks.scale].join();
    if (tile.painted !== key) {
      paint_cells(tile.image, tile.values, tile.width, tile.height, inks);
      tile.painted = key;
    }
    return tile.image;
  }

  close(): void {
    for (const control of this.underway.values()) control.abort();
    this.underway.clear();
    this.queue = [];
    this.tiles.clear();
    this.whole = null;
  }
}

function made(t: Omit<Tile, "top" | "image" | "painted">): Tile {
  let top = 0;
  for (const v of t.values) top = Math.max(top, Math.abs(v));
  return { ...t, top, image: document.createElement("canvas"), painted: "" };
}
