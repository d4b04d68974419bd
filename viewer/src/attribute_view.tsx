// Which tokens, heads and MLPs a prediction comes from.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask_stream, useScene } from "./asking";
import { Caption } from "./caption";
import { PlaceBar, Problem, Switch, Waiting } from "./controls";
import { Heat, ScaleLegend } from "./heat";
import { LensGrid } from "./lens_grid";
import { compact_text, percent_text, signed_text } from "./numbers";
import { ink_css, ink_over, Inks } from "./palette";
import { GridPlace, PlaceGrid } from "./place_grid";
import {
  answer_words,
  head_side,
  Prediction,
  prediction_members,
  PredictionBar,
  usePrediction,
} from "./prediction";
import {
  Attribution,
  canonical,
  LogitLens,
  Method,
  Progress,
  Role,
  Run,
} from "./protocol";
import { go, place_in, state, theme } from "./state";
import { TokenLabel, token_text } from "./token_label";

const METHODS: { value: Method; label: string; title: string }[] = [
  {
    value: "gradient",
    label: "Gradient × input",
    title: "One backward pass: what each token adds, to first order",
  },
  {
    value: "integrated",
    label: "Integrated gradients",
    title: "The mean gradient on the way from a text of blanks; adds up",
  },
  {
    value: "attention",
    label: "Attention",
    title: "Weight × gradient of each attention weight, by head and by key",
  },
  {
    value: "direct",
    label: "Direct",
    title: "What each head and MLP writes straight to the logit",
  },
  {
    value: "lens",
    label: "Logit lens",
    title: "What the head makes of the stream before each layer",
  },
];

const LENS_TOKENS = 24; // columns
const BEST = 10; // contributions in the list

// ---- asking ---------------------------------------------------------------------------

interface AttributeScene {
  run: Run;
  role: Role;
  method: Method;
  attribution: Attribution | null;
  lens: LogitLens | null;
}

// Columns of the lens: those that end with the position.
function lens_range(r: Run, position: number): { row: number; rows: number } {
  const n = r.sides[head_side(r)]!.tokens.length;
  const row = Math.max(
    0,
    Math.min(position - LENS_TOKENS + 4, n - LENS_TOKENS),
  );
  return { row, rows: Math.min(LENS_TOKENS, n - row) };
}

function request_of(p: Prediction, role: Role, method: Method) {
  const { place } = place_in(p.run, state.value);
  if (method === "lens")
    return {
      run: p.run.run,
      side: head_side(p.run),
      top: 3,
      ...lens_range(p.run, p.effect.target.position),
    };
  return {
    run: p.before.run,
    method,
    role: method === "attention" ? role.role : p.before.roles[0].role,
    layer: method === "attention" ? place.layer : 0,
    head: method === "attention" ? place.head : 0,
    ...prediction_members(p.run),
  };
}

function useAttribution(p: Prediction | null) {
  const progress = useSignal<Progress | null>(null);
  const method = state.value.method;
  const ready = p && p.effect.has_head;
  const role = ready ? place_in(p.run, state.value).role : null;
  const request = ready && role ? request_of(p, role, method) : null;
  const key = request && canonical({ method, ...request });
  const scene = useScene<AttributeScene>(key, async (signal) => {
    progress.value = { done: null, what: "computing" };
    try {
      const name = method === "lens" ? "lens" : "attribute";
      const got = await ask_stream<unknown>(
        name,
        request!,
        (to) => {
          if (!signal.aborted) progress.value = to;
        },
        signal,
      );
      const lens = method === "lens" ? (got as LogitLens) : null;
      return {
        run: p!.run,
        role: role!,
        method,
        lens,
        attribution: lens ? null : (got as Attribution),
      };
    } finally {
      if (!signal.aborted) progress.value = null;
    }
  });
  useEffect(() => () => void (progress.value = null), [key]);
  return { ...scene, progress: scene.fresh ? null : progress.value };
}

// ---- tokens -----------------------------------------------------------------------------

function top_of(values: ArrayLike<number>): number {
  let top = 0;
  for (let i = 0; i < values.length; i++)
    top = Math.max(top, Math.abs(values[i]));
  return top;
}

const signed_inks = (top: number): Inks => ({
  theme: theme.value,
  signed: true,
  top,
  scale: "root",
});

// Labels of the tokens that scores belong to.
function scored_labels(scene: AttributeScene): string[] {
  const { run: r, role, method } = scene;
  if (method === "attention") return r.sides[role.key_side]!.labels;
  const encoder = r.sides.encoder;
  return [
    ...(encoder ? encoder.labels.slice(0, encoder.real) : []),
    ...(r.sides.decoder?.labels ?? []),
  ];
}

