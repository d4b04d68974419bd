// Gestures on a matrix: drag, wheel, pinch and keys, for any element that shows a
// plot.

import { MatrixPlot } from "./matrix_plot";

interface Touch {
  x: number;
  y: number;
}

interface Hands {
  hover: (cell: { row: number; key: number } | null) => void;
  press: (cell: { row: number; key: number }) => void;
  step: (rows: number, keys: number) => void; // the marked cell moves
}

export function attach_gestures(
  box: HTMLElement,
  plot: MatrixPlot,
  hands: Hands,
): () => void {
  const touches = new Map<number, Touch>();
  let moved = 0;
  let rect = box.getBoundingClientRect();

  const at = (e: PointerEvent | WheelEvent): Touch => ({
    x: e.clientX - rect.left - plot.left,
    y: e.clientY - rect.top - plot.top,
  });

  const down = (e: PointerEvent) => {
    if (e.button !== 0) return;
    rect = box.getBoundingClientRect();
    box.setPointerCapture(e.pointerId);
    touches.set(e.pointerId, at(e));
    moved = 0;
    if (touches.size === 1) plot.begin_drag();
  };

  const move = (e: PointerEvent) => {
    const before = touches.get(e.pointerId);
    if (touches.size === 0) rect = box.getBoundingClientRect();
    const now = at(e);
    if (!before) {
      hands.hover(plot.cam.cell(now.x, now.y));
      return;
    }
    moved += Math.hypot(now.x - before.x, now.y - before.y);
    if (touches.size === 1) {
      plot.cam.pan(now.x - before.x, now.y - before.y);
    } else {
      const other = [...touches].find(([id]) => id !== e.pointerId)![1];
      const was = Math.hypot(before.x - other.x, before.y - other.y);
      const is = Math.hypot(now.x - other.x, now.y - other.y);
      if (was > 0)
        plot.cam.zoom(is / was, (now.x + other.x) / 2, (now.y + other.y) / 2);
    }
    touches.set(e.pointerId, now);
    plot.moved();
  };

  const up = (e: PointerEvent) => {
    const last = touches.get(e.pointerId);
    touches.delete(e.pointerId);
    if (touches.size > 0 || !last) return;
    plot.end_drag();
    const cell = plot.cam.cell(last.x, last.y);
    if (moved < 5 && cell && e.type === "pointerup") hands.press(cell);
    plot.redraw();
  };

  const wheel = (e: WheelEvent) => {
    e.preventDefault();
    rect = box.getBoundingClientRect();
    const lines = e.deltaMode === 1 ? 30 : 1;
    const { x, y } = at(e);
    if (e.shiftKey) plot.cam.pan(-e.deltaY * lines - e.deltaX * lines, 0);
    else
      plot.cam.zoom(
        Math.exp(-e.deltaY * lines * (e.ctrlKey ? 0.01 : 0.002)),
        x,
        y,
      );
    plot.moved();
  };

  const leave = () => {
    if (touches.size === 0) hands.hover(null);
  };

  const key = (e: KeyboardEvent) => {
    const { cam } = plot;
    const arrows: Record<string, [number, number]> = {
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
    };
    const arrow = arrows[e.key];
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (arrow && e.shiftKey) hands.step(arrow[0], arrow[1]);
    else if (arrow)
      cam.pan((-arrow[1] * cam.width) / 8, (-arrow[0] * cam.height) / 8);
    else if (e.key === "+" || e.key === "=")
      cam.zoom(1.5, cam.width / 2, cam.height / 2);
    else if (e.key === "-" || e.key === "_")
      cam.zoom(1 / 1.5, cam.width / 2, cam.height / 2);
    else if (e.key === "0") cam.fit();
    else return;
    e.preventDefault();
    plot.moved();
  };

  const pairs: [string, EventListener][] = [
    ["pointerdown", down as EventListener],
    ["pointermove", move as EventListener],
    ["pointerup", up as EventListener],
    ["pointercancel", up as EventListener],
    ["pointerleave", leave],
    ["wheel", wheel as EventListener],
    ["keydown", key as EventListener],
  ];
  for (const [name, f] of pairs)
    box.addEventListener(name, f, { passive: false });
  return () => {
    for (const [name, f] of pairs) box.removeEventListener(name, f);
  };
}
