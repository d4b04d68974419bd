// One head's whole matrix, from far away to single weights.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { run, useScene } from "./asking";
import { Caption, CrossCaption } from "./caption";
import { PlaceBar, Problem, Switch, Waiting } from "./controls";
import { ask_block } from "./head_scene";
import { ScaleLegend } from "./heat";
import { cross_words, is_masked, masks_of } from "./masks";
import { At, MatrixPane, Sight } from "./matrix_pane";
import { MatrixPlot } from "./matrix_plot";
import { count_text, weight_text } from "./numbers";
import { Inks } from "./palette";
import { Role } from "./protocol";
import { RowTable } from "./row_table";
import { go, place_in, say, state } from "./state";
import { spec_key, TileSpec } from "./tiles";
import { row_labels, TokenLabel, token_text } from "./token_label";

function current_spec(): TileSpec | null {
  const r = run.value;
  if (!r) return null;
  const { role, place } = place_in(r, state.value);
  return { run: r, role, place, pool: state.value.pool };
}

function CellFacts({
  spec,
  at,
  plot,
}: {
  spec: TileSpec;
  at: At;
  plot: MatrixPlot;
}) {
  const { run: r, role, place } = spec;
  const found = plot.value_at(at.row, at.key);
  const masked = is_masked(role, at.row, at.key);
  const rough = !!found && (found.tile.level > 0 || !found.tile.precise);
  const key = rough && !masked ? [spec_key(spec), at.row, at.key].join() : null;
  // The exact weight, once the pointer rests: the drawn value is pooled.
  const exact = useScene(key, async (signal) => {
    await new Promise((done) => setTimeout(done, 150));
    if (signal.aborted) throw new Error("passed over");
    const read = await ask_block(
      r,
      role,
      place,
      { row: at.row, rows: 1, key: at.key, keys: 1 },
      signal,
    );
    return { key, weight: read(at.row, at.key) };
  });
  const own = exact.value?.key === key ? exact.value?.weight : undefined;
  const value = rough ? own : found?.value;
  const side = 2 ** (found?.tile.level ?? 0);
  return (
    <dl
      class="facts"
      data-test="cell"
      data-row={at.row}
      data-key={at.key}
      data-number={value ?? ""}
    >
      <dt>query</dt>
      <dd>
        <TokenLabel token={row_labels(r, role)[at.row]} />{" "}
        <span class="index">{at.row}</span>
      </dd>
      <dt>key</dt>
      <dd>
        <TokenLabel token={r.sides[role.key_side]!.labels[at.key]} />{" "}
        <span class="index">{at.key}</span>
      </dd>
      <dt>weight</dt>
      <dd class="number" data-test="cell-weight">
        {masked
          ? `hidden: ${masked}`
          : value === undefined
            ? "…"
            : weight_text(value)}
      </dd>
      {side > 1 && found && (
        <>
          <dt>
            {spec.pool} of {side} × {side}
          </dt>
          <dd class="number">{weight_text(found.value)}</dd>
        </>
      )}
    </dl>
  );
}

function Legend({ role, inks }: { role: Role; inks: Inks }) {
  const cross = cross_words(role);
  return (
    <div class="legend" data-test="legend">
      <ScaleLegend inks={inks} what="weight" />
      {masks_of(role).map((m) => (
        <p key={m.id} class="mask-line" data-test={"mask-" + m.id}>
          <span class={"hatch " + m.id} aria-hidden="true" /> <b>{m.title}</b>:{" "}
          {m.why}
        </p>
      ))}
      {cross && (
        <p class="mask-line" data-test="mask-cross">
          {cross}
        </p>
      )}
    </div>
  );
}

function Refine({ sight }: { sight: Sight }) {
  const at = useSignal<{ share: number; what: string } | null>(null);
  const failed = useSignal("");
  const control = useRef<AbortController | null>(null);
  useEffect(() => () => control.current?.abort(), []);
  const start = async () => {
    const { plot } = sight;
    const mine = (control.current = new AbortController());
    const tiles = plot.seen.filter((t) => t.sampled);
    failed.value = "";
    at.value = { share: 0, what: "Starting" };
    try {
      await plot.store.refine(
        tiles,
        (p, i) => {
          at.value = {
            share: (i + (p.done ?? 0)) / tiles.length,
            what: p.what,
          };
        },
        mine.signal,
      );
      say("This part is computed exactly now.");
    } catch (e) {
      if (!mine.signal.aborted)
        failed.value = e instanceof Error ? e.message : String(e);
    }
    at.value = null;
  };
  if (at.value) {
    return (
      <div class="refine" data-test="refining">
        <progress
          value={at.value.share}
          max={1}
          aria-label="Computing exactly"
        />
        <span>{at.value.what}</span>
        <button type="button" onClick={() => control.current?.abort()}>
          Stop
        </button>
      </div>
    );
  }
  if (sight.sampled === 0) return <Problem text={failed.value} />;
  return (
    <div class="refine">
      <span data-test="sampled">
        Sampled: computed from some rows of each cell.
      </span>
      <button type="button" data-test="refine" onClick={start}>
        Compute exactly
      </button>
      <Problem text={failed.value} />
    </div>
  );
}