function ScoredTokens({ scene }: { scene: AttributeScene }) {
  const scores = scene.attribution!.scores!;
  const labels = scored_labels(scene);
  const inks = signed_inks(top_of(scores));
  const encoder =
    scene.method === "attention" ? 0 : (scene.run.sides.encoder?.real ?? 0);
  return (
    <ol class="scored" data-test="scored" aria-label="Scores of tokens">
      {scores.map((x, i) => (
        <li
          key={i}
          class={encoder && i === encoder ? "second-side" : ""}
          data-test="score"
          data-token={i}
          data-number={x}
        >
          <span
            class="scored-token"
            style={{ background: ink_css(x, inks), color: ink_over(x, inks) }}
          >
            <TokenLabel token={labels[i] ?? ""} />
          </span>
          <span class="number">{signed_text(x, 2)}</span>
        </li>
      ))}
    </ol>
  );
}

// ---- sums ---------------------------------------------------------------------------------

function Sums({ scene, value }: { scene: AttributeScene; value: Prediction }) {
  const a = scene.attribution!;
  const answer = answer_words(value.effect);
  const difference = a.baseline === null ? null : a.logit - a.baseline;
  return (
    <dl class="facts sums" data-test="sums">
      <dt>logit of “{answer}”</dt>
      <dd class="number" data-test="logit" data-number={a.logit}>
        {signed_text(a.logit, 3)}
      </dd>
      {scene.method === "integrated" && (
        <>
          <dt>of the blanks</dt>
          <dd class="number">{a.baseline === null ? "–" : signed_text(a.baseline, 3)}</dd>
          <dt>difference</dt>
          <dd class="number" data-test="difference" data-number={difference}>
            {difference === null ? "–" : signed_text(difference, 3)}
          </dd>
        </>
      )}
      <dt>sum of the scores</dt>
      <dd class="number" data-test="sum" data-number={a.sum}>
        {signed_text(a.sum, 3)}
      </dd>
      {difference !== null && difference !== 0 && (
        <>
          <dt>complete to</dt>
          <dd class="number" data-test="complete">
            {percent_text(a.sum / difference)}
            {a.steps > 0 && (
              <span class="faint"> in {a.steps} steps</span>
            )}
          </dd>
        </>
      )}
      {difference === null && (
        <>
          <dt>complete</dt>
          <dd class="faint">to first order alone</dd>
        </>
      )}
    </dl>
  );
}

// ---- heads and mlps ---------------------------------------------------------------------------

interface Part {
  name: string;
  value: number;
}

function parts_of(a: Attribution): Part[] {
  const list: Part[] = [];
  const add = (rows: number[][] | null, word: string) =>
    rows?.forEach((row, l) =>
      row.forEach((value, h) =>
        list.push({ name: `${word}layer ${l}, head ${h}`, value }),
      ),
    );
  add(a.heads, "");
  add(a.cross, "cross, ");
  a.mlps?.forEach((value, l) => list.push({ name: `MLP of layer ${l}`, value }));
  if (a.embedding !== null)
    list.push({ name: "embedding", value: a.embedding });
  if (a.rest !== null) list.push({ name: "rest (biases)", value: a.rest });
  return list;
}

function HeadGrid({
  a,
  rows,
  label,
  mlps,
  place,
}: {
  a: Attribution;
  rows: number[][];
  label: string;
  mlps: number[] | null;
  place: { layer: number; head: number } | null;
}) {
  const top = top_of([
    ...(a.heads ?? []).flat(),
    ...(a.cross ?? []).flat(),
    ...(a.mlps ?? []),
  ]);
  const places: GridPlace[][] = rows.map((row, l) => {
    const cells = row.map((value, h) => ({ name: `${l}.${h}`, value }));
    return mlps ? [...cells, { name: `mlp:${l}`, value: mlps[l] }] : cells;
  });
  const heads = rows[0].map((_, h) => String(h));
  return (
    <PlaceGrid
      label={label}
      rows={rows.map((_, l) => String(l))}
      columns={mlps ? [...heads, "MLP"] : heads}
      row_word="layer"
      column_word="head"
      places={places}
      changes={[]}
      inks={signed_inks(top)}
      numbers={heads.length <= 16}
      press={
        place ? (_, layer, head) => go({ layer, head, heads: [] }) : undefined
      }
      chosen={
        place
          ? (row, column) => row === place.layer && column === place.head
          : undefined
      }
      test="contribution"
    />
  );
}

