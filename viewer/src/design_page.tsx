// The page of `attend design`: a design and its learned twin, map above map.
//
// It works without the program: it contains the weights, and design_math.ts runs them.

import { signal, useSignal } from "@preact/signals";
import { Grid } from "./design_grid";
import {
  Design,
  head_part,
  is_asked,
  letters_of,
  Matrix,
  part_of,
  Run,
  run_design,
  Twin,
} from "./design_math";
import { compact_text, count_text } from "./numbers";
import { theme, theme_choice } from "./state";

const LOW = -3; // of the slider, as powers of two
const HIGH = 7;

const chosen = signal(0);
const text = signal("");
const power = signal<number | null>(null); // null: argmax

export function start_design(designs: Design[]): void {
  const given = new URLSearchParams(location.hash.slice(1));
  const at = designs.findIndex((d) => d.name === given.get("design"));
  const sharpness = Number(given.get("sharpness"));
  chosen.value = Math.max(0, at);
  text.value = given.get("input") ?? designs[chosen.value].example;
  power.value =
    sharpness > 0
      ? Math.max(LOW, Math.min(HIGH, Math.log2(sharpness)))
      : null;
}

function remember(d: Design): void {
  const out = new URLSearchParams({ design: d.name, input: text.value });
  if (power.value !== null)
    out.set("sharpness", String(Number((2 ** power.value).toPrecision(4))));
  try {
    history.replaceState(null, "", "#" + out);
  } catch {
    // A page opened from disk may be refused a history.
  }
}

// ---- controls --------------------------------------------------------------------

function Controls(props: { designs: Design[]; problem: string }) {
  const { designs, problem } = props;
  const d = designs[chosen.value];
  const least = d.designed.least;
  return (
    <div class="bar design-bar">
      {designs.length > 1 && (
        <div class="field">
          <label for="design-choice">Design</label>
          <select
            id="design-choice"
            data-test="design-choice"
            value={String(chosen.value)}
            onChange={(e) => {
              chosen.value = Number(e.currentTarget.value);
              text.value = designs[chosen.value].example;
              remember(designs[chosen.value]);
            }}
          >
            {designs.map((one, i) => (
              <option key={one.name} value={String(i)}>
                {one.name}
              </option>
            ))}
          </select>
        </div>
      )}
      <div class="field">
        <label for="design-input">
          Input: {d.tokens.slice(0, d.letters).join(" ")}, {d.shortest} to{" "}
          {d.longest} of them
        </label>
        <input
          id="design-input"
          type="text"
          data-test="design-input"
          spellcheck={false}
          autocomplete="off"
          value={text.value}
          aria-invalid={problem !== ""}
          onInput={(e) => {
            text.value = e.currentTarget.value;
            remember(d);
          }}
        />
      </div>
      <label class="check">
        <input
          type="checkbox"
          data-test="design-argmax"
          checked={power.value === null}
          onChange={(e) => {
            const least_power = least && !least.any ? least.sharpness : 1;
            power.value = e.currentTarget.checked
              ? null
              : Math.log2(least_power);
            remember(d);
          }}
        />
        argmax
      </label>
      {power.value !== null && (
        <div class="slider">
          <label for="design-sharpness">
            Sharpness of the design's softmax
            {least &&
              (least.any
                ? " (any passes)"
                : ` (passes from ${compact_text(least.sharpness)} on)`)}
          </label>
          <input
            id="design-sharpness"
            type="range"
            min={LOW}
            max={HIGH}
            step={0.01}
            data-test="design-sharpness"
            value={power.value}
            onInput={(e) => {
              power.value = Number(e.currentTarget.value);
              remember(d);
            }}
          />
          <output>{compact_text(2 ** power.value)}</output>
        </div>
      )}
    </div>
  );
}

// ---- maps ------------------------------------------------------------------------

interface Side {
  name: "designed" | "learned";
  twin: Twin;
  run: Run;
}

