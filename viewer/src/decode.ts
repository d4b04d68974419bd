// Binary answers: u32 n | n bytes of JSON header | parts at multiples of 8.
// A part is a typed array over the answer's own bytes where its type allows it.

export interface Part {
  shape: number[];
  data: Float32Array | Int32Array | Uint8Array;
  low: number;
  scale: number;
}

export interface Answer {
  header: Record<string, unknown>;
  parts: Record<string, Part>;
  bytes: number;
}

interface PartHead {
  name: string;
  type: "f32" | "f16" | "u8" | "i32";
  shape: number[];
  at: number;
  low?: number;
  scale?: number;
}

let halves: Float32Array | null = null;

function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function from_halves(source: Uint16Array): Float32Array {
  // 65,536 entries: a table look-up is many times faster than decoding bits.
  if (!halves)
    halves = Float32Array.from({ length: 65536 }, (_, bits) => half(bits));
  const out = new Float32Array(source.length);
  for (let i = 0; i < source.length; i++) out[i] = halves[source[i]];
  return out;
}

export function decode(buffer: ArrayBuffer): Answer {
  if (buffer.byteLength < 4)
    throw new Error("The answer is truncated: it has no header.");
  const n = new DataView(buffer).getUint32(0, true);
  if (4 + n > buffer.byteLength)
    throw new Error("The answer is truncated in its header.");
  const header = JSON.parse(
    new TextDecoder().decode(new Uint8Array(buffer, 4, n)),
  );
  const parts: Record<string, Part> = {};
  for (const p of (header.parts ?? []) as PartHead[]) {
    const count = p.shape.reduce((a, b) => a * b, 1);
    const at = 4 + n + p.at;
    const data =
      p.type === "f32"
        ? new Float32Array(buffer, at, count)
        : p.type === "i32"
          ? new Int32Array(buffer, at, count)
          : p.type === "f16"
            ? from_halves(new Uint16Array(buffer, at, count))
            : new Uint8Array(buffer, at, count);
    parts[p.name] = {
      shape: p.shape,
      data,
      low: p.low ?? 0,
      scale: p.scale ?? 1,
    };
  }
  return { header, parts, bytes: buffer.byteLength };
}

export function floats(answer: Answer, name: string): Float32Array {
  const part = answer.parts[name];
  if (!part) throw new Error(`The answer lacks its part "${name}".`);
  if (part.data instanceof Float32Array) return part.data;
  const out = new Float32Array(part.data.length);
  for (let i = 0; i < out.length; i++)
    out[i] = part.low + part.scale * part.data[i];
  return out;
}

export function bytes_of_base64(text: string): ArrayBuffer {
  const binary = atob(text);
  const out = new Uint8Array(binary.length);
  for (let i = 0; i < out.length; i++) out[i] = binary.charCodeAt(i);
  return out.buffer;
}
