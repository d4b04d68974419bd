// A small heat map: one canvas pixel per cell, enlarged by the browser without
// smoothing.

import { useLayoutEffect, useRef } from "preact/hooks";
import { Inks, paint_cells } from "./palette";
import { weight_text } from "./numbers";

export interface Cell {
  row: number;
  column: number;
}

function paint_hidden(
  canvas: HTMLCanvasElement,
  rows: number,
  columns: number,
  hidden: (cell: Cell) => boolean,
): void {
  const c = canvas.getContext("2d")!;
  c.fillStyle = getComputedStyle(canvas).getPropertyValue("--masked");
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++)
      if (hidden({ row, column })) c.fillRect(column, row, 1, 1);
}

export function Heat(props: {
  values: ArrayLike<number>;
  rows: number;
  columns: number;
  inks: Inks;
  label: string;
  test?: string;
  hover?: (cell: Cell | null) => void;
  press?: (cell: Cell) => void;
  class?: string;
  ratio?: number;
  hidden?: (cell: Cell) => boolean; // masked: drawn as the page draws masks
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { theme, signed, top, scale } = props.inks;
  useLayoutEffect(() => {
    paint_cells(
      canvas.current!,
      props.values,
      props.columns,
      props.rows,
      props.inks,
    );
    if (props.hidden) paint_hidden(canvas.current!, props.rows, props.columns, props.hidden);
  }, [props.values, props.rows, props.columns, theme, signed, top, scale]);
  const cell = (e: MouseEvent): Cell => {
    const box = canvas.current!.getBoundingClientRect();
    const part = (at: number, low: number, size: number, n: number) =>
      Math.max(0, Math.min(n - 1, Math.floor(((at - low) / size) * n)));
    return {
      row: part(e.clientY, box.top, box.height, props.rows),
      column: part(e.clientX, box.left, box.width, props.columns),
    };
  };
  return (
    <canvas
      ref={canvas}
      class={"heat " + (props.class ?? "")}
      role={props.label ? "img" : undefined}
      aria-label={props.label || undefined}
      aria-hidden={props.label ? undefined : "true"}
      data-test={props.test}
      style={props.ratio ? { aspectRatio: String(props.ratio) } : undefined}
      onPointerMove={props.hover && ((e) => props.hover!(cell(e)))}
      onPointerLeave={props.hover && (() => props.hover!(null))}
      onClick={props.press && ((e) => props.press!(cell(e)))}
    />
  );
}

// The scale under a map, with the numbers at its ends.
export function ScaleLegend({
  inks,
  what,
  high,
}: {
  inks: Inks;
  what: string;
  high?: string; // instead of the number at the upper end
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { theme, signed, top, scale } = inks;
  useLayoutEffect(() => {
    const low = signed ? -top : 0;
    const values = Array.from(
      { length: 128 },
      (_, i) => low + ((top - low) * i) / 127,
    );
    paint_cells(canvas.current!, values, 128, 1, inks);
  }, [theme, signed, top, scale]);
  return (
    <div class="scale">
      <span>{signed ? weight_text(-top) : "0"}</span>
      <canvas ref={canvas} class="heat ramp" aria-hidden="true" />
      <span>{high ?? weight_text(top)}</span>
      <span class="faint">{what}</span>
    </div>
  );
}
