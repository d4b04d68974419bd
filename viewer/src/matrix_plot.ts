// Draws a matrix: tiles, hatched masks, token labels and the marked cell, in
// one canvas.
//
// Everything is drawn in one requestAnimationFrame without reading the layout: size,
// colours and labels are known before.

import { tickStep } from "d3-array";
import { Camera } from "./camera";
import { hatch, is_masked, mask_path, masks_of } from "./masks";
import { ink_over, Inks, Scale, Theme } from "./palette";
import { TILE } from "./pooling";
import { Tile, TileStore } from "./tiles";
import { row_labels, token_fitted, token_text } from "./token_label";

export interface PlotColours {
  background: string;
  ink: string;
  faint: string;
  grid: string;
  accent: string;
  masked: string;
  hatch: string;
}

const LABEL_PIXELS = 11; // tokens are written where a row is at least this tall
const NUMBER_PIXELS = 30; // weights are written into cells of at least this size
const FONT = "12px system-ui, sans-serif";
const TILT = Math.PI / 3; // of the keys' names
const AXIS = 18; // pixels of an axis' name
const MEASURED = 600; // names; a longer text has numbers at first

function cell_text(x: number): string {
  const text = Math.abs(x).toFixed(2);
  return text === "0.00" ? "0" : (x < 0 ? "−" : "") + text;
}

export class MatrixPlot {
  cam: Camera;
  left = 96;
  top = 76;
  mark: { row: number; key: number } | null = null;
  seen: Tile[] = []; // the tiles of the last frame
  inks: Inks;
  private dense = 1;
  private right = 0; // what the last key's name leans out
  private width = 0;
  private height = 0;
  private frame = 0;
  private drawn: number[] = []; // when frames of the present drag were drawn
  private dragging = false;
  private hatches = new Map<string, CanvasPattern>();
  rate = 0; // frames a second of the last drag
  // Plots that move together, including this one.
  beside: MatrixPlot[] = [];

  constructor(
    private canvas: HTMLCanvasElement,
    public store: TileStore,
    private colours: PlotColours,
    theme: Theme,
    public scale: Scale,
    private after: () => void,
  ) {
    this.cam = new Camera(store.spec.role.keys, store.spec.role.rows);
    this.inks = { theme, signed: false, top: 1, scale };
  }

  restyle(colours: PlotColours, theme: Theme, scale: Scale): void {
    this.colours = colours;
    this.hatches.clear();
    this.scale = scale;
    this.inks = { ...this.inks, theme, scale };
    this.redraw();
  }

  // Another head or text: the position is kept if the sizes agree.
  show(store: TileStore): void {
    const { rows, keys } = store.spec.role;
    const same = rows === this.cam.rows && keys === this.cam.keys;
    this.store = store;
    this.make_room();
    if (!same) this.cam = new Camera(keys, rows);
    this.resize_cam();
    if (!same) this.cam.fit();
    this.redraw();
  }

  resize(width: number, height: number): void {
    this.dense = Math.min(2, devicePixelRatio || 1);
    this.width = width;
    this.height = height;
    this.make_room();
    this.canvas.width = Math.round(width * this.dense);
    this.canvas.height = Math.round(height * this.dense);
    this.resize_cam();
    this.redraw();
  }

  private resize_cam(): void {
    this.cam.resize(
      this.width - this.left - this.right,
      this.height - this.top,
    );
  }

  // Names get the room they need, up to a part of the plot.
  private make_room(): void {
    const { run, role } = this.store.spec;
    const c = this.canvas.getContext("2d")!;
    c.font = FONT;
    const longest = (labels: string[]) =>
      labels
        .slice(0, MEASURED)
        .reduce((w, l) => Math.max(w, c.measureText(token_text(l)).width), 28);
    const rows = longest(row_labels(run, role)) + 8;
    const keys = longest(run.sides[role.key_side]!.labels) * Math.sin(TILT);
    this.right = Math.min(40, (keys / Math.tan(TILT)) * 0.9);
    this.left = AXIS + Math.min(rows, Math.max(64, this.width * 0.24));
    this.top = AXIS + 16 + Math.min(keys, Math.max(60, this.height * 0.28));
  }

  // The user moved this plot: linked plots follow.
  moved(): void {
    for (const p of this.beside) {
      if (
        p === this ||
        p.cam.keys !== this.cam.keys ||
        p.cam.rows !== this.cam.rows
      )
        continue;
      p.cam.x = this.cam.x;
      p.cam.y = this.cam.y;
      p.cam.scale = this.cam.scale;
      p.redraw();
    }
    this.redraw();
  }

  redraw(): void {
    if (!this.frame)
      this.frame = requestAnimationFrame((now) => this.draw(now));
  }

  begin_drag(): void {
    this.dragging = true;
    this.drawn = [];
    this.redraw();
  }

  end_drag(): void {
    this.dragging = false;
    const n = this.drawn.length;
    if (n > 2)
      this.rate = ((n - 1) * 1000) / (this.drawn[n - 1] - this.drawn[0]);
  }

