// The visible part of a matrix and its scale: tokens to pixels and back.

import { clamp } from "./numbers";

const LARGEST = 64; // pixels a token

export class Camera {
  x = 0; // the key at the plot's left edge
  y = 0; // the row at its top edge
  scale = 1; // pixels per token
  width = 1; // of the plot, in pixels
  height = 1;

  constructor(
    public keys: number,
    public rows: number,
  ) {}

  get fitting(): number {
    return Math.min(this.width / this.keys, this.height / this.rows, LARGEST);
  }

  fit(): void {
    this.scale = this.fitting;
    this.x = 0;
    this.y = 0;
    this.hold();
  }

  // For the address: position and scale.
  get words(): string {
    if (this.scale <= this.fitting * 1.001) return "";
    return [this.x.toFixed(2), this.y.toFixed(2), this.scale.toPrecision(4)]
      .join(",");
  }

  read(words: string): void {
    const [x, y, scale] = words.split(",").map(Number);
    if (![x, y, scale].every(Number.isFinite)) return;
    this.scale = clamp(scale, this.fitting, LARGEST);
    this.x = x;
    this.y = y;
    this.hold();
  }

  resize(width: number, height: number): void {
    const fitted = this.scale <= this.fitting * 1.001;
    this.width = Math.max(1, width);
    this.height = Math.max(1, height);
    if (fitted) this.fit();
    this.hold();
  }

  zoom(factor: number, at_x: number, at_y: number): void {
    const next = clamp(this.scale * factor, this.fitting, LARGEST);
    this.x += at_x / this.scale - at_x / next;
    this.y += at_y / this.scale - at_y / next;
    this.scale = next;
    this.hold();
  }

  pan(dx: number, dy: number): void {
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
    this.hold();
  }

  show(row: number, key: number): void {
    const across = this.width / this.scale;
    const down = this.height / this.scale;
    if (key < this.x || key >= this.x + across - 1) this.x = key - across / 2;
    if (row < this.y || row >= this.y + down - 1) this.y = row - down / 2;
    this.hold();
  }

  private hold(): void {
    this.x = clamp(this.x, 0, Math.max(0, this.keys - this.width / this.scale));
    this.y = clamp(
      this.y,
      0,
      Math.max(0, this.rows - this.height / this.scale),
    );
  }

  // The row and key under a point of the plot, or null outside the matrix.
  cell(px: number, py: number): { row: number; key: number } | null {
    const key = Math.floor(this.x + px / this.scale);
    const row = Math.floor(this.y + py / this.scale);
    const inside =
      px >= 0 &&
      py >= 0 &&
      px < this.width &&
      py < this.height &&
      key >= 0 &&
      row >= 0 &&
      key < this.keys &&
      row < this.rows;
    return inside ? { row, key } : null;
  }

  // The finest level whose cells are not smaller than a pixel.
  level(levels: number, dense: number): number {
    return clamp(Math.ceil(-Math.log2(this.scale * dense) - 0.01), 0, levels);
  }
}
