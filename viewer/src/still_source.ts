// Answers from the page's own file, written by `attend view --out page.html`.
//
// The file contains whole heads. Ranges and tiles are computed from them here, so that
// a recording can be zoomed like the live page.

import { Answer, bytes_of_base64, decode, floats, Part } from "./decode";
import { canonical, Case, Hello, Request, Run } from "./protocol";
import type { Source } from "./source";
import { pooled_tile } from "./pooling";

interface Kept {
  type: "json" | "binary";
  data: unknown;
}

interface Still {
  hello: Hello;
  runs: Record<string, Run>;
  answers: Record<string, Kept>;
}

const RANGE = ["row", "rows", "key", "keys"];

// The parts that are sliced by rows and by keys, in answers with ranges.
const CUTS: Record<string, Record<string, [boolean, boolean]>> = {
  block: { weights: [true, true] },
  vectors: {
    q: [true, false],
    k: [false, true],
    v: [false, true],
    out: [true, false],
    lse: [true, false],
    weights: [true, true],
  },
  embeddings: { cosine: [true, true], norm: [true, false] },
};

function cut(part: Part, by: [boolean, boolean], range: number[]): Part {
  const [row, rows, key, keys] = range;
  const [by_row, by_key] = by;
  const height = by_row ? rows : by_key ? keys : part.shape[0];
  const first = by_row ? row : by_key ? key : 0;
  const across = part.shape[1] ?? 1;
  const both = by_row && by_key;
  const width = both ? keys : across;
  const left = both ? key : 0;
  const data = new Float32Array(height * width);
  for (let r = 0; r < height; r++) {
    const at = (first + r) * across + left;
    data.set((part.data as Float32Array).subarray(at, at + width), r * width);
  }
  return {
    shape: part.shape.length > 1 ? [height, width] : [height],
    data,
    low: 0,
    scale: 1,
  };
}

export class StillSource implements Source {
  readonly live = false;
  private decoded = new Map<string, Answer>();

  constructor(private still: Still) {}

  async hello(): Promise<Hello> {
    return { ...this.still.hello, live: false };
  }

  private missing(): Error {
    return new Error(
      `This part needs the live page: ${this.still.hello.command ?? "attend view"}`,
    );
  }

  private kept(name: string, request: Request): Kept | undefined {
    return this.still.answers[
      name + "?" + canonical({ ...request, as: undefined })
    ];
  }

  async json<T>(name: string, request: Request): Promise<T> {
    const kept = this.kept(name, request);
    if (kept?.type !== "json") throw this.missing();
    return kept.data as T;
  }

  async binary(name: string, request: Request): Promise<Answer> {
    const answer = this.exact(name, request) ?? this.sliced(name, request);
    if (answer) return answer;
    if (name === "tile") return this.tile(request);
    throw this.missing();
  }

  private exact(name: string, request: Request): Answer | null {
    const id = name + "?" + canonical({ ...request, as: undefined });
    const known = this.decoded.get(id);
    if (known) return known;
    const kept = this.still.answers[id];
    if (kept?.type !== "binary") return null;
    const answer = decode(bytes_of_base64(kept.data as string));
    this.decoded.set(id, answer);
    return answer;
  }

  private whole_range(name: string, request: Request): Request | null {
    const run = this.still.runs[request.run as string];
    if (!run) return null;
    if (name === "embeddings") {
      const count = (r?: Run) =>
        r?.sides[request.side as "encoder" | "decoder"]?.tokens.length ?? 0;
      const other = this.still.runs[request.other as string];
      const keys = count(other ?? run);
      return { ...request, row: 0, rows: count(run), key: 0, keys };
    }
    const role = run.roles.find((r) => r.role === request.role);
    return role
      ? { ...request, row: 0, rows: role.rows, key: 0, keys: role.keys }
      : null;
  }

  private sliced(name: string, request: Request): Answer | null {
    const cuts = CUTS[name];
    const whole_request = cuts && this.whole_range(name, request);
    const whole = whole_request && this.exact(name, whole_request);
    if (!whole) return null;
    const range = RANGE.map((n) => request[n] as number);
    const parts: Record<string, Part> = {};
    for (const n in whole.parts) {
      if (cuts[n]) parts[n] = cut(whole.parts[n], cuts[n], range);
    }
    return { header: whole.header, parts, bytes: whole.bytes };
  }

  private block_of(
    request: Request,
    run: unknown,
    attention: unknown,
  ): Float32Array {
    const { role, layer, head } = request;
    const asked = this.whole_range("block", {
      run,
      role,
      layer,
      head,
      attention,
    });
    const answer = asked && this.exact("block", asked);
    if (!answer) throw this.missing();
    return floats(answer, "weights");
  }

  private tile(request: Request): Answer {
    const role = this.still.runs[request.run as string]?.roles.find(
      (r) => r.role === request.role,
    );
    if (!role) throw this.missing();
    const minus = request.minus as
      { run: string; attention?: string } | undefined;
    let weights = this.block_of(request, request.run, request.attention);
    if (minus) {
      const other = this.block_of(request, minus.run, minus.attention);
      weights = weights.map((w, i) => w - other[i]);
    }
    const { level, x, y, pool } = request as Record<string, never>;
    const tile = pooled_tile(weights, role.rows, role.keys, level, x, y, pool);
    const cells = {
      shape: [tile.height, tile.width],
      data: tile.values,
      low: 0,
      scale: 1,
    };
    return {
      header: { exact: true, rows_each: 2 ** level },
      parts: { cells },
      bytes: 0,
    };
  }

  get writes(): boolean {
    return Object.values(this.still.runs).some((r) => r.steps.length > 0);
  }

  async stream<T>(name: string, request: Request): Promise<T> {
    const found =
      name === "run"
        ? this.ran(request)
        : name === "generate"
          ? this.wrote(request)
          : null;
    if (found) return found as T;
    return this.json<T>(name, request);
  }

  private ran(request: Request): Run | undefined {
    return Object.values(this.still.runs).find(
      (r) => canonical({ ...r.case, ...request }) === canonical(r.case),
    );
  }

  // The recorded continuation of this prompt, up to the requested length.
  private wrote(request: Request): Run | null {
    const { model, text, step } = request.case as Case;
    const run = Object.values(this.still.runs).find(
      (r) =>
        r.steps.length > 0 &&
        r.case.model === model &&
        r.case.step === step &&
        r.case.text.startsWith(text),
    );
    return run
      ? { ...run, steps: run.steps.slice(0, request.new as number) }
      : null;
  }

  picture(): Promise<Blob> {
    return Promise.reject(this.missing());
  }
}
