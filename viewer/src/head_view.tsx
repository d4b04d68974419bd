// The heads of a layer as lines from queries to keys.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Caption, CrossCaption } from "./caption";
import { CandidatesHere } from "./candidates_here";
import { Column, Focus } from "./head_column";
import { Chip, PlaceBar, Problem, Slider, Switch, Waiting } from "./controls";
import { head_colour } from "./palette";
import { Lines, Line } from "./head_lines";
import { HeadScene, HeadWeights, heads_shown, useHeadScene, WINDOW } from "./head_scene";
import { useWidth } from "./width";
import { KeyTable, RowTable } from "./row_table";
import { count_text, percent_text } from "./numbers";
import { Filter, Role, Side } from "./protocol";
import { run } from "./asking";
import { go, place_in, state, theme } from "./state";
import { row_labels, token_word } from "./token_label";

const STEP = 22; // pixels from token to token
const FAINTEST = 0.015; // lines below this opacity cannot be seen

const FILTERS: { value: Filter; label: string }[] = [
  { value: "all", label: "All" },
  { value: "aa", label: "A → A" },
  { value: "ab", label: "A → B" },
  { value: "ba", label: "B → A" },
  { value: "bb", label: "B → B" },
];

function passes(filter: Filter, from: number, to: number): boolean {
  return (
    filter === "all" || ("ab"[from] === filter[0] && "ab"[to] === filter[1])
  );
}

function lines_of(
  scene: HeadScene,
  focus: Focus | null,
  filter: Filter,
): Line[] {
  const { range, role } = scene;
  const from = scene.run.sides[role.row_side]!.part;
  const to = scene.run.sides[role.key_side]!.part;
  const out: Line[] = [];
  for (const h of scene.heads) {
    const colour = head_colour(h.head, theme.value);
    for (let r = 0; r < range.rows; r++) {
      if (focus?.side === "row" && focus.index !== range.row + r) continue;
      for (let k = 0; k < range.keys; k++) {
        if (focus?.side === "key" && focus.index !== range.key + k) continue;
        const weight = h.at(range.row + r, range.key + k);
        if (Math.abs(weight) < FAINTEST) continue;
        if (passes(filter, from[range.row + r], to[range.key + k])) {
          out.push({ from: r, to: k, weight, colour });
        }
      }
    }
  }
  return out;
}

function outside_share(scene: HeadScene): number {
  const { range } = scene;
  let inside = 0;
  for (const h of scene.heads) {
    for (let r = 0; r < range.rows; r++) {
      for (let k = 0; k < range.keys; k++)
        inside += h.at(range.row + r, range.key + k);
    }
  }
  return Math.max(0, 1 - inside / (range.rows * scene.heads.length));
}

function HeadChips({ role, heads }: { role: Role; heads: number[] }) {
  const toggle = (h: number) => {
    const next = heads.includes(h)
      ? heads.filter((x) => x !== h)
      : [...heads, h].sort((a, b) => a - b);
    if (next.length)
      go({
        heads: next,
        head: next.includes(state.value.head) ? state.value.head : next[0],
      });
  };
  return (
    <div class="chips" role="group" aria-label="Heads">
      {Array.from({ length: role.heads }, (_, h) => (
        <Chip
          key={h}
          on={heads.includes(h)}
          test={"head-chip-" + h}
          title={`Head ${h}`}
          colour={head_colour(h, theme.value)}
          toggle={() => toggle(h)}
        >
          {h}
        </Chip>
      ))}
      <button
        type="button"
        class="quiet"
        data-test="heads-all"
        onClick={() =>
          go({ heads: Array.from({ length: role.heads }, (_, h) => h) })
        }
      >
        all
      </button>
      <button
        type="button"
        class="quiet"
        data-test="heads-one"
        onClick={() => go({ heads: [heads[0]], head: heads[0] })}
      >
        one
      </button>
    </div>
  );
}

function WindowBar({
  role,
  start,
  move,
  scene,
}: {
  role: Role;
  start: number;
  move: (n: number) => void;
  scene: HeadScene;
}) {
  const last = Math.max(role.rows, role.keys) - WINDOW;
  if (scene.range.rows === role.rows && scene.range.keys === role.keys)
    return null;
  const { row, rows } = scene.range;
  return (
    <div class="bar">
      <Slider
        label="Tokens"
        test="window"
        min={0}
        max={last}
        value={start}
        change={move}
        text={`${count_text(row)}–${count_text(row + rows - 1)} of ${count_text(role.rows)}`}
      />
      <button type="button" onClick={() => move(Math.max(0, start - WINDOW))}>
        Earlier
      </button>
      <button
        type="button"
        onClick={() => move(Math.min(last, start + WINDOW))}
      >
        Later
      </button>
      <span data-test="outside" class="fact">
        <b>{percent_text(outside_share(scene))}</b> of the weight goes to tokens
        outside this window.
      </span>
    </div>
  );
}