function Largest({ a }: { a: Attribution }) {
  const parts = parts_of(a)
    .sort((x, y) => Math.abs(y.value) - Math.abs(x.value))
    .slice(0, BEST);
  const top = top_of(parts.map((p) => p.value));
  return (
    <table class="bars largest" data-test="largest">
      <caption>Largest contributions</caption>
      <tbody>
        {parts.map((p) => (
          <tr key={p.name}>
            <td>{p.name}</td>
            <td class="number">{signed_text(p.value, 3)}</td>
            <td class="bar-cell">
              <span
                class={p.value < 0 ? "bar-fill negative" : "bar-fill"}
                style={{ width: `${(Math.abs(p.value) / (top || 1)) * 100}%` }}
              />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

// Weight × gradient of one head.
function HeadMap({ scene }: { scene: AttributeScene }) {
  const map = scene.attribution!.map;
  const { place } = place_in(scene.run, state.value);
  const at = useSignal<{ row: number; column: number } | null>(null);
  if (!map || map.length === 0) return null;
  const values = Float32Array.from(map.flat());
  const inks = signed_inks(top_of(values));
  const rows = scene.run.sides[scene.role.row_side]!.labels;
  const keys = scene.run.sides[scene.role.key_side]!.labels;
  const p = at.value;
  return (
    <figure class="head-map">
      <figcaption>
        Layer {place.layer}, head {place.head}: weight × gradient, queries in
        rows, keys in columns
      </figcaption>
      <Heat
        values={values}
        rows={map.length}
        columns={map[0].length}
        inks={inks}
        label={`Weight × gradient of layer ${place.layer}, head ${place.head}`}
        test="head-map"
        ratio={map[0].length / map.length}
        hover={(cell) => (at.value = cell)}
        press={(cell) => (at.value = cell)}
      />
      <p class="faint hint">
        {p
          ? `${token_text(rows[p.row])} → ${token_text(keys[p.column])}: ${compact_text(map[p.row][p.column])}`
          : "Point at a cell to read it."}
      </p>
      <ScaleLegend inks={inks} what="weight × gradient" />
    </figure>
  );
}

function ByHeads({ scene }: { scene: AttributeScene }) {
  const a = scene.attribution!;
  const { place } = place_in(scene.run, state.value);
  const attention = scene.method === "attention";
  return (
    <>
      <HeadGrid
        a={a}
        rows={a.heads!}
        label={attention ? "Heads: press to see one" : "Heads and MLPs"}
        mlps={a.mlps}
        place={attention ? place : null}
      />
      {a.cross && (
        <>
          <h3>Cross-attention</h3>
          <HeadGrid
            a={a}
            rows={a.cross}
            label="Heads of cross-attention"
            mlps={null}
            place={null}
          />
        </>
      )}
    </>
  );
}

// ---- the view ------------------------------------------------------------------------------------

function Body({ scene, value }: { scene: AttributeScene; value: Prediction }) {
  const { method } = scene;
  const side = scene.run.sides[head_side(scene.run)]!;
  const position = value.effect.target.position;
  const facts = {
    answer: answer_words(value.effect),
    position,
    attention: scene.role.words,
  };
  if (scene.lens)
    return (
      <>
        <LensGrid
          lens={scene.lens}
          side={side}
          position={position}
          inks={{
            theme: theme.value,
            signed: false,
            top: 1,
            scale: "linear",
          }}
        />
        <Caption name="attribute.lens" facts={facts} />
      </>
    );
  const a = scene.attribution!;
  const inks = signed_inks(
    top_of(a.scores ?? [...(a.heads ?? []).flat(), ...(a.mlps ?? [])]),
  );
  return (
    <div class="beside">
      <section class="attributed" aria-label="Attributions">
        {a.scores && <ScoredTokens scene={scene} />}
        {a.heads && <ByHeads scene={scene} />}
        <ScaleLegend
          inks={inks}
          what={method === "attention" ? "weight × gradient" : "of the logit"}
        />
        <Caption name={"attribute." + method} facts={facts} />
      </section>
      <aside>
        <Sums scene={scene} value={value} />
        {a.heads && <Largest a={a} />}
        {method === "attention" && <HeadMap scene={scene} />}
      </aside>
    </div>
  );
}

function Computing({ progress }: { progress: Progress }) {
  return (
    <div class="doing" data-test="attribute-progress">
      <progress
        value={progress.done ?? undefined}
        max={progress.done === null ? undefined : 1}
        aria-label="Progress"
      />
      <span>{progress.what}</span>
      <button
        type="button"
        class="small"
        data-test="attribute-stop"
        onClick={() => go({ method: "gradient" })}
      >
        Stop
      </button>
    </div>
  );
}

export function AttributeView() {
  const { value, error } = usePrediction();
  const { value: scene, error: failed, progress } = useAttribution(value);
  const { method, case: c } = state.value;
  if (!value) return error ? <Problem text={error} /> : <Waiting />;
  const shown = scene && scene.method === method ? scene : null;
  return (
    <div class="view attribute-view">
      <Switch
        label="Method"
        name="method"
        value={method}
        options={METHODS}
        choose={(to) => go({ method: to })}
      />
      <div class="bar">
        {method === "attention" && <PlaceBar head={false} layer={false} />}
        <PredictionBar value={value} />
      </div>
      {c.changes && method !== "lens" && (
        <p class="notice" data-test="unchanged">
          Attributions are of the model without the changes; the logit lens
          shows the changed run.
        </p>
      )}
      <Problem text={error || failed} />
      {!value.effect.has_head && (
        <p class="notice" data-test="no-head">
          This model has no language-model head, so it predicts no tokens that
          could be attributed.
        </p>
      )}
      {progress && method !== "gradient" && <Computing progress={progress} />}
      {shown ? (
        <Body scene={shown} value={value} />
      ) : (
        value.effect.has_head && !failed && <Waiting />
      )}
    </div>
  );
}

