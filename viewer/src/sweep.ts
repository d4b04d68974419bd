// A sweep: one change in every place by itself. It takes many runs, so it is asked for, its
// progress is shown, and it can be stopped.

import { signal } from "@preact/signals";
import { ask_stream } from "./asking";
import { Kind, Point } from "./changes";
import { canonical, Metric, Progress, Request, Run, SweepMap } from "./protocol";
import { say } from "./state";

export interface SweepState {
  key: string;
  map: SweepMap | null;
  progress: Progress | null;
  error: string;
}

const NOTHING: SweepState = { key: "", map: null, progress: null, error: "" };
export const sweep = signal<SweepState>(NOTHING);
let running: AbortController | null = null;

export interface SweepAsked {
  run: Run; // without changes
  role: string;
  kind: Kind;
  point: Point;
  metric: Metric;
  from: string | null;
  prediction: Request;
}

export function sweep_request(a: SweepAsked): Request {
  return {
    run: a.run.run,
    role: a.role,
    axis: a.point === "head_output" ? "heads" : "tokens",
    change: a.kind === "pin" ? "ablate" : a.kind,
    point: a.point,
    metric: a.metric,
    from: a.kind === "patch" || a.kind === "mean" ? (a.from ?? undefined) : undefined,
    ...a.prediction,
  };
}

export function stop_sweep(): void {
  running?.abort();
  running = null;
  if (sweep.value.progress) say("The sweep was stopped.");
  if (sweep.value.progress) sweep.value = NOTHING;
}

export async function start_sweep(request: Request): Promise<void> {
  const key = canonical(request);
  if (sweep.value.key === key && !sweep.value.error) return;
  running?.abort();
  const mine = (running = new AbortController());
  sweep.value = {
    key,
    map: null,
    progress: { done: null, what: "changing one place after the other" },
    error: "",
  };
  try {
    const map = await ask_stream<SweepMap>(
      "sweep",
      request,
      (progress) => {
        if (!mine.signal.aborted) sweep.value = { ...sweep.value, progress };
      },
      mine.signal,
    );
    if (mine.signal.aborted) return;
    sweep.value = { key, map, progress: null, error: "" };
    say(`The sweep of ${map.layers * map.columns} places is done.`);
  } catch (e) {
    if (mine.signal.aborted) return;
    const error = e instanceof Error ? e.message : String(e);
    sweep.value = { key, map: null, progress: null, error };
  }
}
