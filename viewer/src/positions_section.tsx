// Sinusoidal positions: their table, their cosines, and the matrix M that maps each to
// the next; and the positions that the model learned.

import { useSignal } from "@preact/signals";
import { ask_binary, useScene } from "./asking";
import { Problem } from "./controls";
import { floats } from "./decode";
import { Cell, Heat } from "./heat";
import { Formula, Fraction, Mi, Mo, Sub, Sup } from "./math";
import { compact_text, signed_text } from "./numbers";
import { Model } from "./protocol";
import { theme } from "./state";

const COUNT = 64;
const WIDTH = 64;

function Map({
  title,
  about,
  values,
  rows,
  columns,
  test,
  read,
}: {
  title: string;
  about: string;
  values: Float32Array;
  rows: number;
  columns: number;
  test: string;
  read: (row: number, column: number, value: number) => string;
}) {
  const at = useSignal<Cell | null>(null);
  const inks = {
    theme: theme.value,
    signed: true,
    top: 1,
    scale: "linear" as const,
  };
  const cell = at.value;
  return (
    <figure class="position-map">
      <figcaption>
        <b>{title}</b>
      </figcaption>
      <Heat
        values={values}
        rows={rows}
        columns={columns}
        inks={inks}
        ratio={1}
        label={`${title}: ${about}`}
        test={test}
        hover={(c) => (at.value = c)}
        press={(c) => (at.value = c)}
      />
      <p class="hint faint" data-test={test + "-reading"}>
        {cell
          ? read(
              cell.row,
              cell.column,
              values[cell.row * columns + cell.column],
            )
          : about}
      </p>
    </figure>
  );
}

function ShiftFormula() {
  return (
    <Formula say="p of t plus 1 is M times p of t">
      <Sub
        base="p"
        low={
          <>
            <mi>t</mi>
            <mo>+</mo>
            <mn>1</mn>
          </>
        }
      />
      <Mo>=</Mo>
      <Mi>M</Mi>
      <Sub base="p" low={<mi>t</mi>} />
    </Formula>
  );
}

// Vaswani et al. 2017; d is the width.
function SineFormula({
  low,
  function: name,
}: {
  low: string;
  function: "sin" | "cos";
}) {
  return (
    <Formula say={`p of t, ${low} is the ${name} of t over 10000 to the 2i over d`}>
      <Sub
        base="p"
        low={
          <>
            <mi>t</mi>
            <mo>,</mo>
            <mi>{low}</mi>
          </>
        }
      />
      <Mo>=</Mo>
      <Mi>{name}</Mi>
      <Fraction
        over={<mi>t</mi>}
        under={
          <Sup
            base={<mn>10000</mn>}
            high={
              <>
                <mn>2</mn>
                <mi>i</mi>
                <mo>/</mo>
                <mi>d</mi>
              </>
            }
          />
        }
      />
    </Formula>
  );
}

// Learned positions depend on the step of a training run.
export function PositionsSection({
  model,
  step,
}: {
  model: Model;
  step: number;
}) {
  const of = model.positions === "learned" && step >= 0 ? step : undefined;
  const key = "positions" + model.id + (of ?? "");
  const { value, error } = useScene(key, async (signal) => {
    const answer = await ask_binary(
      "positions",
      { count: COUNT, width: WIDTH, model: model.id, step: of },
      signal,
    );
    return {
      table: floats(answer, "table"),
      cosine: floats(answer, "cosine"),
      shift: floats(answer, "shift"),
      learned: answer.parts.learned ? floats(answer, "learned") : null,
      error: answer.header.shift_error as number,
    };
  });
  const pair = (what: string) => (a: number, b: number, v: number) =>
    `${what} of positions ${a} and ${b}: ${signed_text(v, 3)}`;
  return (
    <section class="positions" aria-label="Positions">
      <h2>Positions</h2>
      <p class="hint faint">
        This model's own positions are {model.positions}. The sinusoidal ones
        below encode position t by sines and cosines of decreasing frequency;
        one matrix M maps every position to the next: <ShiftFormula />.
      </p>
      <p class="formulas">
        <SineFormula low="2i" function="sin" />
        <SineFormula low="2i+1" function="cos" />
      </p>
      <Problem text={error} />
      {value && (
        <>
          <p data-test="shift-error" data-number={value.error}>
            Largest error of <ShiftFormula />:{" "}
            <b class="number">{compact_text(value.error)}</b>
          </p>
          <div class="position-maps">
            <Map
              title="Table"
              about="a row for each position, a column for each dimension"
              values={value.table}
              rows={COUNT}
              columns={WIDTH}
              test="positions-table"
              read={(t, d, v) =>
                `position ${t}, dimension ${d}: ${signed_text(v, 3)}`
              }
            />
            <Map
              title="Cosines"
              about="cosines of two positions: near ones are similar"
              values={value.cosine}
              rows={COUNT}
              columns={COUNT}
              test="positions-cosine"
              read={pair("cosine")}
            />
            <Map
              title="M"
              about="rotations by each frequency's angle: 2 × 2 blocks"
              values={value.shift}
              rows={WIDTH}
              columns={WIDTH}
              test="positions-shift"
              read={(i, j, v) => `M[${i}, ${j}] = ${signed_text(v, 3)}`}
            />
            {value.learned && (
              <Map
                title="Learned"
                about="cosines of the model's own first positions"
                values={value.learned}
                rows={COUNT}
                columns={COUNT}
                test="positions-learned"
                read={pair("cosine")}
              />
            )}
          </div>
        </>
      )}
    </section>
  );
}
