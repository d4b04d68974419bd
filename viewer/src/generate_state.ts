// Decoding, step by step: the tokens generated so far, and the selected step.
//
// The same prompt and seed give the same tokens, so another step requests one more
// token for the same prompt; going back needs no request.

import { signal } from "@preact/signals";
import { remember_run, source } from "./asking";
import { canonical, Case, Request, Run, Step } from "./protocol";
import { say } from "./state";
import { token_text } from "./token_label";

export const sampling = signal({
  temperature: 0,
  top_k: 0,
  top_p: 1,
  seed: 0,
  new: 20,
});
export const steps = signal<Step[]>([]);
export const at_step = signal(-1); // -1: the prompt alone
// Prompt and continuation, once done.
export const written = signal<Run | null>(null);
export const writing = signal(false);
export const trouble = signal("");

let of_what = "";
let of_other_steps = "";
let control: AbortController | null = null;

function identity(c: Case): string {
  const { new: _, ...rest } = sampling.value;
  return canonical({ ...c, ...rest });
}

// Another prompt or other sampling settings: start over. Another checkpoint of a
// training run generates as many tokens from the same prompt.
export function settle_prompt(c: Case): void {
  const id = identity(c);
  if (id === of_what) return;
  const others = identity({ ...c, step: -1 });
  const count = others === of_other_steps ? steps.value.length : 0;
  of_what = id;
  of_other_steps = others;
  stop();
  steps.value = [];
  at_step.value = -1;
  written.value = null;
  trouble.value = "";
  if (count > 0) void ask(c, count, true);
}

export function stop(): void {
  control?.abort();
  control = null;
  writing.value = false;
}

async function ask(c: Case, count: number, follow: boolean): Promise<void> {
  stop();
  const mine = (control = new AbortController());
  writing.value = true;
  trouble.value = "";
  const fresh: Step[] = [];
  try {
    const request = {
      case: c,
      ...sampling.value,
      new: count,
    } as unknown as Request;
    const done = await source.stream<Run>(
      "generate",
      request,
      {
        token: (step) => {
          if (mine.signal.aborted) return;
          fresh.push(step);
          if (fresh.length <= steps.value.length) return;
          steps.value = [...fresh];
          if (follow) at_step.value = fresh.length - 1;
        },
      },
      mine.signal,
    );
    if (mine.signal.aborted) return;
    remember_run(done);
    written.value = done;
    if (done.steps.length) steps.value = done.steps;
    if (follow) at_step.value = steps.value.length - 1;
    const last = steps.value[at_step.value];
    if (last)
      say(`Token: ${token_text(last.label)}, probability ${last.p.toFixed(2)}.`);
  } catch (e) {
    if (!mine.signal.aborted)
      trouble.value = e instanceof Error ? e.message : String(e);
  }
  if (control === mine) stop();
}

export async function step_on(c: Case): Promise<void> {
  if (at_step.value < steps.value.length - 1) {
    at_step.value++;
    return;
  }
  await ask(c, steps.value.length + 1, true);
}

export function step_back(): void {
  if (at_step.value >= 0) at_step.value--;
}

export async function run_on(c: Case): Promise<void> {
  await ask(c, Math.max(1, Math.min(1000, sampling.value.new)), true);
}
