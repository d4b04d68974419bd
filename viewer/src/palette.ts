// Colours: those of lab/svg/palette.h; tests/unit/test_palette.c compares them.
//
// Weights: even steps of lightness, which stay in order for every kind of colour vision
// and in grey print. Signed numbers: blue above zero, orange below. Heads: colours that
// colour-blind readers can distinguish.

const hex = (words: string): number[] =>
  words.split(" ").map((w) => parseInt(w, 16));

const WEIGHT_LIGHT = hex(
  "fcfcfc c0e6fe 89ceff 50b2fd 2695f0 0777db 0b5bbd 154298 162c6d",
);
const WEIGHT_DARK = hex(
  "17191f 183053 034a83 0068a1 0087bd 06a8d9 52c7e9 9de2f0 ebf6f7",
);
const SIGNED_LIGHT = hex(
  "b34303 d46d22 e99d5b f8cc9a fafafa 9cd3fd 5da5e8 2b74cc 0941ad",
);
const SIGNED_DARK = hex(
  "fec676 d28f45 a25d1f 6d320c 1d1f23 214672 3a75a9 60a8da 9cdaff",
);
const HEADS_LIGHT = (
  "2466c3 eb940c 21914e d572a9 713f10 a36ffa " +
  "e44a03 80acf0 89095c 80bc85 5a2d9c 885c8d"
).split(" ");
const HEADS_DARK = (
  "3f89f4 ffb764 3eb66a fc8bca 9c6231 bc9cfe " +
  "ff794d a6c9ff ba3383 97db9d 7f51cf ae7cb4"
).split(" ");

const STEPS = 256;

// RGBA words, ready to be written into an image's Uint32Array view.
function ramp(stops: number[]): Uint32Array {
  const out = new Uint32Array(STEPS);
  for (let i = 0; i < STEPS; i++) {
    const t = (i / (STEPS - 1)) * (stops.length - 1);
    const s = Math.min(stops.length - 2, Math.floor(t));
    const [r, g, b] = [16, 8, 0].map((bit) => {
      const from = (stops[s] >> bit) & 255;
      return Math.round(
        from + (t - s) * (((stops[s + 1] >> bit) & 255) - from),
      );
    });
    out[i] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  return out;
}

const ramps = {
  light: { weight: ramp(WEIGHT_LIGHT), signed: ramp(SIGNED_LIGHT) },
  dark: { weight: ramp(WEIGHT_DARK), signed: ramp(SIGNED_DARK) },
};

export type Theme = "light" | "dark";
export type Scale = "linear" | "root";

export interface Inks {
  theme: Theme;
  signed: boolean;
  top: number; // the number that gets the last colour
  scale: Scale; // root: the square root of number / top, as in the pictures
}

// The position of a number on its ramp.
function ink_index(value: number, inks: Inks): number {
  const t = inks.top > 0 ? value / inks.top : 0;
  const size = Math.min(1, Math.abs(t));
  const shown = inks.scale === "root" ? Math.sqrt(size) : size;
  if (!inks.signed) return t > 0 ? Math.round(shown * 255) : 0;
  return Math.round(127.5 + (t < 0 ? -shown : shown) * 127.5);
}

function ink_ramp(inks: Inks): Uint32Array {
  return ramps[inks.theme][inks.signed ? "signed" : "weight"];
}

export function ink_css(value: number, inks: Inks): string {
  const word = ink_ramp(inks)[ink_index(value, inks)];
  return `rgb(${word & 255},${(word >> 8) & 255},${(word >> 16) & 255})`;
}

function luminance(word: number): number {
  const part = (bit: number) => {
    const s = ((word >> bit) & 255) / 255;
    return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(0) + 0.7152 * part(8) + 0.0722 * part(16);
}

// Black or white, whichever has more contrast with a number's colour.
export function ink_over(value: number, inks: Inks): string {
  const behind = luminance(ink_ramp(inks)[ink_index(value, inks)]);
  return (behind + 0.05) / 0.05 > 1.05 / (behind + 0.05)
    ? "#000000"
    : "#ffffff";
}

// Paints cells into a canvas of their own size, one pixel a cell.
export function paint_cells(
  canvas: HTMLCanvasElement | OffscreenCanvas,
  values: ArrayLike<number>,
  width: number,
  height: number,
  inks: Inks,
): void {
  canvas.width = width;
  canvas.height = height;
  if (!width || !height) return;
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  const image = context.createImageData(width, height);
  const words = new Uint32Array(image.data.buffer);
  const colours = ink_ramp(inks);
  for (let i = 0; i < words.length; i++)
    words[i] = colours[ink_index(values[i], inks)];
  context.putImageData(image, 0, 0);
}

export function head_colour(head: number, theme: Theme): string {
  const list = theme === "dark" ? HEADS_DARK : HEADS_LIGHT;
  return "#" + list[head % list.length];
}
