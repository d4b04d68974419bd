// A training run: its checkpoints, the selected one, and playing them in order.
//
// The step is part of the case, so it is in the address, and every view follows
// it like any other change of the case.

import { signal } from "@preact/signals";
import { hello, is_asking, problem, progress, run, source } from "./asking";
import { writing } from "./generate_state";
import { Training, Point } from "./protocol";
import { go, say, state } from "./state";

export const training = signal<Training | null>(null);
export const playing = signal(false);
export const following = signal(false); // new steps are shown as they come

const LOOK_AGAIN = 3000; // ms
const A_STEP = 700; // ms at least, so that a viewer can follow

// The training run of the case's model, if it has one.
export function training_here(): Training | null {
  const c = training.value;
  return c && c.model === state.value.case.model ? c : null;
}

export function step_here(): number {
  const { step } = state.value.case;
  return step >= 0 ? step : (run.value?.case.step ?? -1);
}

// The index of the nearest checkpoint.
export function nearest(steps: number[], step: number): number {
  let best = 0;
  steps.forEach((s, i) => {
    if (Math.abs(s - step) < Math.abs(steps[best] - step)) best = i;
  });
  return best;
}

export function choose_step(
  step: number,
  how: "step" | "same" = "same",
): void {
  if (step === state.value.case.step) return;
  go({ case: { ...state.value.case, step } }, how);
}

export function step_by(by: number): void {
  const c = training_here();
  if (!c) return;
  const at = nearest(c.steps, step_here()) + by;
  if (at >= 0 && at < c.steps.length) choose_step(c.steps[at]);
}

// The measurement nearest to a step, no farther than the next point.
export function measured(points: Point[], step: number): number | null {
  if (points.length === 0) return null;
  const at = nearest(
    points.map((p) => p[0]),
    step,
  );
  const near = points[Math.min(points.length - 1, at + 1)][0] - points[at][0];
  const far = Math.abs(points[at][0] - step) > Math.max(1, near);
  return far ? null : points[at][1];
}

// ---- playing ----------------------------------------------------------------

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

function is_shown(step: number): boolean {
  return (
    run.value?.case.step === step &&
    progress.value === null &&
    !writing.value &&
    !is_asking()
  );
}

export function stop_playing(): void {
  playing.value = false;
}

export async function play(): Promise<void> {
  const c = training_here();
  if (!c || playing.value) return;
  playing.value = true;
  if (step_here() === c.steps[c.steps.length - 1]) choose_step(c.steps[0]);
  while (playing.value) {
    await pause(A_STEP);
    const here = step_here();
    const steps = training_here()?.steps;
    if (!steps || problem.value) break;
    if (!is_shown(here)) continue;
    const next = steps[nearest(steps, here) + 1];
    if (!playing.value || next === undefined) break;
    choose_step(next);
  }
  playing.value = false;
}

// ---- a run that is still training ------------------------------------------------

async function look_again(): Promise<void> {
  const before = training.value;
  if (!before || document.visibilityState !== "visible") return;
  let now: Training;
  try {
    now = await source.json<Training>("training", {});
  } catch {
    return; // keep the known steps; the next request reports the error
  }
  if (JSON.stringify(now) === JSON.stringify(before)) return;
  const newest = now.steps[now.steps.length - 1];
  const is_new = !before.steps.includes(newest);
  training.value = now;
  if (is_new) say(`Step ${newest} was saved.`);
  if (is_new && following.value && training_here()) choose_step(newest);
}

export function follow_training(): void {
  training.value = hello.value?.training ?? null;
  if (!training.value) return;
  if (source.live) setInterval(() => void look_again(), LOOK_AGAIN);
  addEventListener("keydown", (e) => {
    const at = e.target as HTMLElement;
    const writes = /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName ?? "");
    if (writes || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "[") step_by(-1);
    if (e.key === "]") step_by(1);
  });
}
