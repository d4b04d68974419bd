// Requests to the source: one cache for the page, runs on demand, scenes for the
// views.
//
// A scene is everything that a view draws, fetched together and replaced
// together: while the next one loads, the old picture stays, complete and
// consistent.

import { batch, signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { Answer } from "./decode";
import { canonical, Case, Hello, Progress, Request, Run } from "./protocol";
import { GoneError, open_source } from "./source";
import { say, state } from "./state";

export const source = open_source();
export const hello = signal<Hello | null>(null);
// The run of the state's case; the previous run while that one loads.
export const run = signal<Run | null>(null);
export const other_run = signal<Run | null>(null); // of the state's other case
// The case of `run`, in canonical form.
export const run_asked = signal("");
export const other_asked = signal("");
export const progress = signal<Progress | null>(null);
export const problem = signal("");
export const other_problem = signal("");

const CACHE_BYTES = 64 << 20;
const cache = new Map<string, { value: unknown; bytes: number }>();
let cached = 0;

export const cache_bytes = () => cached;

function keep(id: string, value: unknown, bytes: number): void {
  cache.set(id, { value, bytes });
  cached += bytes;
  for (const [oldest, entry] of cache) {
    if (cached <= CACHE_BYTES || oldest === id) break;
    cache.delete(oldest);
    cached -= entry.bytes;
  }
}

async function once<T>(
  id: string,
  bytes_of: (value: T) => number,
  fetch_it: () => Promise<T>,
): Promise<T> {
  const known = cache.get(id);
  if (known) {
    cache.delete(id); // to the young end
    cache.set(id, known);
    return known.value as T;
  }
  const value = await fetch_it();
  if (!cache.has(id)) keep(id, value, bytes_of(value));
  return value;
}

// Runs by id, the newest last; most of their memory is tokens.
const runs = new Map<string, Run>();
const RUN_TOKENS = 400_000;

// A run that the program evicted is run again, once, and the request repeated.
async function despite_gone<T>(
  request: Request,
  ask: () => Promise<T>,
): Promise<T> {
  questions++;
  try {
    return await ask();
  } catch (e) {
    const minus = request.minus as Request | undefined;
    const ids = [request.run, request.other, request.before, minus?.run].filter(
      (id) => typeof id === "string",
    );
    const known = ids
      .map((id) => runs.get(id as string))
      .filter((r) => r !== undefined);
    if (!(e instanceof GoneError) || known.length === 0) throw e;
    for (const r of known) await revive(r);
    return await ask();
  } finally {
    questions--;
  }
}

let questions = 0;
export const is_asking = () => questions > 0;

// Several tiles may find the same run evicted: it is run again once.
const reviving = new Map<string, Promise<unknown>>();

function revive(r: Run): Promise<unknown> {
  const underway =
    reviving.get(r.run) ??
    source
      .stream<Run>("run", r.case as unknown as Request, {})
      .finally(() => reviving.delete(r.run));
  reviving.set(r.run, underway);
  return underway;
}

export function ask_json<T>(
  name: string,
  request: Request,
  signal?: AbortSignal,
): Promise<T> {
  return once(
    name + "?" + canonical(request),
    (value) => JSON.stringify(value).length,
    () => despite_gone(request, () => source.json<T>(name, request, signal)),
  );
}

export function ask_binary(
  name: string,
  request: Request,
  signal?: AbortSignal,
): Promise<Answer> {
  return once(
    name + "?" + canonical(request),
    (value) => value.bytes,
    () => despite_gone(request, () => source.binary(name, request, signal)),
  );
}

// A long request, with its progress.
export function ask_stream<T>(
  name: string,
  request: Request,
  tell: (p: Progress) => void,
  signal?: AbortSignal,
): Promise<T> {
  return once(
    name + "?" + canonical(request),
    (value) => JSON.stringify(value).length,
    () =>
      despite_gone(request, () =>
        source.stream<T>(name, request, { progress: tell }, signal),
      ),
  );
}

// Tiles have their own cache, of rendered images.
export function ask_tile(
  request: Request,
  signal?: AbortSignal,
): Promise<Answer> {
  return despite_gone(request, () => source.binary("tile", request, signal));
}

function tokens_of(r: Run): number {
  return (
    (r.sides.encoder?.tokens.length ?? 0) +
    (r.sides.decoder?.tokens.length ?? 0)
  );
}

export function remember_run(r: Run): void {
  runs.delete(r.run);
  runs.set(r.run, r);
  let total = 0;
  for (const kept of runs.values()) total += tokens_of(kept);
  for (const [id, oldest] of runs) {
    if (total <= RUN_TOKENS || id === r.run) break;
    runs.delete(id);
    total -= tokens_of(oldest);
  }
}

// By the requested case: a run's own case also contains generated text.
const asked_runs = new Map<string, string>();
const MOST_ASKED = 40;

function run_of(c: Case): Run | undefined {
  return runs.get(asked_runs.get(canonical(c)) ?? "");
}

function run_case(c: Case, signal: AbortSignal): Promise<Run> {
  return run_telling(c, signal, (p) => {
    if (!signal.aborted) progress.value = p;
  });
}

// In the background: the page does not wait for it.
export function run_quietly(c: Case, signal: AbortSignal): Promise<Run> {
  return run_telling(c, signal, () => {});
}

async function run_telling(
  c: Case,
  signal: AbortSignal,
  tell: (p: Progress) => void,
): Promise<Run> {
  const known = run_of(c);
  if (known) return known;
  const got = await source.stream<Run>(
    "run",
    c as unknown as Request,
    { progress: tell },
    signal,
  );
  remember_run(got);
  asked_runs.set(canonical(c), got.run);
  if (asked_runs.size > MOST_ASKED)
    asked_runs.delete(asked_runs.keys().next().value!);
  return got;
}

function sentence_of(e: unknown): string {
  return e instanceof Error ? e.message : String(e);
}

let running: AbortController | null = null;

export function cancel_run(): void {
  running?.abort();
  running = null;
  progress.value = null;
  say("Stopped.");
}

let asking_case = "";

// Called whenever the state changes; acts only if its case changed.
export async function follow_case(): Promise<void> {
  const c = state.value.case;
  const id = canonical(c);
  if (id === asking_case) return;
  asking_case = id;
  running?.abort();
  const mine = (running = new AbortController());
  if (!c.text.trim()) {
    problem.value = "There is no text: write one above.";
    progress.value = null;
    return;
  }
  progress.value = run_of(c)
    ? null
    : { done: null, what: "Running the model" };
  if (progress.value) say("Running the model.");
  try {
    const got = await run_case(c, mine.signal);
    if (mine.signal.aborted) return;
    batch(() => {
      run.value = got;
      run_asked.value = id;
    });
    problem.value = "";
    say(described(got));
  } catch (e) {
    if (mine.signal.aborted) return;
    problem.value = sentence_of(e);
    say(problem.value);
  }
  if (running === mine) {
    progress.value = null;
    running = null;
  }
}

export function ask_again(): void {
  asking_case = "";
  void follow_case();
}

// Views that show another run beside the first.
const BESIDE = ["compare", "neuron", "embeddings"];

let asking_other = "";
let other_running: AbortController | null = null;

export async function follow_other(): Promise<void> {
  const c = BESIDE.includes(state.value.view) ? state.value.other : null;
  const id = c ? canonical(c) : "";
  if (id === asking_other) return;
  asking_other = id;
  other_running?.abort();
  other_running = null;
  other_problem.value = "";
  if (!c || !c.text.trim()) {
    other_run.value = null;
    return;
  }
  const mine = (other_running = new AbortController());
  try {
    const got = await run_case(c, mine.signal);
    if (mine.signal.aborted) return;
    batch(() => {
      other_run.value = got;
      other_asked.value = id;
    });
    if (!running) progress.value = null;
  } catch (e) {
    if (mine.signal.aborted) return;
    other_problem.value = sentence_of(e);
    if (!running) progress.value = null;
  }
}

function described(r: Run): string {
  const lengths = r.roles
    .map((x) => `${x.role} ${x.rows} by ${x.keys}`)
    .join(", ");
  if (r.model.tensors) return `${r.model.name}: ${lengths} tokens.`;
  return `${r.model.name} ran in ${r.seconds.toFixed(2)} seconds: ${lengths} tokens.`;
}

export interface Scene<T> {
  value: T | null; // the latest whole scene, maybe of an earlier key
  fresh: boolean; // it is the one asked for
  error: string;
}

// null key: nothing to show yet.
export function useScene<T>(
  key: string | null,
  load: (signal: AbortSignal) => Promise<T>,
): Scene<T> {
  const [scene, set_scene] = useState<{
    value: T | null;
    key: string | null;
    error: string;
  }>({ value: null, key: null, error: "" });
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    if (key === null) return;
    const mine = new AbortController();
    latest.current(mine.signal).then(
      (value) => {
        if (!mine.signal.aborted) set_scene({ value, key, error: "" });
      },
      (e) => {
        if (mine.signal.aborted) return;
        set_scene({ value: null, key, error: sentence_of(e) });
      },
    );
    return () => mine.abort();
  }, [key]);
  return {
    value: scene.value,
    fresh: scene.key === key && !scene.error,
    error: scene.error,
  };
}
