// Numbers along an axis as lines: by layer, or by relative depth.

import { ticks } from "d3-array";
import { compact_text } from "./numbers";
import { head_colour } from "./palette";
import { theme } from "./state";
import { useWidth } from "./width";

export interface Series {
  name: string;
  points: [number, number][]; // x, y
}

const HEIGHT = 190;
const LEFT = 52;
const RIGHT = 14;
const TOP = 12;
const BOTTOM = 38;

// Two lines are told apart by colour, and by the shape of their points.
export const series_colour = (i: number) =>
  head_colour(i === 0 ? 0 : 1, theme.value);

function Mark({ i, x, y, tip }: { i: number; x: number; y: number; tip: string }) {
  const fill = series_colour(i);
  return i % 2 === 0 ? (
    <circle cx={x} cy={y} r={3.4} fill={fill}>
      <title>{tip}</title>
    </circle>
  ) : (
    <rect x={x - 3} y={y - 3} width={6} height={6} fill={fill}>
      <title>{tip}</title>
    </rect>
  );
}

export function SeriesLegend({ names }: { names: string[] }) {
  return (
    <p class="series-legend">
      {names.map((name, i) => (
        <span key={i}>
          <svg width={14} height={12} aria-hidden="true">
            <Mark i={i} x={7} y={6} tip="" />
          </svg>
          {name}
        </span>
      ))}
    </p>
  );
}

export function LinePlot({
  series,
  x_name,
  y_name,
  x_ends,
  low = 0,
  high,
  marked = NaN,
  test,
  label,
}: {
  series: Series[];
  x_name: string;
  y_name: string;
  x_ends?: [number, number];
  low?: number;
  high?: number;
  marked?: number;
  test: string;
  label: string;
}) {
  const { box, width } = useWidth(320);
  const all = series.flatMap((s) => s.points);
  const ys = all.map((p) => p[1]).filter(Number.isFinite);
  const bottom = Math.min(low, ...ys);
  const top = high ?? (Math.max(...ys, bottom + 1e-9) || 1);
  const [first, last] = x_ends ?? [0, Math.max(1, ...all.map((p) => p[0]))];
  const x = (v: number) =>
    LEFT + ((v - first) / (last - first || 1)) * (width - LEFT - RIGHT);
  const y = (v: number) =>
    TOP + (1 - (v - bottom) / (top - bottom || 1)) * (HEIGHT - TOP - BOTTOM);
  const whole = !x_ends;
  const marks = ticks(first, last, Math.min(12, Math.max(2, width / 60)));
  return (
    <div ref={box} class="line-plot">
      <svg
        width={width}
        height={HEIGHT}
        class="plot"
        role="img"
        aria-label={label}
        data-test={test}
      >
        {ticks(bottom, top, 4).map((t) => (
          <g key={t}>
            <line x1={LEFT} x2={width - RIGHT} y1={y(t)} y2={y(t)} class="plot-grid" />
            <text x={LEFT - 8} y={y(t) + 4} class="plot-text" text-anchor="end">
              {Number(t.toPrecision(4))}
            </text>
          </g>
        ))}
        {marks
          .filter((t) => !whole || Number.isInteger(t))
          .map((t) => (
            <text
              key={t}
              x={x(t)}
              y={HEIGHT - BOTTOM + 16}
              class="plot-text"
              text-anchor="middle"
            >
              {t}
            </text>
          ))}
        <text
          x={(LEFT + width - RIGHT) / 2}
          y={HEIGHT - 5}
          class="plot-text"
          text-anchor="middle"
        >
          {x_name}
        </text>
        <text
          transform={`translate(12 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)`}
          class="plot-text"
          text-anchor="middle"
        >
          {y_name}
        </text>
        {Number.isFinite(marked) && (
          <line
            x1={x(marked)}
            x2={x(marked)}
            y1={TOP}
            y2={HEIGHT - BOTTOM}
            class="loss-here"
          />
        )}
        {series.map((s, i) => (
          <g key={i}>
            <path
              d={s.points
                .filter((p) => Number.isFinite(p[1]))
                .map((p, k) => `${k ? "L" : "M"}${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`)
                .join("")}
              class="plot-line"
              style={{ stroke: series_colour(i) }}
            />
            {s.points
              .filter((p) => Number.isFinite(p[1]))
              .map((p, k) => (
                <Mark
                  key={k}
                  i={i}
                  x={x(p[0])}
                  y={y(p[1])}
                  tip={`${s.name}: ${compact_text(p[1])}`}
                />
              ))}
          </g>
        ))}
      </svg>
    </div>
  );
}
