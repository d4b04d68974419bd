// One head at several steps of a training run, as a strip of small maps on one scale.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask_binary, run, run_quietly } from "./asking";
import { Problem } from "./controls";
import { choose_step, stop_playing } from "./training";
import { Answer } from "./decode";
import { Heat } from "./heat";
import { Inks } from "./palette";
import { canonical, Case, Training } from "./protocol";
import { place_in, state, theme } from "./state";

const FRAMES = 12;
const SIZE = 48;

interface Frame {
  step: number;
  thumbs: Answer;
}

function some(steps: number[]): number[] {
  if (steps.length <= FRAMES) return steps;
  return Array.from(
    { length: FRAMES },
    (_, i) => steps[Math.floor((i * (steps.length - 1)) / (FRAMES - 1))],
  );
}

// Frames come one by one: each is a run of its step.
function useFrames(steps: number[], role: string | null) {
  const frames = useSignal<Frame[]>([]);
  const trouble = useSignal("");
  const c: Case = { ...state.value.case, step: -1 };
  const key = role && canonical({ c, role, steps });
  useEffect(() => {
    if (!key) return;
    const mine = new AbortController();
    frames.value = [];
    trouble.value = "";
    void (async () => {
      for (const step of steps) {
        const r = await run_quietly({ ...c, step }, mine.signal);
        const thumbs = await ask_binary(
          "thumbs",
          { run: r.run, role, size: SIZE },
          mine.signal,
        );
        if (mine.signal.aborted) return;
        frames.value = [...frames.value, { step, thumbs }];
      }
    })().catch((e) => {
      if (!mine.signal.aborted)
        trouble.value = e instanceof Error ? e.message : String(e);
    });
    return () => mine.abort();
  }, [key]);
  return { frames: frames.value, trouble: trouble.value };
}

function weights_of(f: Frame, index: number): Float32Array {
  const [, , height, width] = f.thumbs.parts.cells.shape;
  const n = height * width;
  const cells = f.thumbs.parts.cells.data as Uint8Array;
  const most = f.thumbs.parts.most.data[index];
  return Float32Array.from(
    cells.subarray(index * n, (index + 1) * n),
    (x) => (x / 255) * most,
  );
}

export function Film({ training, step }: { training: Training; step: number }) {
  const r = run.value;
  const at = r && place_in(r, state.value);
  const steps = some(training.steps);
  const { frames, trouble } = useFrames(steps, at?.role.role ?? null);
  if (!at) return null;
  const index = at.place.layer * at.role.heads + at.place.head;
  const top = Math.max(
    ...frames.map((f) => f.thumbs.parts.most.data[index] as number),
    1e-9,
  );
  const inks: Inks = {
    theme: theme.value,
    signed: false,
    top,
    scale: "root",
  };
  return (
    <div class="film" data-test="film">
      <p class="faint hint">
        Layer {at.place.layer}, head {at.place.head} at {steps.length} of{" "}
        {training.steps.length} steps, on one scale
        {frames.length < steps.length && !trouble
          ? `: ${frames.length} so far…`
          : "."}
      </p>
      <Problem text={trouble} />
      <div class="film-strip">
        {frames.map((f) => (
          <button
            key={f.step}
            type="button"
            class={f.step === step ? "film-frame chosen" : "film-frame"}
            aria-label={`Step ${f.step}`}
            aria-pressed={f.step === step}
            data-test="film-frame"
            data-step={f.step}
            onClick={() => {
              stop_playing();
              choose_step(f.step, "step");
            }}
          >
            <Heat
              values={weights_of(f, index)}
              rows={f.thumbs.parts.cells.shape[2]}
              columns={f.thumbs.parts.cells.shape[3]}
              inks={inks}
              label=""
              ratio={1}
            />
            <span>{f.step}</span>
          </button>
        ))}
      </div>
    </div>
  );
}
