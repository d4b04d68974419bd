// The steps of a course, below every view: the loss, a slider, and a button that
// walks through them.

import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import { source } from "./asking";
import { Chip } from "./controls";
import {
  choose_step,
  course_here,
  following,
  measured,
  nearest,
  play,
  playing,
  step_by,
  step_here,
  stop_playing,
} from "./course";
import { Film } from "./film";
import { LossCurve, valid_colour } from "./loss_curve";
import { compact_text, count_text } from "./numbers";
import { Course } from "./protocol";

function Words({ course, step }: { course: Course; step: number }) {
  const loss = measured(course.loss, step);
  const valid = measured(course.valid, step);
  return (
    <span class="course-words" data-test="step-words" data-number={step}>
      step <b>{count_text(step)}</b>
      {step === course.best && " (best)"}
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

function Slide({ course, step }: { course: Course; step: number }) {
  const id = useId();
  const at = nearest(course.steps, step);
  const last = course.steps.length - 1;
  return (
    <>
      <button
        type="button"
        class="small"
        aria-label="Step before"
        disabled={at <= 0}
        onClick={() => step_by(-1)}
      >
        ‹
      </button>
      <label class="hidden" for={id}>
        Step of training
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
          choose_step(course.steps[Number(e.currentTarget.value)]);
        }}
      />
      <button
        type="button"
        class="small"
        aria-label="Step after"
        disabled={at >= last}
        onClick={() => step_by(1)}
      >
        ›
      </button>
    </>
  );
}

export function CourseBar() {
  const film = useSignal(false);
  const course = course_here();
  if (!course) return null;
  const step = step_here();
  const on = playing.value;
  return (
    <section class="course" aria-label="Steps of training" data-test="course">
      {film.value && <Film course={course} step={step} />}
      <LossCurve course={course} step={step} />
      <div class="course-tools">
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
        <Slide course={course} step={step} />
        <Words course={course} step={step} />
        {course.left_out > 0 && (
          <span class="faint hint" data-test="left-out">
            {course.steps.length} of {course.steps.length + course.left_out}{" "}
            steps are in this page
          </span>
        )}
        <span class="course-more">
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