  private draw(now: number): void {
    this.frame = 0;
    const c = this.canvas.getContext("2d")!;
    c.setTransform(this.dense, 0, 0, this.dense, 0, 0);
    c.fillStyle = this.colours.background;
    c.fillRect(0, 0, this.canvas.width, this.canvas.height);
    c.save();
    c.translate(this.left, this.top);
    c.beginPath();
    c.rect(0, 0, this.cam.width, this.cam.height);
    c.clip();
    this.draw_tiles(c);
    this.draw_masks(c);
    this.draw_numbers(c);
    c.restore();
    this.draw_axes(c);
    this.draw_labels(c);
    this.draw_mark(c);
    if (this.dragging) {
      this.drawn.push(now);
      this.redraw();
    } else {
      this.after();
    }
  }

  private draw_tiles(c: CanvasRenderingContext2D): void {
    const { cam, store } = this;
    const level = cam.level(store.levels, this.dense);
    const side = TILE * 2 ** level;
    const wanted = [];
    const drawn: [Tile, number, number][] = [];
    const last_x = Math.min(cam.keys - 1, cam.x + cam.width / cam.scale);
    const last_y = Math.min(cam.rows - 1, cam.y + cam.height / cam.scale);
    this.seen = [];
    for (let y = Math.floor(cam.y / side); y * side <= last_y; y++) {
      for (let x = Math.floor(cam.x / side); x * side <= last_x; x++) {
        const tile = store.find({ level, x, y });
        if (tile) this.seen.push(tile);
        else wanted.push({ level, x, y });
        const shown = tile ?? this.coarser(level, x, y);
        if (shown) drawn.push([shown, x, y]);
      }
    }
    this.choose_inks(drawn.map((d) => d[0]));
    c.imageSmoothingEnabled = false;
    for (const [tile, x, y] of drawn) this.draw_tile(c, tile, level, x, y);
    // The whole matrix in one tile is the background while panning.
    const ground = { level: store.levels, x: 0, y: 0 };
    if (!store.find(ground)) wanted.unshift(ground);
    store.want(wanted);
  }

  private coarser(level: number, x: number, y: number): Tile | undefined {
    for (let up = 1; level + up <= this.store.levels; up++) {
      const tile = this.store.find({
        level: level + up,
        x: x >> up,
        y: y >> up,
      });
      if (tile) return tile;
    }
    return undefined;
  }

  // One colour scale for all visible tiles. It grows while panning and is reset when the
  // level changes: means over more cells are smaller.
  private inks_level = -1;
  private own_top = 0;
  private choose_inks(tiles: Tile[]): void {
    if (tiles.length === 0) return;
    const signed = !!this.store.spec.minus || this.store.spec.role.signed;
    let own = 0;
    for (const tile of tiles) own = Math.max(own, tile.top);
    const level = tiles[0].level;
    if (level === this.inks_level && signed === this.inks.signed)
      own = Math.max(own, this.own_top);
    this.inks_level = level;
    const grew = own !== this.own_top;
    this.own_top = own;
    const alike = this.beside.filter(
      (p) => p !== this && !p.store.spec.minus && !this.store.spec.minus,
    );
    const top = alike.reduce((most, p) => Math.max(most, p.own_top), own) || 1;
    if (top !== this.inks.top || signed !== this.inks.signed)
      this.inks = { ...this.inks, top, signed };
    if (grew) for (const p of alike) p.redraw();
  }

  forget_scale(): void {
    this.inks_level = -1;
  }

  private draw_tile(
    c: CanvasRenderingContext2D,
    tile: Tile,
    level: number,
    x: number,
    y: number,
  ): void {
    const { cam } = this;
    const image = this.store.image_of(tile, this.inks);
    const shrink = 2 ** (tile.level - level);
    const cells = TILE / shrink; // of this tile, in the square to be filled
    const from_x = (x - tile.x * shrink) * cells;
    const from_y = (y - tile.y * shrink) * cells;
    const wide = Math.min(cells, tile.width - from_x);
    const tall = Math.min(cells, tile.height - from_y);
    if (wide <= 0 || tall <= 0) return;
    const size = cam.scale * 2 ** tile.level;
    const snap = (v: number) => Math.round(v * this.dense) / this.dense;
    const px = (x * TILE * 2 ** level - cam.x) * cam.scale;
    const py = (y * TILE * 2 ** level - cam.y) * cam.scale;
    c.drawImage(
      image,
      from_x,
      from_y,
      wide,
      tall,
      snap(px),
      snap(py),
      snap(px + wide * size) - snap(px),
      snap(py + tall * size) - snap(py),
    );
  }

  private draw_masks(c: CanvasRenderingContext2D): void {
    const role = this.store.spec.role;
    for (const { id } of masks_of(role)) {
      if (!this.hatches.has(id)) {
        this.hatches.set(
          id,
          hatch(c, id, this.colours.masked, this.colours.hatch),
        );
      }
      c.fillStyle = this.hatches.get(id)!;
      c.fill(mask_path(role, id, this.cam));
    }
  }