interface Plate {
  title: string;
  rows: string[];
  columns: string[] | null;
  values: Matrix;
  weight?: boolean;
}

function head_plates(d: Design, index: number, side: Side): Plate[] {
  const h = d.heads[index];
  const own = side.name === "designed";
  const features = d.features.slice(0, h.reads);
  const tokens = side.run.ids.map((id) => d.tokens[id]);
  const dims = own ? h.columns.map((c) => c || "·") : null;
  const slot = d.features
    .slice(h.slot, h.slot + h.dim_v)
    .map((f) => f.replace(/^.*=(?=.)/, ""));
  const out = own ? slot : null;
  const r = side.run.heads[index];
  const of = (which: "key" | "query" | "value") =>
    head_part(d, side.twin, index, which);
  return [
    { title: "Km", rows: features, columns: dims, values: of("key") },
    { title: "Qm", rows: features, columns: dims, values: of("query") },
    { title: "Vm", rows: features, columns: out, values: of("value") },
    { title: "K", rows: tokens, columns: dims, values: r.k },
    { title: "Q", rows: tokens, columns: dims, values: r.q },
    { title: "V", rows: tokens, columns: out, values: r.v },
    {
      title: "attention",
      rows: tokens,
      columns: tokens,
      values: r.attention,
      weight: true,
    },
    { title: "output", rows: tokens, columns: out, values: r.out },
  ];
}

function readout_plates(d: Design, side: Side): Plate[] {
  const tokens = side.run.ids.map((id) => d.tokens[id]);
  const wo = part_of(d, side.twin, "readout");
  return [
    { title: "Wo", rows: d.features, columns: d.answers, values: wo },
    {
      title: "logits",
      rows: tokens,
      columns: d.answers,
      values: side.run.logits,
    },
  ];
}

function Maps(props: {
  title: string;
  sides: Side[];
  plates: (side: Side) => Plate[];
  hover: (sentence: string) => void;
  test: string;
}) {
  return (
    <section>
      <h3>{props.title}</h3>
      {props.sides.map((side) => (
        <div key={side.name} class="design-row">
          <span class="design-twin">{side.name}</span>
          {props.plates(side).map((plate) => (
            <Grid
              key={plate.title}
              {...plate}
              hover={props.hover}
              test={`${side.name}-${props.test}-${plate.title}`}
            />
          ))}
        </div>
      ))}
    </section>
  );
}

