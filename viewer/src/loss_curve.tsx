// The loss over the steps of a training run, with the checkpoints marked: a press
// selects the nearest.

import { ticks } from "d3-array";
import { useRef } from "preact/hooks";
import { choose_step, nearest, stop_playing } from "./training";
import { clamp } from "./numbers";
import { head_colour } from "./palette";
import { Training, Point } from "./protocol";
import { theme } from "./state";
import { useWidth } from "./width";

const HEIGHT = 76;
const LEFT = 48;
const RIGHT = 12;
const TOP = 8;
const BOTTOM = 14; // the saved steps stand here
const MUCH = 30; // times the least: powers of ten tell more

interface Axes {
  x: (step: number) => number;
  y: (loss: number) => number;
  step_of: (x: number) => number;
  marks: { at: number; text: string }[];
}

export const valid_colour = () => head_colour(2, theme.value);

function axes_of(c: Training, width: number): Axes {
  const all = [...c.loss, ...c.valid];
  const first = Math.min(c.steps[0], ...all.map((p) => p[0]));
  const last = Math.max(c.steps[c.steps.length - 1], ...all.map((p) => p[0]));
  const least = Math.min(...all.map((p) => p[2]));
  const most = Math.max(...all.map((p) => p[3]));
  const log = least > 0 && most / least > MUCH;
  const of = (v: number) => (log ? Math.log10(Math.max(v, least)) : v);
  const [low, high] = all.length ? [of(least), of(most)] : [0, 1];
  const wide = width - LEFT - RIGHT;
  const span = Math.max(1, last - first);
  const tall = HEIGHT - TOP - BOTTOM;
  const at = (v: number) =>
    TOP + (high > low ? 1 - (v - low) / (high - low) : 0.5) * tall;
  return {
    x: (step) => LEFT + ((step - first) / span) * wide,
    y: (loss) => at(of(loss)),
    step_of: (x) => first + (clamp(x - LEFT, 0, wide) / wide) * span,
    marks: !all.length
      ? []
      : log
        ? powers(low, high)
        : ticks(low, high, 3).map((at) => ({ at, text: round_text(at) })),
  };
}

const round_text = (x: number) => String(Number(x.toPrecision(4)));

function powers(low: number, high: number): Axes["marks"] {
  const every = Math.max(1, Math.ceil((high - low) / 3));
  const out: Axes["marks"] = [];
  for (let p = Math.floor(high); p >= low; p -= every)
    out.push({
      at: 10 ** p,
      text: Math.abs(p) > 3 ? `1e${p}`.replace("-", "−") : String(10 ** p),
    });
  return out;
}

function spot(a: Axes, step: number, loss: number): string {
  return `${a.x(step).toFixed(1)},${a.y(loss).toFixed(1)}`;
}

function line(points: Point[], a: Axes): string {
  return points
    .map((p, i) => (i ? "L" : "M") + spot(a, p[0], p[1]))
    .join("");
}

// The range of each segment.
function band(points: Point[], a: Axes): string {
  const along = (which: 2 | 3, list: Point[]) =>
    list.map((p) => spot(a, p[0], p[which]));
  return (
    "M" +
    [...along(3, points), ...along(2, [...points].reverse())].join("L") +
    "Z"
  );
}

export function LossCurve({ training, step }: { training: Training; step: number }) {
  const { box, width } = useWidth(600);
  const held = useRef(false);
  const a = axes_of(training, width);
  const choose = (e: PointerEvent, how: "step" | "same") => {
    const left = (e.currentTarget as Element).getBoundingClientRect().left;
    stop_playing();
    const at = nearest(training.steps, a.step_of(e.clientX - left));
    choose_step(training.steps[at], how);
  };
  const here = a.x(step);
  return (
    <div ref={box} class="loss-box">
      <svg
        width={width}
        height={HEIGHT}
        class="plot loss-curve"
        role="img"
        aria-label={`Loss over ${training.steps.length} saved steps; step ${step} is chosen`}
        data-test="loss-curve"
        onPointerDown={(e) => {
          held.current = true;
          e.currentTarget.setPointerCapture(e.pointerId);
          choose(e, "step");
        }}
        onPointerMove={(e) => held.current && choose(e, "same")}
        onPointerUp={() => (held.current = false)}
        onPointerCancel={() => (held.current = false)}
      >
        {a.marks.map((m) => (
          <g key={m.at}>
            <line
              x1={LEFT}
              x2={width - RIGHT}
              y1={a.y(m.at)}
              y2={a.y(m.at)}
              class="plot-grid"
            />
            <text
              x={LEFT - 8}
              y={a.y(m.at) + 4}
              class="plot-text"
              text-anchor="end"
            >
              {m.text}
            </text>
          </g>
        ))}
        {training.loss.length > 1 && (
          <path d={band(training.loss, a)} class="loss-band" />
        )}
        <path d={line(training.loss, a)} class="plot-line" />
        {training.valid.map((p) => (
          <circle
            key={p[0]}
            cx={a.x(p[0])}
            cy={a.y(p[1])}
            r={2.6}
            fill={valid_colour()}
          />
        ))}
        {training.steps.map((s) => (
          <line
            key={s}
            x1={a.x(s)}
            x2={a.x(s)}
            y1={HEIGHT - BOTTOM + 4}
            y2={HEIGHT - 4}
            class={s === training.best ? "loss-step best" : "loss-step"}
          />
        ))}
        <line
          x1={here}
          x2={here}
          y1={TOP - 4}
          y2={HEIGHT - 2}
          class="loss-here"
        />
      </svg>
    </div>
  );
}
