// Changing what the model computes: heads, MLPs and the residual stream, and what follows.

import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useId, useRef } from "preact/hooks";
import { ActiveChanges } from "./active_changes";
import { source } from "./asking";
import { Caption } from "./caption";
import {
  Change,
  parse_changes,
  place_text,
  Point,
  role_prefix,
  row_label,
  toggle_change,
} from "./changes";
import { PlaceBar, Problem, Switch, Waiting } from "./controls";
import { EffectPanel } from "./effect_panel";
import { ScaleLegend } from "./heat";
import { Inks } from "./palette";
import { GridPlace, largest_size, PlaceGrid } from "./place_grid";
import {
  Prediction,
  prediction_members,
  PredictionBar,
  usePrediction,
} from "./prediction";
import { canonical, Metric, Role, Run, State, SweepMap } from "./protocol";
import { start_sweep, stop_sweep, sweep, sweep_request } from "./sweep";
import { go, place_in, state, theme } from "./state";
import { token_text } from "./token_label";

const MOST_TOKENS = 96; // columns of the grid of tokens
const PAUSE = 300; // ms without a keystroke before the model runs
const PINS = ["previous", "first", "self", "uniform"];

const METRICS: Record<Metric, string> = {
  logit: "logit",
  probability: "probability",
  loss: "loss",
  kl: "KL divergence",
  state: "change of states",
};

// ---- what a press makes ---------------------------------------------------------------

