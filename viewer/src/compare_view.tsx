// One head under two conditions: both maps, their difference, and the distance of all
// heads.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import {
  ask_json,
  other_asked,
  other_problem,
  other_run,
  run,
  run_asked,
  Scene,
  useScene,
} from "./asking";
import { Caption } from "./caption";
import {
  CompareChoice,
  compared_form,
  kind_of,
  settle_other,
  takes_forms,
} from "./compare_choice";
import { BesideView } from "./beside_view";
import { CompareFacts, DistanceGrid } from "./compare_facts";
import { PlaceBar, Problem, Waiting } from "./controls";
import { ScaleLegend } from "./heat";
import { At, MatrixPane, Sight } from "./matrix_pane";
import { MatrixPlot } from "./matrix_plot";
import { spoken_cell } from "./matrix_view";
import { weight_text } from "./numbers";
import { canonical, Comparison, Place, Role, Run } from "./protocol";
import { place_in, state } from "./state";
import { TileSpec } from "./tiles";
import { row_labels, TokenLabel } from "./token_label";

export interface CompareScene {
  run: Run;
  other: Run | null; // null: the same run, under another form in one head
  form: string;
  role: Role;
  comparison: Comparison;
}

function useComparison(): Scene<CompareScene> {
  const r = run.value;
  const { other: wanted, case: c } = state.value;
  const other = wanted ? other_run.value : null;
  const waiting = wanted && (!other || other_asked.value !== canonical(wanted));
  const unsettled = !wanted && !takes_forms(); // until settle_other has chosen
  const ready = r && run_asked.value === canonical(c) && !waiting && !unsettled;
  const role = r && place_in(r, state.value).role;
  const form = compared_form();
  const key =
    ready && role ? [r.run, role.role, other ? other.run : form].join() : null;
  return useScene(key, async (signal) => {
    const against = other ? { other: other.run } : { attention: form };
    const comparison = await ask_json<Comparison>(
      "compare",
      { run: r!.run, role: role!.role, ...against },
      signal,
    );
    return { run: r!, other, form, role: role!, comparison };
  });
}

function specs_of(
  scene: CompareScene,
  place: Place,
): { a: TileSpec; b: TileSpec; difference: TileSpec | null } | null {
  const { run: r, other, form, role } = scene;
  const pool = state.value.pool;
  const other_role = other
    ? other.roles.find((x) => x.role === role.role)
    : role;
  if (!other_role) return null;
  const a: TileSpec = { run: r, role, place, pool };
  const fit = {
    ...place,
    layer: Math.min(place.layer, other_role.layers - 1),
    head: Math.min(place.head, other_role.heads - 1),
  };
  const b: TileSpec = other
    ? { run: other, role: other_role, place: fit, pool }
    : { ...a, attention: form };
  const same =
    other_role.rows === role.rows &&
    other_role.keys === role.keys &&
    fit.layer === place.layer &&
    fit.head === place.head;
  const minus = other ? { run: other } : { run: r, attention: form };
  return { a, b, difference: same ? { ...a, minus } : null };
}

const WORDS = {
  form: (s: CompareScene) => [
    s.run.case.attention,
    s.other ? s.other.case.attention : s.form,
  ],
  untrained: (s: CompareScene) =>
    s.run.case.untrained ? ["untrained", "trained"] : ["trained", "untrained"],
  text: () => ["this text", "the other text"],
  model: (s: CompareScene) => [s.run.model.name, s.other?.model.name ?? ""],
  step: (s: CompareScene) => [
    `step ${s.run.case.step}`,
    `step ${s.other?.case.step}`,
  ],
};

