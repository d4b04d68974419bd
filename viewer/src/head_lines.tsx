// The lines between two columns of tokens: opacity is weight, colour is the
// head.

import { useLayoutEffect, useRef } from "preact/hooks";

export interface Line {
  from: number; // row within the window
  to: number; // key within the window
  weight: number;
  colour: string;
}

// An SVG element per line is slow: above this number they are painted on a canvas.
const SVG_LINES = 1200;

interface Box {
  lines: Line[];
  step: number; // pixels from token to token
  width: number;
  height: number;
  label: string;
}

function Painted({ lines, step, width, height, label }: Box) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const c = canvas.current!;
    const dense = Math.min(2, devicePixelRatio || 1);
    c.width = width * dense;
    c.height = height * dense;
    const context = c.getContext("2d")!;
    context.scale(dense, dense);
    context.lineWidth = 1.5;
    for (const l of lines) {
      context.globalAlpha = Math.min(1, Math.abs(l.weight));
      context.strokeStyle = l.colour;
      context.beginPath();
      context.moveTo(0, (l.from + 0.5) * step);
      context.lineTo(width, (l.to + 0.5) * step);
      context.stroke();
    }
  }, [lines, step, width, height]);
  return (
    <canvas
      ref={canvas}
      role="img"
      aria-label={label}
      data-test="lines-canvas"
      style={{ width: width + "px", height: height + "px" }}
    />
  );
}

export function Lines(box: Box) {
  const { lines, step, width, height, label } = box;
  if (lines.length > SVG_LINES) return <Painted {...box} />;
  return (
    <svg
      class="lines"
      width={width}
      height={height}
      role="img"
      aria-label={label}
      data-test="lines"
    >
      {lines.map((l, i) => (
        <line
          key={i}
          x1={0}
          x2={width}
          y1={(l.from + 0.5) * step}
          y2={(l.to + 0.5) * step}
          stroke={l.colour}
          stroke-opacity={Math.min(1, Math.abs(l.weight)).toFixed(3)}
          stroke-width={1.5}
          stroke-dasharray={l.weight < 0 ? "4 3" : undefined}
        />
      ))}
    </svg>
  );
}