export function MatrixView() {
  const spec = current_spec();
  const hover = useSignal<At | null>(null);
  const sight = useSignal<Sight | null>(null);
  if (!spec) return <Waiting />;
  const { token, key } = state.value;
  const mark =
    hover.value ?? (token >= 0 && key >= 0 ? { row: token, key } : null);
  const shown = sight.value?.spec ?? spec;
  const label =
    `Attention of layer ${shown.place.layer}, head ${shown.place.head}: ` +
    `${count_text(shown.role.rows)} queries by ${count_text(shown.role.keys)} keys`;
  const inside =
    mark && mark.row < shown.role.rows && mark.key < shown.role.keys;
  const row = mark ? mark.row : token;
  const side = 2 ** (sight.value?.level ?? 0);
  return (
    <div class="view matrix-view">
      <PlaceBar>
        <Switch
          label="Cell shows"
          name="pool"
          value={state.value.pool}
          options={[
            { value: "max", label: "largest" },
            { value: "mean", label: "mean" },
          ]}
          choose={(pool) => go({ pool })}
        />
        <Switch
          label="Colour"
          name="scale"
          value={state.value.colour}
          options={[
            {
              value: "root",
              label: "root",
              title: "square root: shows small weights",
            },
            { value: "linear", label: "linear" },
          ]}
          choose={(colour) => go({ colour })}
        />
      </PlaceBar>
      <Problem text={sight.value?.error ?? ""} />
      <div class="beside">
        <MatrixPane
          spec={spec}
          label={label}
          scale={state.value.colour}
          mark={mark}
          describedby="matrix-keys"
          see={(s) => (sight.value = s)}
          hover={(at) => (hover.value = at)}
          words={spoken_cell}
        />
        <aside class="matrix-side">
          {inside && sight.value ? (
            <CellFacts spec={shown} at={mark} plot={sight.value.plot} />
          ) : (
            <p class="faint hint">
              Point at a cell to read its weight; press to pin it.
            </p>
          )}
          {row >= 0 && row < shown.role.rows && (
            <div class="row-details" data-test="row-details">
              <RowTable
                row={row}
                caption=""
                scene={{
                  run: shown.run,
                  role: shown.role,
                  place: shown.place,
                  range: {
                    row: 0,
                    rows: shown.role.rows,
                    key: 0,
                    keys: shown.role.keys,
                  },
                  heads: [{ head: shown.place.head, at: () => NaN }],
                }}
              />
            </div>
          )}
          {sight.value && <Legend role={shown.role} inks={sight.value.inks} />}
          {sight.value && <Refine sight={sight.value} />}
          <p class="faint hint" id="matrix-keys">
            {side > 1 &&
              `A cell is ${count_text(side)} × ${count_text(side)} tokens. `}
            Drag or arrow keys move, the wheel, a pinch or + and − zoom, 0 shows
            all, Shift and arrows move the marked cell.
          </p>
        </aside>
      </div>
      <Caption name="matrix" facts={{ attention: shown.role.words }} />
      <CrossCaption
        role={shown.role}
        labels={row_labels(shown.run, shown.role)}
        row={token}
      />
    </div>
  );
}

export function spoken_cell(p: MatrixPlot, at: At): string {
  const { run: r, role } = p.store.spec;
  const masked = is_masked(role, at.row, at.key);
  const found = p.value_at(at.row, at.key);
  const words =
    `${token_text(row_labels(r, role)[at.row])} attends to ` +
    token_text(r.sides[role.key_side]!.labels[at.key]);
  return (
    words +
    (masked
      ? `: masked, ${masked}`
      : found
        ? `: ${weight_text(found.value)}`
        : "")
  );
}
