// A course of training: its saved steps, which of them is looked at, and walking
// through them.
//
// The step is part of the case, so it is in the address, and every view follows
// it like any other change of what is run.

import { signal } from "@preact/signals";
import { hello, is_asking, problem, progress, run, source } from "./asking";
import { writing } from "./generate_state";
import { Course, Point } from "./protocol";
import { go, say, state } from "./state";

export const course = signal<Course | null>(null);
export const playing = signal(false);
export const following = signal(false); // new steps are shown as they come

const LOOK_AGAIN = 3000; // ms
const A_STEP = 700; // ms at least, so that an eye can follow

// The course that the case is of, if it is.
export function course_here(): Course | null {
  const c = course.value;
  return c && c.model === state.value.case.model ? c : null;
}

export function step_here(): number {
  const { step } = state.value.case;
  return step >= 0 ? step : (run.value?.case.step ?? -1);
}

// The place of the saved step that is nearest.
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
  const c = course_here();
  if (!c) return;
  const at = nearest(c.steps, step_here()) + by;
  if (at >= 0 && at < c.steps.length) choose_step(c.steps[at]);
}

// What was measured nearest to a step, no farther than the next saved one.
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

// ---- walking ----------------------------------------------------------------

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
  const c = course_here();
  if (!c || playing.value) return;
  playing.value = true;
  if (step_here() === c.steps[c.steps.length - 1]) choose_step(c.steps[0]);
  while (playing.value) {
    await pause(A_STEP);
    const here = step_here();
    const steps = course_here()?.steps;
    if (!steps || problem.value) break;
    if (!is_shown(here)) continue;
    const next = steps[nearest(steps, here) + 1];
    if (!playing.value || next === undefined) break;
    choose_step(next);
  }
  playing.value = false;
}

// ---- a course that goes on ---------------------------------------------------

async function look_again(): Promise<void> {
  const before = course.value;
  if (!before || document.visibilityState !== "visible") return;
  let now: Course;
  try {
    now = await source.json<Course>("course", {});
  } catch {
    return; // what is known stays; whoever asks for more is told why
  }
  if (JSON.stringify(now) === JSON.stringify(before)) return;
  const newest = now.steps[now.steps.length - 1];
  const is_new = !before.steps.includes(newest);
  course.value = now;
  if (is_new) say(`Step ${newest} was saved.`);
  if (is_new && following.value && course_here()) choose_step(newest);
}

export function follow_course(): void {
  course.value = hello.value?.course ?? null;
  if (!course.value) return;
  if (source.live) setInterval(() => void look_again(), LOOK_AGAIN);
  addEventListener("keydown", (e) => {
    const at = e.target as HTMLElement;
    const writes = /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName ?? "");
    if (writes || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "[") step_by(-1);
    if (e.key === "]") step_by(1);
  });
}
