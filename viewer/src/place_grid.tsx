// Places of a model as a grid of buttons: layers by heads, or layers by tokens. A press
// changes the place; the colours are those of a sweep.

import { rove } from "./controls";
import { change_at, Change, place_words } from "./changes";
import { compact_text } from "./numbers";
import { ink_css, ink_over, Inks } from "./palette";

export interface GridPlace {
  name: string; // of changes.ts
  value: number | null; // of the sweep, minus that without a change
  words?: string; // for screen readers, instead of the name's
  number?: string; // shown instead of the value's
}

export function PlaceGrid(props: {
  label: string;
  rows: string[];
  columns: string[];
  row_word: string;
  column_word: string;
  places: GridPlace[][]; // [rows][columns]
  changes: Change[];
  inks: Inks;
  numbers: boolean;
  press?: (place: GridPlace, row: number, column: number) => void;
  chosen?: (row: number, column: number) => boolean;
  test: string;
}) {
  const { places, changes, inks } = props;
  const cell = (p: GridPlace, row: number, column: number) => {
    const change = change_at(changes, p.name);
    const has = p.value !== null && Number.isFinite(p.value);
    const chosen = props.chosen?.(row, column) ?? false;
    const words =
      (p.words ?? place_words(p.name)) +
      (change ? ", changed" : "") +
      (has ? ": " + compact_text(p.value) : "");
    return (
      <button
        key={column}
        type="button"
        class={
          "place" + (change ? " changed" : "") + (chosen ? " chosen" : "")
        }
        aria-pressed={props.chosen ? chosen : !!change}
        aria-label={words}
        title={words}
        disabled={!props.press}
        data-rove
        data-test={props.test}
        data-place={p.name}
        data-number={p.value ?? ""}
        tabIndex={row === 0 && column === 0 ? 0 : -1}
        style={
          has
            ? {
                background: ink_css(p.value!, inks),
                color: ink_over(p.value!, inks),
              }
            : undefined
        }
        onClick={() => props.press?.(p, row, column)}
      >
        {change ? (
          <span aria-hidden="true">✕</span>
        ) : (
          props.numbers && has && (p.number ?? compact_text(p.value))
        )}
      </button>
    );
  };
  return (
    <div class="scroll-x" tabIndex={-1}>
      <div
        class={props.numbers ? "place-grid with-numbers" : "place-grid"}
        role="group"
        aria-label={props.label}
        data-test={props.test + "-grid"}
        onKeyDown={(e) => rove(e, props.columns.length)}
        style={{
          gridTemplateColumns: `auto repeat(${props.columns.length}, minmax(${props.numbers ? 46 : 26}px, 56px))`,
        }}
      >
        <span class="axis">{props.column_word}</span>
        {props.columns.map((c, i) => (
          <span key={i} class="axis column-axis" title={c}>
            {c}
          </span>
        ))}
        {places.map((row, i) => [
          <span key={"r" + i} class="axis layer-axis">
            <span class="faint wide">{props.row_word} </span>
            {props.rows[i]}
          </span>,
          ...row.map((p, j) => cell(p, i, j)),
        ])}
      </div>
    </div>
  );
}

export function largest_size(places: GridPlace[][]): number {
  let top = 0;
  for (const row of places)
    for (const p of row)
      if (p.value !== null && Number.isFinite(p.value))
        top = Math.max(top, Math.abs(p.value));
  return top;
}
