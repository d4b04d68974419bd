// A small plot of one number over steps, with round ticks.

import { ticks } from "d3-array";
import { bytes_text } from "./numbers";

const HEIGHT = 120;
const LEFT = 64;

export function BytesPlot({
  values,
  at,
  width,
  label,
}: {
  values: number[];
  at: number;
  width: number;
  label: string;
}) {
  const most = Math.max(...values, 1);
  const x = (i: number) =>
    LEFT + (i / Math.max(1, values.length - 1)) * (width - 8 - LEFT);
  const y = (bytes: number) => HEIGHT - 18 - (bytes / most) * (HEIGHT - 26);
  const path = values
    .map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(1)},${y(v).toFixed(1)}`)
    .join("");
  // Ticks at round numbers of the unit that bytes_text writes in.
  const unit = 1024 ** Math.min(3, Math.floor(Math.log(most) / Math.log(1024)));
  const marks = ticks(0, most / unit, 3).map((t) => t * unit);
  return (
    <svg
      width={width}
      height={HEIGHT}
      role="img"
      aria-label={label}
      class="plot"
      data-test="bytes-plot"
    >
      {marks.map((t) => (
        <g key={t}>
          <line
            x1={LEFT}
            x2={width - 8}
            y1={y(t)}
            y2={y(t)}
            class="plot-grid"
          />
          <text x={LEFT - 8} y={y(t) + 4} class="plot-text" text-anchor="end">
            {bytes_text(t)}
          </text>
        </g>
      ))}
      <path d={path} class="plot-line" />
      {values[at] !== undefined && (
        <circle cx={x(at)} cy={y(values[at])} r={4} class="plot-dot" />
      )}
      <text x={width - 8} y={HEIGHT - 2} class="plot-text" text-anchor="end">
        steps
      </text>
    </svg>
  );
}
