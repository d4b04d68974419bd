// Overview of the model: every head of every layer as a small map, with its pattern.

import { useMemo } from "preact/hooks";
import { ask_binary, ask_json, run, useScene } from "./asking";
import { Caption } from "./caption";
import { Chip, PlaceBar, Problem, rove, Waiting } from "./controls";
import { Answer } from "./decode";
import { Cell, Heat, ScaleLegend } from "./heat";
import { is_masked, masks_of } from "./masks";
import { clamp, count_text, weight_text } from "./numbers";
import { Inks } from "./palette";
import { Patterns, Role, Run } from "./protocol";
import { go, place_in, state, theme } from "./state";

const SIZE = 48;
const RANKED = 12; // how many of the best heads stand first

interface ModelScene {
  run: Run;
  role: Role;
  thumbs: Answer;
  patterns: Patterns | null; // they take longer, and the picture does not wait
}

function useModelScene() {
  const r = run.value;
  const role = r && place_in(r, state.value).role;
  const key = r && role ? r.run + role.role : null;
  const thumbs = useScene(key, async (signal) => ({
    run: r!,
    role: role!,
    key,
    thumbs: await ask_binary(
      "thumbs",
      { run: r!.run, role: role!.role, size: SIZE },
      signal,
    ),
  }));
  const patterns = useScene(key, async (signal) => ({
    key,
    patterns: await ask_json<Patterns>(
      "patterns",
      { run: r!.run, role: role!.role },
      signal,
    ),
  }));
  const same = thumbs.value && patterns.value?.key === thumbs.value.key;
  const value: ModelScene | null = thumbs.value && {
    ...thumbs.value,
    patterns: same ? patterns.value!.patterns : null,
  };
  return { value, error: thumbs.error || patterns.error };
}

interface HeadFacts {
  layer: number;
  head: number;
  score: number | null; // of the chosen pattern
  does: string;
}

function facts_of(scene: ModelScene, sort: string): HeadFacts[][] {
  const p = scene.patterns;
  const at = p ? p.names.indexOf(sort) : -1;
  return Array.from({ length: scene.role.layers }, (_, layer) =>
    Array.from({ length: scene.role.heads }, (_, head) => ({
      layer,
      head,
      score: p && at >= 0 ? p.scores[layer][head][at] : null,
      does: p ? p.does[layer][head] : "",
    })),
  );
}

// A cell of a thumbnail is hidden if every pair in it is.
function hidden_cells(role: Role, height: number, width: number) {
  if (masks_of(role).length === 0) return undefined;
  const from = (i: number, of: number, n: number) => Math.floor((i * n) / of);
  const last = (i: number, of: number, n: number) => from(i + 1, of, n) - 1;
  return ({ row, column }: Cell) => {
    const rows = [from(row, height, role.rows), last(row, height, role.rows)];
    const keys = [from(column, width, role.keys), last(column, width, role.keys)];
    return rows.every((r) => keys.every((k) => is_masked(role, r, k)));
  };
}

function Thumb({
  scene,
  facts,
  sort,
  first,
}: {
  scene: ModelScene;
  facts: HeadFacts;
  sort: string;
  first: boolean;
}) {
  const { layer, head, score } = facts;
  const [, heads, height, width] = scene.thumbs.parts.cells.shape;
  const index = layer * heads + head;
  const cells = useMemo(
    () =>
      (scene.thumbs.parts.cells.data as Uint8Array).subarray(
        index * height * width,
        (index + 1) * height * width,
      ),
    [scene.thumbs, index],
  );
  const inks: Inks = {
    theme: theme.value,
    signed: false,
    top: 255,
    scale: "root",
  };
  const hidden = useMemo(
    () => hidden_cells(scene.role, height, width),
    [scene.role, height, width],
  );
  const most = scene.thumbs.parts.most.data[index];
  const p = scene.patterns;
  const does = facts.does && p ? p.labels[p.names.indexOf(facts.does)] : "";
  const label = sort ? (score === null ? "–" : score.toFixed(2)) : does;
  const chosen = state.value.layer === layer && state.value.head === head;
  const words =
    `Layer ${layer}, head ${head}${does ? ": " + does : ""}` +
    (sort && score !== null ? `, ${sort} score ${score.toFixed(2)}` : "") +
    `, largest weight ${weight_text(most)}`;
  return (
    <button
      type="button"
      class={chosen ? "thumb chosen" : "thumb"}
      title={words}
      aria-label={words}
      data-rove
      data-test="thumb"
      data-layer={layer}
      data-head={head}
      data-number={score ?? ""}
      tabIndex={first ? 0 : -1}
      style={sort ? { "--shown": String(0.2 + 0.8 * (score ?? 0)) } : undefined}
      onClick={() => go({ view: "head", layer, head, heads: [head] })}
    >
      <Heat
        values={cells}
        rows={height}
        columns={width}
        inks={inks}
        label=""
        ratio={1}
        hidden={hidden}
      />
      <span class="thumb-label" data-test="thumb-label">
        {label || "\u00a0"}
      </span>
    </button>
  );
}

