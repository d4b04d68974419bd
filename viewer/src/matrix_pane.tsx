// A matrix that can be moved and zoomed, as an element: the matrix view has
// one, the comparison three that move together.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { hooks } from "./hooks";
import { attach_gestures } from "./matrix_gestures";
import { MatrixPlot, PlotColours } from "./matrix_plot";
import { clamp } from "./numbers";
import { Inks, Scale } from "./palette";
import { go, say, state, theme } from "./state";
import { spec_key, TileSpec, TileStore } from "./tiles";

export interface At {
  row: number;
  key: number;
}

// The visible part, reported after every frame that is not part of a drag.
export interface Sight {
  plot: MatrixPlot;
  spec: TileSpec;
  inks: Inks;
  level: number;
  sampled: number; // tiles of which not every row was looked at
  error: string;
}

interface PaneProps {
  spec: TileSpec;
  label: string;
  scale: Scale;
  mark: At | null;
  see: (sight: Sight) => void;
  hover: (at: At | null) => void;
  press?: (at: At) => void; // instead of choosing the token and key of the state
  words: (plot: MatrixPlot, at: At) => string; // of a cell, to be spoken
  beside?: MatrixPlot[]; // the list of plots that move together
  buttons?: boolean; // for zooming; one set does for maps that move together
  describedby?: string;
  test?: string;
}

function plot_colours(): PlotColours {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string) => style.getPropertyValue("--" + name).trim();
  return {
    background: read("background"),
    ink: read("ink"),
    faint: read("faint"),
    grid: read("grid"),
    accent: read("accent"),
    masked: read("masked"),
    hatch: read("hatch"),
  };
}

function pinned(): At | null {
  const { token, key } = state.value;
  return token >= 0 && key >= 0 ? { row: token, key } : null;
}

// The old picture stays until the first tile of a new head arrives.
function follow_spec(
  spec: TileSpec,
  plot: { current: MatrixPlot | null },
  latest: { current: TileStore | null },
): TileStore {
  const next: TileStore = new TileStore(spec, () => {
    const p = plot.current;
    if (p && p.store !== next && latest.current === next) {
      const old = p.store;
      p.forget_scale();
      p.show(next);
      old.close();
    }
    p?.redraw();
  });
  latest.current = next;
  if (plot.current) next.want([{ level: next.levels, x: 0, y: 0 }]);
  return next;
}

export function MatrixPane(props: PaneProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<MatrixPlot | null>(null);
  const store = useRef<TileStore | null>(null);
  const latest = useRef(props);
  const version = useSignal(0);
  latest.current = props;
  const paper = theme.value;

  const look = () => {
    const p = plot.current!;
    latest.current.see({
      plot: p,
      spec: p.store.spec,
      inks: p.inks,
      level: p.seen[0]?.level ?? 0,
      error: store.current?.error || p.store.error,
      sampled: p.seen.filter((t) => t.sampled).length,
    });
    if (latest.current.buttons !== false) go({ zoom: p.cam.words }, "same");
  };

  useEffect(() => {
    const next = follow_spec(props.spec, plot, store);
    if (plot.current) return;
    const p = (plot.current = new MatrixPlot(
      canvas.current!,
      next,
      plot_colours(),
      theme.value,
      props.scale,
      look,
    ));
    const size = box.current!.getBoundingClientRect();
    p.resize(size.width, size.height);
    p.cam.fit();
    if (props.buttons !== false) p.cam.read(state.value.zoom);
    version.value++;
  }, [spec_key(props.spec)]);

  useEffect(() => {
    const p = plot.current!;
    const together = latest.current.beside;
    if (together) {
      together.push(p);
      p.beside = together;
    }
    const release = attach_gestures(box.current!, p, {
      hover: (cell) => latest.current.hover(cell),
      press: (cell) =>
        latest.current.press
          ? latest.current.press(cell)
          : go({ token: cell.row, key: cell.key }),
      step: (rows, keys) => {
        const own = latest.current.press;
        const from = (own ? latest.current.mark : pinned()) ?? {
          row: Math.floor(p.cam.y),
          key: Math.floor(p.cam.x),
        };
        const at = {
          row: clamp(from.row + rows, 0, p.cam.rows - 1),
          key: clamp(from.key + keys, 0, p.cam.keys - 1),
        };
        if (own) own(at);
        else go({ token: at.row, key: at.key }, "same");
        p.cam.show(at.row, at.key);
        say(latest.current.words(p, at));
      },
    });
    const observer = new ResizeObserver(() => {
      // Null once the view is left.
      const size = box.current?.getBoundingClientRect();
      if (size) p.resize(size.width, size.height);
    });
    observer.observe(box.current!);
    hooks.frames = () => p.rate;
    hooks.tiles = () => ({
      count: p.store.count,
      bytes: p.store.bytes,
      level: p.seen[0]?.level ?? 0,
    });
    return () => {
      release();
      observer.disconnect();
      if (together) together.splice(together.indexOf(p), 1);
      p.close();
      p.store.close();
      store.current?.close();
    };
  }, []);

  useEffect(() => {
    plot.current!.restyle(plot_colours(), paper, props.scale);
  }, [paper, props.scale]);
  useEffect(() => {
    plot.current!.mark = props.mark;
    plot.current!.redraw();
  }, [props.mark?.row, props.mark?.key]);

  const zoom = (factor: number) => {
    const p = plot.current!;
    if (factor) p.cam.zoom(factor, p.cam.width / 2, p.cam.height / 2);
    else p.cam.fit();
    p.moved();
  };
  return (
    <div class="matrix-frame">
      <div
        class="matrix-box"
        ref={box}
        tabIndex={0}
        role="application"
        aria-roledescription="heat map"
        aria-label={props.label}
        aria-describedby={props.describedby}
        data-test={props.test ?? "matrix"}
      >
        <canvas ref={canvas} role="img" aria-label={props.label} />
      </div>
      {props.buttons !== false && (
        <div class="zoom-buttons">
          <button
            type="button"
            aria-label="Zoom in"
            title="Zoom in"
            onClick={() => zoom(1.5)}
          >
            +
          </button>
          <button
            type="button"
            aria-label="Zoom out"
            title="Zoom out"
            onClick={() => zoom(1 / 1.5)}
          >
            −
          </button>
          <button
            type="button"
            aria-label="Show all"
            title="Show all"
            data-test="fit"
            onClick={() => zoom(0)}
          >
            ⤢
          </button>
        </div>
      )}
    </div>
  );
}
