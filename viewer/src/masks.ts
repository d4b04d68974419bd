// Masked regions of a matrix and their reasons: hatched in the plot, explained in its
// legend.

import { Camera } from "./camera";
import { Role } from "./protocol";

interface Mask {
  id: "causal" | "window" | "padding";
  title: string;
  why: string;
}

export function masks_of(role: Role): Mask[] {
  const out: Mask[] = [];
  if (role.causal) {
    out.push({
      id: "causal",
      title: "causal",
      why: "a token does not attend to later tokens",
    });
  }
  if (role.window > 0) {
    out.push({
      id: "window",
      title: "window",
      why: `a token attends to the ${role.window} nearest tokens only`,
    });
  }
  if (role.real_keys < role.keys) {
    out.push({
      id: "padding",
      title: "padding",
      why: "the text is padded to this length; padding is not attended to",
    });
  }
  return out;
}

export function cross_words(role: Role): string {
  if (role.role !== "cross") return "";
  return (
    "Cross-attention has no causal mask: every token of the decoder sees the whole input" +
    (role.real_keys < role.keys ? ", except its padding." : ".")
  );
}

export function is_masked(
  role: Role,
  row: number,
  key: number,
): Mask["id"] | null {
  const back = row + (role.causal ? role.keys - role.rows : 0) - key;
  if (key >= role.real_keys) return "padding";
  if (role.causal && back < 0) return "causal";
  if (role.window > 0 && (back >= role.window || -back >= role.window))
    return "window";
  return null;
}

// Stripes in a different direction for each reason, so that colour is not needed.
export function hatch(
  context: CanvasRenderingContext2D,
  id: Mask["id"],
  ground: string,
  stripe: string,
): CanvasPattern {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const c = tile.getContext("2d")!;
  c.fillStyle = ground;
  c.fillRect(0, 0, 8, 8);
  c.strokeStyle = stripe;
  c.lineWidth = 1.4;
  const lines =
    id === "causal"
      ? [
          [-2, 2, 2, -2],
          [-2, 10, 10, -2],
          [6, 10, 10, 6],
        ]
      : id === "padding"
        ? [
            [-2, 6, 2, 10],
            [-2, -2, 10, 10],
            [6, -2, 10, 2],
          ]
        : [[0, 4, 8, 4]];
  for (const [x1, y1, x2, y2] of lines) {
    c.beginPath();
    c.moveTo(x1, y1);
    c.lineTo(x2, y2);
    c.stroke();
  }
  return context.createPattern(tile, "repeat")!;
}

// The region of a mask in pixels of the plot. Steps are drawn where they are visible;
// at coarser scales the edge is a straight line.
export function mask_path(role: Role, id: Mask["id"], cam: Camera): Path2D {
  const path = new Path2D();
  const X = (key: number) => (key - cam.x) * cam.scale;
  const Y = (row: number) => (row - cam.y) * cam.scale;
  const right = Math.min(cam.width, X(role.keys));
  const bottom = Math.min(cam.height, Y(role.rows));
  if (id === "padding") {
    path.rect(X(role.real_keys), 0, right - X(role.real_keys), bottom);
    return path;
  }
  const step = Math.max(1, Math.floor(2 / cam.scale));
  const from = Math.floor(cam.y / step) * step;
  const to = Math.min(role.rows, cam.y + cam.height / cam.scale);
  const shift = role.causal ? role.keys - role.rows : 0;
  for (let row = from; row < to; row += step) {
    const tall = Math.min(step * cam.scale, bottom - Y(row));
    if (id === "causal") {
      const left = Math.max(0, X(row + shift + 1));
      if (left < right) path.rect(left, Y(row), right - left, tall);
    } else {
      const old = Math.min(right, X(row + shift - role.window + 1));
      if (old > 0) path.rect(0, Y(row), old, tall);
      const ahead = Math.max(0, X(row + shift + role.window));
      if (!role.causal && ahead < right)
        path.rect(ahead, Y(row), right - ahead, tall);
    }
  }
  return path;
}