// A causal model cannot attend to the next token: no chip for patterns that cannot
// occur.
function applies(p: Patterns, at: number): boolean {
  return p.scores.some((layer) => layer.some((head) => head[at] !== null));
}

function Chips({ patterns }: { patterns: Patterns }) {
  const sort = state.value.sort;
  const about = patterns.about[patterns.names.indexOf(sort)];
  return (
    <div class="chips-box">
      <div class="chips" role="group" aria-label="Sort heads by pattern">
        {patterns.names.map(
          (name, i) =>
            applies(patterns, i) && (
              <Chip
                key={name}
                on={sort === name}
                test={"pattern-" + name}
                title={patterns.about[i]}
                toggle={() => go({ sort: sort === name ? "" : name })}
              >
                {patterns.labels[i]}
              </Chip>
            ),
        )}
      </div>
      <p class="faint hint">
        {about ||
          "Choose a pattern to sort the heads by its score, from 0 to 1."}
      </p>
    </div>
  );
}

function Ranked({
  scene,
  all,
  sort,
}: {
  scene: ModelScene;
  all: HeadFacts[][];
  sort: string;
}) {
  const ranked = all
    .flat()
    .filter((f) => f.score !== null)
    .sort((a, b) => b.score! - a.score!)
    .slice(0, RANKED);
  if (ranked.length === 0)
    return <p class="hint">This pattern does not apply to this text.</p>;
  return (
    <section aria-label={"Heads by " + sort}>
      <div class="ranked" data-test="ranked">
        {ranked.map((f) => (
          <div key={f.layer * 1000 + f.head} class="ranked-one">
            <span class="ranked-place">
              {f.layer}.{f.head}
            </span>
            <Thumb scene={scene} facts={f} sort={sort} first />
          </div>
        ))}
      </div>
    </section>
  );
}

// The patterns that heads of this run follow, and which heads.
function PatternList({ patterns: p }: { patterns: Patterns }) {
  const heads = (name: string) =>
    p.does.flatMap((layer, l) =>
      layer.flatMap((does, h) => (does === name ? [`${l}.${h}`] : [])),
    );
  const found = p.names.filter((name) => heads(name).length > 0);
  if (found.length === 0) return null;
  return (
    <dl class="pattern-list" data-test="pattern-list">
      {found.map((name) => (
        <div key={name}>
          <dt>{p.labels[p.names.indexOf(name)]}</dt>
          <dd class="faint">{heads(name).join(", ")}</dd>
        </div>
      ))}
    </dl>
  );
}

export function ModelView() {
  const { value: scene, error } = useModelScene();
  const sort = state.value.sort;
  if (!scene) return error ? <Problem text={error} /> : <Waiting />;
  const { role, patterns } = scene;
  const all = facts_of(scene, sort);
  const looked = patterns && patterns.rows_looked < patterns.rows;
  const chosen = place_in(scene.run, state.value).place;
  return (
    <div class="view model-view">
      <PlaceBar head={false} layer={false} />
      {patterns && <Chips patterns={patterns} />}
      <Problem text={error} />
      {sort && patterns && <Ranked scene={scene} all={all} sort={sort} />}
      <div class={role.heads <= 5 ? "beside" : "model-stack"}>
      <div class="scroll-x">
          <div
            class="thumbs"
            role="group"
            aria-label={`${role.layers} layers of ${role.heads} heads`}
            data-test="thumbs"
            onKeyDown={(e) => rove(e, role.heads)}
            style={{
              gridTemplateColumns: `auto repeat(${role.heads}, minmax(44px, ${clamp(1120 / role.heads, 56, 220)}px))`,
            }}
          >
            <span class="axis-name">head</span>
            {Array.from({ length: role.heads }, (_, h) => (
              <span key={h} class="axis">
                {h}
              </span>
            ))}
            {all.map((layer, l) => [
              <span key={"l" + l} class="axis layer-axis">
                <span class="faint wide">layer </span>
                {l}
              </span>,
              ...layer.map((f) => (
                <Thumb
                  key={l * 1000 + f.head}
                  scene={scene}
                  facts={f}
                  sort={sort}
                  first={chosen.layer === l && chosen.head === f.head}
                />
              )),
            ])}
          </div>
        </div>
        <aside class="model-side">
          <ScaleLegend
            inks={{ theme: theme.value, signed: false, top: 1, scale: "root" }}
            what=""
            high="the head's largest weight"
          />
          {masks_of(role).map((m) => (
            <p key={m.id} class="mask-line">
              <span class="hatch" aria-hidden="true" /> <b>{m.title}</b>
              : {m.why}
            </p>
          ))}
      <Caption name="model" facts={{ attention: role.words }} />
          {looked && (
            <p class="faint hint">
              Scores are from {count_text(patterns.rows_looked)} of{" "}
              {count_text(patterns.rows)} rows.
            </p>
          )}
          {patterns && <PatternList patterns={patterns} />}
        </aside>
      </div>
    </div>
  );
}