function Answers({ d, sides }: { d: Design; sides: Side[] }) {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Answers">
      <table class="answers" data-test="design-answers">
        <tbody>
          <tr>
            <th scope="row">token</th>
            {sides[0].run.ids.map((id, i) => (
              <td key={i}>{d.tokens[id]}</td>
            ))}
          </tr>
          {sides.map(({ name, run }) => (
            <tr key={name} data-test={"answers-" + name}>
              <th scope="row">{name}</th>
              {run.given.map((a, i) => (
                <td key={i}>
                  {!is_asked(d, i, run.ids.length)
                    ? ""
                    : a === null
                      ? "?"
                      : d.answers[a]}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// ---- results -----------------------------------------------------------------------

function facts_of(d: Design): string[] {
  const { designed, learned } = d;
  const out = [
    `Task: ${d.task}.`,
    designed.ok
      ? `The design is right for all ${count_text(designed.inputs)} inputs.`
      : `The design is wrong, first for “${designed.counterexample}”.`,
  ];
  if (learned)
    out.push(
      `The learned twin is right in ${(100 * learned.accuracy).toFixed(2)} % of ` +
        `${count_text(learned.places)} answers` +
        (learned.steps ? ` after ${learned.steps} steps.` : "."),
    );
  return out;
}

function Curve({ twin }: { twin: Twin }) {
  if (!twin.loss?.length) return null;
  const most = Math.log10(Math.max(...twin.loss));
  const least = Math.log10(Math.max(twin.last_loss ?? 1e-6, 1e-7));
  const last = twin.steps!;
  const all = [...twin.loss, twin.last_loss ?? twin.loss.at(-1)!];
  const points = all.map((l, i) => {
    const x = 44 + (240 * (twin.at![i] ?? last)) / last;
    const y = 10 + (70 * (most - Math.log10(l))) / (most - least || 1);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  return (
    <svg
      class="curve"
      viewBox="0 0 300 104"
      role="img"
      aria-label={
        `Loss from ${compact_text(all[0])} to ` +
        `${compact_text(all.at(-1))} over ${last} steps`
      }
    >
      <polyline points={points.join(" ")} />
      <text x="40" y="14" text-anchor="end">
        {compact_text(all[0])}
      </text>
      <text x="40" y="84" text-anchor="end">
        {compact_text(all.at(-1))}
      </text>
      <text x="44" y="100">
        loss, step 0
      </text>
      <text x="284" y="100" text-anchor="end">
        {last}
      </text>
    </svg>
  );
}

function Top({ d }: { d: Design }) {
  const dark = theme.value === "dark";
  return (
    <header class="top">
      <h1>attend</h1>
      <span class="model-name">design: {d.name}</span>
      <div class="top-tools">
        <button
          type="button"
          class="round"
          data-test="theme"
          aria-label={dark ? "Light colours" : "Dark colours"}
          onClick={() => (theme_choice.value = dark ? "light" : "dark")}
        >
          {dark ? "☀" : "☾"}
        </button>
      </div>
    </header>
  );
}

export function DesignPage({ designs }: { designs: Design[] }) {
  const pointed = useSignal("");
  const d = designs[chosen.value];
  const letters = letters_of(d, text.value);
  const problem = typeof letters === "string" ? letters : "";
  const sides: Side[] = [];
  if (typeof letters !== "string") {
    const sharpness = power.value === null ? 0 : 2 ** power.value;
    const run = run_design(d, d.designed, letters, sharpness);
    sides.push({ name: "designed", twin: d.designed, run });
    if (d.learned)
      sides.push({
        name: "learned",
        twin: d.learned,
        run: run_design(d, d.learned, letters, 1),
      });
  }
  document.title = `${d.name} · attend design`;
  const hover = (sentence: string) => (pointed.value = sentence);
  return (
    <>
      <Top d={d} />
      <main class="view">
        <p class="hint">{d.about}</p>
        <Controls designs={designs} problem={problem} />
        {problem && (
          <p class="problem" role="alert" data-test="design-problem">
            {problem}
          </p>
        )}
        {sides.length > 0 && (
          <>
            <Answers d={d} sides={sides} />
            <p class="pointed" data-test="design-pointed" aria-hidden="true">
              {pointed.value || "Point at a cell for its number."}
            </p>
            <div
              class="scroll-x"
              data-test="design-maps"
              tabIndex={0}
              role="region"
              aria-label="Maps"
            >
              {d.heads.map((h, i) => (
                <Maps
                  key={h.name}
                  title={`Layer ${h.layer}, head “${h.name}”`}
                  sides={sides}
                  plates={(side) => head_plates(d, i, side)}
                  hover={hover}
                  test={String(i)}
                />
              ))}
              <Maps
                title="Readout"
                sides={sides}
                plates={(side) => readout_plates(d, side)}
                hover={hover}
                test="readout"
              />
            </div>
          </>
        )}
        <section class="design-words" data-test="design-words">
          <p>{facts_of(d).join(" ")}</p>
          {d.words.map((w, i) => (
            <p key={i}>{w}</p>
          ))}
          {d.learned && <Curve twin={d.learned} />}
        </section>
        <details>
          <summary>The spec</summary>
          <pre class="spec" tabIndex={0}>
            {d.spec}
          </pre>
        </details>
      </main>
    </>
  );
}
