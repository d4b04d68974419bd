// The head that a gallery entry opens at: measured on the model that is there, since another
// model does the same in another head.

import { signal } from "@preact/signals";
import {
  ask_binary,
  ask_json,
  other_asked,
  other_run,
  run,
  run_asked,
} from "./asking";
import { canonical, Comparison, GalleryEntry, Patterns, Run } from "./protocol";
import { clamp } from "./numbers";
import { go, place_in, state } from "./state";
import { token_text } from "./token_label";

export interface Found {
  layer: number;
  head: number;
  token?: number;
}

// The entry whose head is still to be chosen.
export const opening = signal<GalleryEntry | null>(null);

// The tokens of a word, where it occurs first.
export function tokens_of(labels: string[], word: string): number[] {
  for (let i = 0; i < labels.length; i++) {
    let text = "";
    for (let j = i; j < labels.length && text.length < word.length; j++) {
      text += token_text(labels[j]);
      if (text.toLowerCase() === word.toLowerCase())
        return Array.from({ length: j - i + 1 }, (_, k) => i + k);
    }
  }
  return [];
}

function largest_of(
  scores: (number | null)[][],
): { layer: number; head: number } | null {
  let best: { layer: number; head: number; score: number } | null = null;
  scores.forEach((heads, layer) =>
    heads.forEach((score, head) => {
      if (score !== null && (!best || score > best.score))
        best = { layer, head, score };
    }),
  );
  return best;
}

// Short texts' thumbnails have a cell for each pair: the weights of all heads at once.
async function by_words(
  r: Run,
  query: string,
  key: string,
): Promise<Found | null> {
  const { role, row_side, key_side } = place_in(r, state.value);
  const from = tokens_of(row_side.labels, query).pop();
  const to = tokens_of(key_side.labels, key);
  if (from === undefined || to.length === 0) return null;
  const size = Math.max(role.rows, role.keys);
  const { parts } = await ask_binary("thumbs", {
    run: r.run,
    role: role.role,
    size: clamp(size, 48, 96),
  });
  const [layers, heads, height, width] = parts.cells.shape;
  if (height !== role.rows || width !== role.keys) return null;
  const score = (layer: number, head: number) => {
    const index = layer * heads + head;
    const row = (index * height + from) * width;
    return to.reduce(
      (sum, k) => sum + parts.cells.data[row + k] * parts.most.data[index],
      0,
    );
  };
  const best = largest_of(
    Array.from({ length: layers }, (_, l) =>
      Array.from({ length: heads }, (_, h) => score(l, h)),
    ),
  );
  return best && { ...best, token: from };
}

async function by_pattern(r: Run, name: string): Promise<Found | null> {
  const { role } = place_in(r, state.value);
  const p = await ask_json<Patterns>("patterns", {
    run: r.run,
    role: role.role,
  });
  const at = p.names.indexOf(name);
  return largest_of(
    p.scores.map((heads) => heads.map((h) => (at < 0 ? null : h[at]))),
  );
}

async function by_distance(r: Run, other: Run): Promise<Found | null> {
  const { role } = place_in(r, state.value);
  const c = await ask_json<Comparison>("compare", {
    run: r.run,
    other: other.run,
    role: role.role,
  });
  return c.distance && largest_of(c.distance);
}

async function found_head(entry: GalleryEntry, r: Run): Promise<Found | null> {
  const { query, key, pattern, distance } = entry.shows;
  if (query && key) return by_words(r, query, key);
  if (pattern) return by_pattern(r, pattern);
  return distance && other_run.value ? by_distance(r, other_run.value) : null;
}

// Called whenever the state or a run changes.
export async function follow_opening(): Promise<void> {
  const entry = opening.value;
  const r = run.value;
  const { case: c, other } = state.value;
  const ready = r && run_asked.value === canonical(c);
  const both = !other || other_asked.value === canonical(other);
  if (!entry || !ready || !both || (other && !other_run.value)) return;
  opening.value = null;
  try {
    const found = await found_head(entry, r);
    if (!found || state.value.case !== c) return;
    go({ heads: [], ...found }, "same");
  } catch {
    // The entry is open at the first head; the view itself says what failed.
  }
}