  // The weights themselves, where cells are large enough.
  private draw_numbers(c: CanvasRenderingContext2D): void {
    const { cam } = this;
    if (cam.scale < NUMBER_PIXELS) return;
    const { role } = this.store.spec;
    c.font = `${Math.min(12, cam.scale * 0.3)}px system-ui, sans-serif`;
    c.textAlign = "center";
    c.textBaseline = "middle";
    const last_row = Math.min(role.rows, cam.y + cam.height / cam.scale);
    const last_key = Math.min(role.keys, cam.x + cam.width / cam.scale);
    for (let r = Math.max(0, Math.floor(cam.y)); r < last_row; r++) {
      for (let k = Math.max(0, Math.floor(cam.x)); k < last_key; k++) {
        const found = this.value_at(r, k);
        if (!found || found.tile.level > 0 || is_masked(role, r, k)) continue;
        c.fillStyle = ink_over(found.value, this.inks);
        c.fillText(
          cell_text(found.value),
          (k + 0.5 - cam.x) * cam.scale,
          (r + 0.5 - cam.y) * cam.scale,
        );
      }
    }
  }

  private draw_axes(c: CanvasRenderingContext2D): void {
    const { rows, keys } = this.store.spec.axes ?? {
      rows: "queries",
      keys: "keys",
    };
    c.font = "600 12px system-ui, sans-serif";
    c.fillStyle = this.colours.faint;
    c.textBaseline = "middle";
    c.textAlign = "left";
    c.fillText(keys + " →", this.left, AXIS / 2);
    c.save();
    c.translate(AXIS / 2, this.top);
    c.rotate(-Math.PI / 2);
    c.textAlign = "right";
    c.fillText("← " + rows, 0, 0);
    c.restore();
  }

  private draw_labels(c: CanvasRenderingContext2D): void {
    const { cam } = this;
    const { run, role } = this.store.spec;
    const rows = row_labels(run, role);
    const keys = run.sides[role.key_side]!.labels;
    c.font = FONT;
    c.textBaseline = "middle";
    const step =
      cam.scale >= LABEL_PIXELS
        ? 1
        : Math.max(1, tickStep(0, cam.width / cam.scale, cam.width / 56));
    const write = (i: number, labels: string[], room: number) =>
      step === 1 ? token_fitted(c, labels[i], room) : String(i);
    const wide = this.left - AXIS - 8;
    const tall = (this.top - AXIS - 10) / Math.sin(TILT);
    c.textAlign = "right";
    const last_row = Math.min(cam.rows, cam.y + cam.height / cam.scale);
    for (let r = Math.ceil(cam.y / step) * step; r < last_row; r += step) {
      const y = this.top + (r + 0.5 - cam.y) * cam.scale;
      if (y < this.top) continue;
      c.fillStyle =
        this.mark?.row === r ? this.colours.accent : this.colours.faint;
      c.fillText(write(r, rows, wide), this.left - 8, y);
    }
    c.textAlign = "left";
    const last_key = Math.min(cam.keys, cam.x + cam.width / cam.scale);
    for (let k = Math.ceil(cam.x / step) * step; k < last_key; k += step) {
      const x = this.left + (k + 0.5 - cam.x) * cam.scale;
      if (x < this.left) continue;
      c.fillStyle =
        this.mark?.key === k ? this.colours.accent : this.colours.faint;
      c.save();
      c.translate(x, this.top - 8);
      c.rotate(-TILT);
      c.fillText(write(k, keys, tall), 0, 0);
      c.restore();
    }
  }

  private draw_mark(c: CanvasRenderingContext2D): void {
    if (!this.mark) return;
    const { cam } = this;
    const size = Math.max(4, cam.scale);
    const x = this.left + (this.mark.key + 0.5 - cam.x) * cam.scale;
    const y = this.top + (this.mark.row + 0.5 - cam.y) * cam.scale;
    if (
      x < this.left ||
      y < this.top ||
      x > this.left + cam.width ||
      y > this.top + cam.height
    )
      return;
    c.strokeStyle = this.colours.accent;
    c.lineWidth = 1;
    c.globalAlpha = 0.55;
    c.beginPath();
    c.moveTo(this.left, y);
    c.lineTo(x - size / 2, y);
    c.moveTo(x, this.top);
    c.lineTo(x, y - size / 2);
    c.stroke();
    c.globalAlpha = 1;
    c.lineWidth = 2;
    c.strokeRect(x - size / 2, y - size / 2, size, size);
  }

  // The pooled value under a cell, from the finest tile available.
  value_at(row: number, key: number): { value: number; tile: Tile } | null {
    const first = this.cam.level(this.store.levels, this.dense);
    for (let level = first; level <= this.store.levels; level++) {
      const r = Math.floor(row / 2 ** level);
      const k = Math.floor(key / 2 ** level);
      const tile = this.store.find({
        level,
        x: Math.floor(k / TILE),
        y: Math.floor(r / TILE),
      });
      if (tile)
        return {
          value: tile.values[(r % TILE) * tile.width + (k % TILE)],
          tile,
        };
    }
    return null;
  }

  close(): void {
    cancelAnimationFrame(this.frame);
    this.dragging = false;
  }
}
