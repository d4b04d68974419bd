// Two models, or two texts of different lengths, side by side: what can be compared though
// tokens, layers and heads differ.

import { useSignal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import {
  BesideScene,
  place_beside,
  useBeside,
  useWords,
  Words,
  WordScene,
} from "./beside_scene";
import { BesideHeads } from "./beside_heads";
import { BesidePatterns } from "./beside_patterns";
import { Caption } from "./caption";
import { Problem, Stepper, Waiting } from "./controls";
import { ScaleLegend } from "./heat";
import { At, MatrixPane, Sight } from "./matrix_pane";
import { MatrixPlot } from "./matrix_plot";
import { spoken_cell } from "./matrix_view";
import { compact_text, percent_text, weight_text } from "./numbers";
import { Place, Role, Run, Side, Summary } from "./protocol";
import { go, state } from "./state";
import { TileSpec } from "./tiles";

export const OUTSIDE = "no word"; // the column of tokens that are in no word

const side_of = (tokens: string[]): Side => ({
  tokens,
  labels: tokens,
  ids: tokens.map(() => 0),
  part: tokens.map(() => 0),
  special: [],
  real: tokens.length,
});

// Words as tokens of a run of their own: a column more than rows keeps the causal mask.
function word_spec(
  run: Run,
  role: Role,
  place: Place,
  words: string[],
  id: string,
  weights: Float32Array,
  signed: boolean,
): TileSpec {
  return {
    run: {
      ...run,
      sides: {
        decoder: side_of(words),
        encoder: side_of([OUTSIDE, ...words]),
      },
    },
    role: {
      ...role,
      rows: words.length,
      keys: words.length + 1,
      real_keys: words.length + 1,
      window: 0,
      row_side: "decoder",
      key_side: "encoder",
      signed,
    },
    place,
    pool: "max",
    axes: { rows: "words as queries", keys: "words as keys" },
    given: { id, values: async () => weights },
  };
}

function specs_of(scene: WordScene): TileSpec[] {
  const { a, b, places, roles, runs } = scene;
  const id = [places, runs.map((r) => r.run)].flat().map((p) => JSON.stringify(p));
  const difference = a.weights.map((w, i) => w - b.weights[i]);
  const both = { ...roles[0], causal: roles[0].causal && roles[1].causal };
  const make = (i: 0 | 1, w: Words) =>
    word_spec(runs[i], roles[i], places[i], a.words, "words" + i + id, w.weights, roles[i].signed);
  return [
    make(0, a),
    word_spec(runs[0], both, places[0], a.words, "between" + id, difference, true),
    make(1, b),
  ];
}

function WordCell({ scene, at }: { scene: WordScene; at: At | null }) {
  const { a, b } = scene;
  const n = a.words.length;
  if (!at || at.row >= n || at.key > n)
    return (
      <p class="faint hint">
        Point at a cell of any map to read both weights. Weights are summed over
        the tokens of a word as keys and averaged over them as queries; {OUTSIDE}{" "}
        is all tokens that belong to none, such as [CLS].
      </p>
    );
  const [x, y] = [a, b].map((w) => w.weights[at.row * (n + 1) + at.key]);
  const key = at.key ? a.words[at.key - 1] : OUTSIDE;
  return (
    <p
      class="reading"
      data-test="word-cell"
      data-row={at.row}
      data-key={at.key}
      data-a={x}
      data-b={y}
      data-number={x - y}
    >
      {a.words[at.row]} → {key}: {weight_text(x)} − {weight_text(y)} ={" "}
      <b>{weight_text(x - y)}</b>
    </p>
  );
}

function WordMaps({ scene, names }: { scene: WordScene; names: string[] }) {
  const together = useRef<MatrixPlot[]>([]);
  const hover = useSignal<At | null>(null);
  const pinned = useSignal<At | null>(null);
  const sights = useSignal<(Sight | null)[]>([null, null, null]);
  const specs = useMemo(() => specs_of(scene), [scene]);
  const mark = hover.value ?? pinned.value;
  const titles = [names[0], "difference: first − second", names[1]];
  const see = (i: number) => (s: Sight) => {
    sights.value = sights.value.map((x, at) => (at === i ? s : x));
  };
  const place = (i: number) =>
    i === 1
      ? ""
      : `, layer ${scene.places[i / 2].layer}, head ${scene.places[i / 2].head}`;
  return (
    <>
      <WordCell scene={scene} at={mark} />
      <div class="compare-maps" data-test="word-maps">
        {specs.map((spec, i) => (
          <figure key={i}>
            <figcaption>
              {titles[i]}
              {place(i)}
            </figcaption>
            <MatrixPane
              spec={spec}
              scale="root"
              mark={mark}
              beside={together.current}
              test={"words-" + ["a", "difference", "b"][i]}
              buttons={i === 2}
              words={spoken_cell}
              see={see(i)}
              hover={(at) => (hover.value = at)}
              press={(at) => (pinned.value = at)}
              label={`${titles[i]}${place(i)}, word by word`}
            />
            {sights.value[i] && (
              <ScaleLegend inks={sights.value[i]!.inks} what="weight" />
            )}
          </figure>
        ))}
      </div>
    </>
  );
}

const facts: [string, (s: Summary, r: Run) => string][] = [
  ["tokens", (s) => String(s.rows)],
  ["layers × heads", (s) => `${s.layers} × ${s.heads}`],
  [
    "mask",
    (s) => (s.causal ? "causal: earlier tokens only" : "none: all tokens"),
  ],
  ["visible pairs (query, key)", (s) => percent_text(s.visible)],
  [
    "weight on later tokens",
    (s) => {
      const later = s.later[s.layers];
      return later === null ? "–" : percent_text(later);
    },
  ],
  ["mean entropy (nats)", (s) => compact_text(s.entropy[s.layers])],
  [
    "mean entropy, share of the largest possible",
    (s) => {
      const broad = s.broad[s.layers];
      return broad === null ? "–" : percent_text(broad);
    },
  ],
];

function Facts({ scene, names }: { scene: BesideScene; names: string[] }) {
  const { first, second } = scene.beside;
  return (
    <div class="scroll-x">
      <table class="beside-facts" data-test="beside-facts">
        <thead>
          <tr>
            <th scope="col">
              <span class="hidden">quantity</span>
            </th>
            {names.map((name, i) => (
              <th scope="col" key={i}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {facts.map(([name, text]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{text(first, scene.run)}</td>
              <td>{text(second, scene.other)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function HeadsByWords({
  scene,
  role,
  place,
  names,
}: {
  scene: BesideScene;
  role: Role;
  place: Place;
  names: string[];
}) {
  const { run, other } = scene;
  const second = place_beside(state.value, role, place, other);
  const { value, error, fresh } = useWords(
    [run, other],
    [role, second.role],
    [place, second.place],
  );
  return (
    <section class="beside-words">
      <div class="bar">
        <Stepper
          label={`Layer of ${names[1]}`}
          test="other-layer"
          value={second.place.layer}
          count={second.role.layers}
          change={(n) => go({ other_layer: n })}
        />
        <Stepper
          label={`Head of ${names[1]}`}
          test="other-head"
          value={second.place.head}
          count={second.role.heads}
          change={(n) =>
            go({ other_layer: second.place.layer, other_head: n })
          }
        />
      </div>
      <Problem text={error} />
      {!value && !error && <Waiting />}
      {value &&
        (value.a.why ? (
          <p class="hint" data-test="no-words">
            No maps word by word: {value.a.why}.
          </p>
        ) : (
          <div class={fresh ? "" : "stale"}>
            <WordMaps
              key={value.runs[0].run + value.runs[1].run}
              scene={value}
              names={names}
            />
          </div>
        ))}
    </section>
  );
}

export function BesideView({
  run,
  other,
  role,
  place,
  names,
  why,
  words,
}: {
  run: Run;
  other: Run;
  role: Role;
  place: Place;
  names: string[];
  why: string; // why there is no distance
  words: boolean; // the maps are by words
}) {
  const { value: scene, error } = useBeside(run, other, role.role);
  if (!scene) return error ? <Problem text={error} /> : <Waiting />;
  return (
    <div class="beside-view" data-test="beside">
      <Caption
        name="beside"
        facts={{ first: names[0], second: names[1] }}
      />
      {why && (
        <p class="hint" data-test="no-distance">
          No distance of heads: {why}. What both have can be compared: words,
          patterns, entropy.
        </p>
      )}
      <Facts scene={scene} names={names} />
      {words && (
        <HeadsByWords scene={scene} role={role} place={place} names={names} />
      )}
      <BesidePatterns scene={scene} names={names} />
      <BesideHeads scene={scene} role={role} place={place} names={names} />
    </div>
  );
}
