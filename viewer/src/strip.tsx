// A vector as a strip of coloured cells: blue above zero, orange below.

import { useLayoutEffect, useRef } from "preact/hooks";
import { Inks, paint_cells } from "./palette";

export interface Reading {
  name: string; // q, k, q×k, v, out
  key: number; // -1: of the query
  dim: number;
  value: number;
}

export function Strip({
  values,
  inks,
  name,
  index,
  label,
  read,
  test,
}: {
  values: Float32Array;
  inks: Inks;
  name: string;
  index: number;
  label?: string;
  read: (r: Reading | null) => void;
  test?: string;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    paint_cells(canvas.current!, values, values.length, 1, inks);
  }, [values, inks.theme, inks.top]);
  const at = (e: PointerEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const dim = Math.max(
      0,
      Math.min(
        values.length - 1,
        Math.floor(((e.clientX - box.left) / box.width) * values.length),
      ),
    );
    read({ name, key: index, dim, value: values[dim] });
  };
  return (
    <canvas
      ref={canvas}
      class="heat strip"
      role={label ? "img" : undefined}
      aria-label={label}
      aria-hidden={label ? undefined : "true"}
      data-test={test}
      onPointerMove={at}
      onPointerDown={at}
      onPointerLeave={() => read(null)}
    />
  );
}
