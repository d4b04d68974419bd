// One map of a design: a table whose cells are coloured by their numbers.

import { compact_text } from "./numbers";
import { ink_css, ink_over, Inks } from "./palette";
import { Matrix } from "./design_math";
import { theme } from "./state";

// A short number: 1, .33, −2.4, 12.
function short_text(x: number): string {
  const size = Math.abs(x);
  const minus = x < 0 ? "−" : "";
  if (size < 0.005) return "";
  if (size < 0.995) return minus + size.toFixed(2).slice(1);
  const near = Math.abs(size - Math.round(size)) <= 0.05;
  return minus + size.toFixed(size < 9.95 && !near ? 1 : 0);
}

export function Grid(props: {
  title: string;
  values: Matrix;
  rows: string[] | null; // null: numbers
  columns: string[] | null;
  weight?: boolean; // 0 to 1; otherwise signed
  hover: (sentence: string) => void;
  test: string;
}) {
  const { values, title, weight } = props;
  const top = weight
    ? 1
    : values.cells.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  const inks: Inks = {
    theme: theme.value,
    signed: !weight,
    top,
    scale: weight ? "root" : "linear",
  };
  const row = (i: number) => props.rows?.[i] ?? String(i);
  const column = (j: number) => props.columns?.[j] ?? String(j);
  return (
    <table class="design-grid" data-test={props.test}>
      <caption>
        {title}
        {!weight && <span class="faint"> ±{compact_text(top)}</span>}
      </caption>
      <thead>
        <tr>
          <td />
          {Array.from({ length: values.columns }, (_, j) => (
            <th key={j} scope="col">
              {column(j)}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {Array.from({ length: values.rows }, (_, i) => (
          <tr key={i}>
            <th scope="row">{row(i)}</th>
            {Array.from({ length: values.columns }, (_, j) => {
              const x = values.cells[i * values.columns + j];
              return (
                <td
                  key={j}
                  data-number={x}
                  style={{
                    background: ink_css(x, inks),
                    color: ink_over(x, inks),
                  }}
                  onPointerEnter={() =>
                    props.hover(
                      `${title}[${row(i)}, ${column(j)}] = ${x.toPrecision(5)}`,
                    )
                  }
                >
                  {short_text(x)}
                </td>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
