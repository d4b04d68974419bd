// The steps of a training run, below every view: the loss, a slider, and a button that
// plays them.

import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import { source } from "./asking";
import { Chip } from "./controls";
import {
  choose_step,
  training_here,
  following,
  measured,
  nearest,
  play,
  playing,
  step_by,
  step_here,
  stop_playing,
} from "./training";
import { Film } from "./film";
import { LossCurve, valid_colour } from "./loss_curve";
import { compact_text, count_text } from "./numbers";
import { Training } from "./protocol";

function Words({ training, step }: { training: Training; step: number }) {
  const loss = measured(training.loss, step);
  const valid = measured(training.valid, step);
  return (
    <span class="training-words" data-test="step-words" data-number={step}>
      step <b>{count_text(step)}</b>
      {step === training.best && " (best)"}
      {loss !== null && (
        <span>
          {" "}
          <span class="swatch" aria-hidden="true" /> loss {compact_text(loss)}
        </span>
      )}
      {valid !== null && (
        <span>
          {" "}
          <span
            class="swatch"
            aria-hidden="true"
            style={{ "--chip": valid_colour() }}
          />{" "}
          validation {compact_text(valid)}
        </span>
      )}
    </span>
  );
}

function Slide({ training, step }: { training: Training; step: number }) {
  const id = useId();
  const at = nearest(training.steps, step);
  const last = training.steps.length - 1;
  return (
    <>
      <button
        type="button"
        class="small"
        aria-label="Previous step"
        disabled={at <= 0}
        onClick={() => step_by(-1)}
      >
        ‹
      </button>
      <label class="hidden" for={id}>
        Training step
      </label>
      <input
        id={id}
        type="range"
        min={0}
        max={last}
        value={at}
        disabled={last === 0}
        aria-valuetext={`step ${step}`}
        data-test="step-slider"
        onInput={(e) => {
          stop_playing();
          choose_step(training.steps[Number(e.currentTarget.value)]);
        }}
      />
      <button
        type="button"
        class="small"
        aria-label="Next step"
        disabled={at >= last}
        onClick={() => step_by(1)}
      >
        ›
      </button>
    </>
  );
}

export function TrainingBar() {
  const film = useSignal(false);
  const training = training_here();
  if (!training) return null;
  const step = step_here();
  const on = playing.value;
  return (
    <section class="training" aria-label="Training steps" data-test="training">
      {film.value && <Film training={training} step={step} />}
      <LossCurve training={training} step={step} />
      <div class="training-tools">
        <button
          type="button"
          class="round"
          data-test="play"
          aria-label={on ? "Stop" : "Play through the steps"}
          title={on ? "Stop" : "Play through the steps"}
          onClick={() => (on ? stop_playing() : void play())}
        >
          {on ? "❚❚" : "▶"}
        </button>
        <Slide training={training} step={step} />
        <Words training={training} step={step} />
        {training.left_out > 0 && (
          <span class="faint hint" data-test="left-out">
            {training.steps.length} of {training.steps.length + training.left_out}{" "}
            steps are in this page
          </span>
        )}
        <span class="training-more">
          {source.live && (
            <Chip
              on={following.value}
              test="follow"
              title="Show each new step as soon as it is saved"
              toggle={() => (following.value = !following.value)}
            >
              follow
            </Chip>
          )}
          <Chip
            on={film.value}
            test="film-toggle"
            title="This head at several steps, side by side"
            toggle={() => (film.value = !film.value)}
          >
            film strip
          </Chip>
        </span>
      </div>
    </section>
  );
}