function has_pair(side: Side | undefined): boolean {
  return !!side && side.part.includes(1);
}

// Lines of one head between two columns of tokens. Several heads are small multiples.
function HeadBox({
  scene,
  weights,
  focus,
  pinned,
  look,
}: {
  scene: HeadScene;
  weights: HeadWeights;
  focus: Focus | null;
  pinned: Focus | null;
  look: (f: Focus | null) => void;
}) {
  const { range, place } = scene;
  const { head } = weights;
  const { box, width } = useWidth();
  const filter = state.value.filter;
  const paper = theme.value;
  const mine = useMemo(() => ({ ...scene, heads: [weights] }), [scene, weights]);
  const lines = useMemo(
    () => lines_of(mine, focus, filter),
    [mine, focus?.side, focus?.index, filter, paper],
  );
  const sides = { scene: mine, focus, pinned, look };
  return (
    <figure>
      {scene.heads.length > 1 && (
        <figcaption>
          <span
            class="swatch"
            style={{ "--chip": head_colour(head, theme.value) }}
          />{" "}
          head {head}
        </figcaption>
      )}
      <div
        class="head-box"
        data-test="head-box"
        style={{ "--step": STEP + "px", "--heads": "1" }}
      >
        <span class="axis-name">queries</span>
        <span />
        <span class="axis-name">keys</span>
        <Column {...sides} side="row" />
        <div class="lines-box" ref={box}>
          <Lines
            lines={lines}
            step={STEP}
            width={width}
            height={Math.max(range.rows, range.keys) * STEP}
            label={`${lines.length} lines of layer ${place.layer}, head ${head}`}
          />
        </div>
        <Column {...sides} side="key" />
      </div>
    </figure>
  );
}

export function HeadView() {
  const r = run.value;
  const at = r && place_in(r, state.value);
  const start = useSignal(0);
  const wanted =
    at && at.token >= 0 ? at.token : at && at.key >= 0 ? at.key : -1;
  useEffect(() => {
    if (
      wanted >= 0 &&
      (wanted < start.value || wanted >= start.value + WINDOW)
    ) {
      start.value = Math.max(0, wanted - WINDOW / 2);
    }
  }, [wanted, r?.run]);
  const { value: scene, error } = useHeadScene(start.value);
  const [hover, look] = useState<Focus | null>(null);
  const { token, key, filter } = state.value;
  const pinned: Focus | null =
    token >= 0
      ? { side: "row", index: token }
      : key >= 0
        ? { side: "key", index: key }
        : null;
  const focus = hover ?? pinned;
  if (!at) return <Waiting />;
  const heads = heads_shown(at.role.heads, state.value.heads, at.place.head);
  if (!scene)
    return error ? (
      <>
        <PlaceBar head={false} />
        <Problem text={error} />
      </>
    ) : (
      <Waiting />
    );
  const { role } = scene;
  const pair =
    role.row_side === role.key_side && has_pair(scene.run.sides[role.row_side]);
  const labels = row_labels(scene.run, role);
  return (
    <div class="view head-view">
      <PlaceBar head={false}>
        <HeadChips role={role} heads={heads} />
        {pair && (
          <Switch
            label="Sentences"
            name="filter"
            value={filter}
            options={FILTERS}
            choose={(value) => go({ filter: value })}
          />
        )}
      </PlaceBar>
      <WindowBar
        role={role}
        scene={scene}
        start={start.value}
        move={(n) => (start.value = n)}
      />
      <div class="beside">
        <div class={heads.length > 1 ? "head-multiples" : ""}>
          {scene.heads.map((h) => (
            <HeadBox
              key={h.head}
              scene={scene}
              weights={h}
              focus={focus}
              pinned={pinned}
              look={look}
            />
          ))}
        </div>
        <aside class="row-side">
          {focus?.side === "key" ? (
            <KeyTable scene={scene} index={focus.index} />
          ) : (
            <RowTable
              scene={scene}
              row={focus ? focus.index : -1}
              caption="Point at a token, or press Enter on it to pin it: its weights are listed here."
            />
          )}
          {token >= 0 && token < role.rows && (
            <CandidatesHere run={scene.run} role={role} token={token} />
          )}
        </aside>
      </div>
      <Caption
        name={focus?.side === "row" ? "head.token" : "head"}
        facts={{
          attention: role.words,
          least: FAINTEST,
          query:
            focus?.side === "row"
              ? token_word(labels[focus.index])
              : "",
        }}
      />
      <CrossCaption role={role} labels={labels} row={token} />
    </div>
  );
}