// Both weights and their difference at the cell under the pointer.
function Cell({
  at,
  sights,
  scene,
}: {
  at: At | null;
  sights: (Sight | null)[];
  scene: CompareScene;
}) {
  const tokens = (side: "row_side" | "key_side") =>
    scene.run.sides[scene.role[side]]!.labels;
  if (!at || at.row >= scene.role.rows || at.key >= scene.role.keys) {
    return (
      <p class="faint hint">
        Point at a cell of any map to read both weights; the three move
        together.
      </p>
    );
  }
  const read = (i: number) => sights[i]?.plot.value_at(at.row, at.key)?.value;
  const [a, difference, b] = [read(0), read(1), read(2)];
  return (
    <p
      class="reading"
      data-test="compare-cell"
      data-row={at.row}
      data-key={at.key}
      data-a={a}
      data-b={b}
      data-number={difference}
    >
      <TokenLabel token={row_labels(scene.run, scene.role)[at.row]} /> →{" "}
      <TokenLabel token={tokens("key_side")[at.key]} />: {weight_text(a ?? NaN)}{" "}
      − {weight_text(b ?? NaN)} = <b>{weight_text(difference ?? NaN)}</b>
    </p>
  );
}

function Maps({ scene, place }: { scene: CompareScene; place: Place }) {
  const together = useRef<MatrixPlot[]>([]);
  const hover = useSignal<At | null>(null);
  const sights = useSignal<(Sight | null)[]>([null, null, null]);
  const specs = specs_of(scene, place);
  const { token, key, case: c, other } = state.value;
  if (!specs) return <p class="hint">The other model has no attention of this role.</p>;
  const names = WORDS[scene.other ? kind_of(c, other) : "form"](scene);
  const mark =
    hover.value ?? (token >= 0 && key >= 0 ? { row: token, key } : null);
  const panes = [
    { id: "a", title: names[0], spec: specs.a },
    { id: "difference", title: "first − second", spec: specs.difference },
    { id: "b", title: names[1], spec: specs.b },
  ];
  const see = (i: number) => (s: Sight) => {
    sights.value = sights.value.map((x, at) => (at === i ? s : x));
  };
  return (
    <>
      <Cell at={mark} sights={sights.value} scene={scene} />
      <div class="compare-maps">
        {panes.map((p, i) => (
          <figure key={p.id}>
            <figcaption>{p.title}</figcaption>
            {p.spec ? (
              <>
                <MatrixPane
                  spec={p.spec}
                  scale="root"
                  mark={mark}
                  beside={together.current}
                  test={"map-" + p.id}
                  buttons={p.id === "b"}
                  words={spoken_cell}
                  see={see(i)}
                  hover={(at) => (hover.value = at)}
                  label={`${p.title}, layer ${place.layer}, head ${place.head}`}
                />
                {sights.value[i] && (
                  <ScaleLegend inks={sights.value[i]!.inks} what="" />
                )}
                <Problem text={sights.value[i]?.error ?? ""} />
              </>
            ) : (
              <p class="faint hint no-difference">
                {scene.comparison.why || "Rows cannot be matched."}
              </p>
            )}
          </figure>
        ))}
      </div>
      <Caption
        name="compare"
        facts={{
          attention: scene.role.words,
          first: names[0],
          second: names[1],
        }}
      />
    </>
  );
}

export function CompareView() {
  const { case: c, other, form } = state.value;
  useEffect(settle_other, [c, other, form]);
  const { value: scene, error, fresh } = useComparison();
  // The role that is drawn: the chosen one may still be loading.
  const place =
    scene &&
    place_in(scene.run, { ...state.value, role: scene.role.role }).place;
  const other_model =
    scene?.other && scene.other.model.id !== scene.run.model.id;
  // Nothing can be subtracted, not even with maps side by side.
  const apart = scene?.other && scene.comparison.why && other_model;
  return (
    <div class="view compare-view">
      <PlaceBar>
        <CompareChoice />
      </PlaceBar>
      <Problem text={other_problem.value || error} />
      {!scene && !error && !other_problem.value && <Waiting />}
      {scene && !other_problem.value && place && (
        <div class={fresh ? "compare-body" : "compare-body stale"}>
          {!apart && <Maps scene={scene} place={place} />}
          {!scene.comparison.why && (
            <div class="compare-numbers">
              <CompareFacts scene={scene} place={place} />
              <DistanceGrid scene={scene} place={place} />
            </div>
          )}
          {scene.other && (scene.comparison.why || other_model) && (
            <BesideView
              run={scene.run}
              other={scene.other}
              role={scene.role}
              place={place}
              names={WORDS[kind_of(c, other)](scene)}
              why={scene.comparison.why}
              words={!!apart}
            />
          )}
        </div>
      )}
    </div>
  );
}