// The text that values come from.
function FromText() {
  const id = useId();
  const timer = useRef<number>(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const { change } = state.value;
  if (change !== "patch" && change !== "mean") return null;
  return (
    <div class="field from-text">
      <label for={id}>
        {change === "patch"
          ? "Values from this text, token by token"
          : "Mean over this text (empty: over the text itself)"}
      </label>
      <input
        id={id}
        type="text"
        defaultValue={state.value.case.from ?? ""}
        data-test="from"
        spellcheck={false}
        onInput={(e) => {
          const text = e.currentTarget.value;
          clearTimeout(timer.current);
          timer.current = window.setTimeout(() => set_from(text), PAUSE);
        }}
      />
    </div>
  );
}

function set_from(text: string): void {
  go({ case: { ...state.value.case, from: text || null } });
}

function ChangeBar({ pin }: { pin: { value: string } }) {
  const { change, point } = state.value;
  const id = useId();
  return (
    <>
      <Switch
        label="A press makes it"
        name="change"
        value={change}
        options={[
          { value: "ablate", label: "Zero", title: "The output becomes 0" },
          {
            value: "mean",
            label: "Mean",
            title: "The output becomes its mean over the tokens of a text",
          },
          {
            value: "patch",
            label: "Patch",
            title: "The output of another text at the same positions",
          },
          ...(point === "head_output"
            ? ([
                {
                  value: "pin",
                  label: "Pin",
                  title: "The attention weights become a fixed pattern",
                },
              ] as const)
            : []),
        ]}
        choose={(to) => go({ change: to })}
      />
      <Switch
        label="Where"
        name="point"
        value={point}
        options={[
          { value: "head_output", label: "Heads" },
          { value: "mlp", label: "MLPs by token" },
          { value: "residual", label: "Stream by token" },
        ]}
        choose={(to) =>
          go({ point: to, change: change === "pin" ? "ablate" : change })
        }
      />
      {change === "pin" && (
        <div class="field">
          <label for={id}>Each query attends to</label>
          <select
            id={id}
            value={pin.value}
            data-test="pin"
            onChange={(e) => (pin.value = e.currentTarget.value)}
          >
            {PINS.map((p) => (
              <option key={p} value={p}>
                {PIN_WORDS[p]}
              </option>
            ))}
          </select>
        </div>
      )}
      <FromText />
    </>
  );
}

const PIN_WORDS: Record<string, string> = {
  previous: "the token before",
  first: "the first token",
  self: "itself",
  uniform: "all alike",
};

// ---- the grid --------------------------------------------------------------------------

interface GridShape {
  rows: number;
  columns: number;
  labels: string[]; // of columns
  mlps: boolean; // one column more, the last
}

function grid_shape(r: Run, role: Role, point: Point): GridShape {
  if (point === "head_output")
    return {
      rows: role.layers,
      columns: role.heads,
      labels: Array.from({ length: role.heads }, (_, h) => String(h)),
      mlps: role.role !== "cross",
    };
  const side = r.sides[role.row_side]!;
  const columns = Math.min(side.real, MOST_TOKENS);
  return {
    rows: role.layers + (point === "residual" ? 1 : 0),
    columns,
    labels: side.labels.slice(0, columns).map(token_text),
    mlps: false,
  };
}

function grid_places(
  shape: GridShape,
  prefix: string,
  point: Point,
  map: SweepMap | null,
): GridPlace[][] {
  return Array.from({ length: shape.rows }, (_, row) => {
    const places: GridPlace[] = Array.from(
      { length: shape.columns },
      (_, column) => {
        const value = map?.map[row]?.[column] ?? null;
        return {
          name: place_text(prefix, point, row, column),
          value: value === null ? null : value - map!.before,
        };
      },
    );
    if (shape.mlps) places.push({ name: `${prefix}mlp:${row}`, value: null });
    return places;
  });
}

function change_for(place: GridPlace, pin: string): Change {
  const kind = state.value.change;
  const is_head = /^\d+\.\d+$/.test(place.name.replace(/^\w+:/, ""));
  if (kind === "pin" && is_head) return { kind, place: place.name, pin };
  return { kind: kind === "pin" ? "ablate" : kind, place: place.name, pin: "" };
}

// ---- sweeping ----------------------------------------------------------------------------

function metrics_of(has_head: boolean): Metric[] {
  return has_head ? ["logit", "probability", "loss", "kl", "state"] : ["state"];
}

function SweepBar({
  request,
  metrics,
  metric,
  shown,
}: {
  request: Record<string, unknown>;
  metrics: Metric[];
  metric: Metric;
  shown: boolean;
}) {
  const id = useId();
  const { progress } = sweep.value;
  return (
    <div class="bar sweep-bar">
      <div class="field">
        <label for={id}>Sweep: change each place by itself, measure</label>
        <select
          id={id}
          value={metric}
          data-test="metric"
          onChange={(e) => go({ metric: e.currentTarget.value as Metric })}
        >
          {metrics.map((m) => (
            <option key={m} value={m}>
              {METRICS[m]}
            </option>
          ))}
        </select>
      </div>
      {progress ? (
        <div class="doing" data-test="sweep-progress">
          <progress
            value={progress.done ?? undefined}
            max={progress.done === null ? undefined : 1}
            aria-label="Progress of the sweep"
          />
          <button
            type="button"
            data-test="sweep-stop"
            onClick={() => {
              stop_sweep();
              go({ sweep: false }, "same");
            }}
          >
            Stop
          </button>
        </div>
      ) : (
        <>
          <button
            type="button"
            class="primary"
            data-test="sweep"
            onClick={() => {
              if (shown) void start_sweep(request);
              else go({ sweep: true });
            }}
          >
            Sweep
          </button>
          {shown && (
            <button
              type="button"
              class="quiet"
              data-test="sweep-clear"
              onClick={() => go({ sweep: false })}
            >
              Clear
            </button>
          )}
        </>
      )}
    </div>
  );
}

function metric_words(metric: Metric, map: SweepMap): string {
  const { position, label } = map.target;
  return metric === "logit" || metric === "probability"
    ? `${METRICS[metric]} of “${token_text(label)}” at token ${position}`
    : METRICS[metric] + ", mean over the tokens";
}

// A link to a sweep runs it.
function useSweep(request: Record<string, unknown> | null): SweepMap | null {
  const key = request ? canonical(request) : "";
  const wanted = state.value.sweep && !!request;
  useEffect(() => {
    if (wanted) void start_sweep(request!);
    else stop_sweep();
  }, [key, wanted]);
  useEffect(() => stop_sweep, []);
  return wanted && sweep.value.key === key ? sweep.value.map : null;
}

// ---- the view ------------------------------------------------------------------------------

function settled(s: State, has_head: boolean): Metric {
  return has_head ? s.metric : "state";
}

export function InterveneView() {
  const { value, error } = usePrediction();
  const pin = useSignal("previous");
  const s = useComputed(() => state.value).value;
  const effect = value?.effect;
  const role = value && place_in(value.run, s).role;
  const metric = settled(s, effect?.has_head ?? true);
  const request =
    value && role
      ? sweep_request({
          run: value.before,
          role: role.role,
          kind: s.change,
          point: s.point,
          metric,
          from: s.case.from,
          prediction: prediction_members(value.run),
        })
      : null;
  const map = useSweep(request);
  if (!value || !role)
    return error ? (
      <>
        <ActiveChanges />
        <Problem text={error} />
      </>
    ) : (
      <Waiting />
    );
  return (
    <div class="view intervene-view">
      <div class="bar">
        <PlaceBar head={false} layer={false} />
        <PredictionBar value={value} />
      </div>
      <div class="bar">{source.live && <ChangeBar pin={pin} />}</div>
      <ActiveChanges />
      <Problem text={error} />
      <div class="beside wide-aside">
        <Places
          value={value}
          role={role}
          map={map}
          metric={metric}
          pin={pin.value}
          request={request!}
        />
        <aside>
          <EffectPanel value={value} />
        </aside>
      </div>
    </div>
  );
}

function Places({
  value,
  role,
  map,
  metric,
  pin,
  request,
}: {
  value: Prediction;
  role: Role;
  map: SweepMap | null;
  metric: Metric;
  pin: string;
  request: Record<string, unknown>;
}) {
  const s = state.value;
  const { run: r, effect } = value;
  const shape = grid_shape(r, role, s.point);
  const places = grid_places(shape, role_prefix(r, role), s.point, map);
  const inks: Inks = {
    theme: theme.value,
    signed: true,
    top: largest_size(places),
    scale: "root",
  };
  const side = r.sides[role.row_side]!;
  const heads = s.point === "head_output";
  return (
    <section class="places" aria-label="Places that can be changed">
      <PlaceGrid
        label={`${shape.rows} layers of ${shape.columns} ${heads ? "heads" : "tokens"}: press to change`}
        rows={Array.from({ length: shape.rows }, (_, i) =>
          row_label(s.point, i),
        )}
        columns={shape.mlps ? [...shape.labels, "MLP"] : shape.labels}
        row_word={s.point === "residual" ? "after" : "layer"}
        column_word={heads ? "head" : ""}
        places={places}
        changes={parse_changes(s.case.changes)}
        inks={inks}
        numbers={shape.columns <= 16}
        press={source.live ? (p) => toggle_change(change_for(p, pin)) : undefined}
        test="place"
      />
      <p class="faint hint">
        Press a place to change it, and press it again to undo.
      </p>
      {!heads && side.real > MOST_TOKENS && (
        <p class="faint hint">
          The first {MOST_TOKENS} of {side.real} tokens.
        </p>
      )}
      {s.sweep && <Problem text={sweep.value.error} />}
      <SweepBar
        request={request}
        metrics={metrics_of(effect.has_head)}
        metric={metric}
        shown={s.sweep}
      />
      {map && (
        <>
          <ScaleLegend inks={inks} what={(metric === "state" ? "" : "change of the ") + METRICS[metric]} />
          <Caption
            name="intervene.sweep"
            facts={{ metric: metric_words(metric, map) }}
          />
        </>
      )}
    </section>
  );
}

