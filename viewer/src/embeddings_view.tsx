// Cosines of tokens by layer, and positional encodings.

import { useSignal } from "@preact/signals";
import { ask_binary, run, hello, source } from "./asking";
import { Problem, Slider, Switch, Waiting } from "./controls";
import { floats } from "./decode";
import { ScaleLegend } from "./heat";
import { At, MatrixPane, Sight } from "./matrix_pane";
import { MatrixPlot } from "./matrix_plot";
import { clamp, count_text, largest, signed_text } from "./numbers";
import { Caption } from "./caption";
import { PositionsSection } from "./positions_section";
import { Role, Run, Side } from "./protocol";
import { go, place_in, state } from "./state";
import { TileSpec } from "./tiles";
import { TokenLabel, token_text } from "./token_label";
import { TwoTexts, useWordPair, WordFacts } from "./word_pair";

type SideName = "encoder" | "decoder";

function slice_side(side: Side, from: number, count: number): Side {
  return {
    ...side,
    tokens: side.tokens.slice(from, from + count),
    labels: side.labels.slice(from, from + count),
    part: side.part.slice(from, from + count),
  };
}

// A matrix of cosines whose rows are tokens of one side, and whose keys are those of the
// same side, or of another run's.
function cosine_spec(
  r: Run,
  other: Run | null,
  name: SideName,
  layer: number,
  from: number,
  count: number,
  norms: (n: Float32Array) => void,
): TileSpec {
  const start = other ? 0 : from;
  const keys = other
    ? Math.min(other.sides[name]!.tokens.length, most_tokens())
    : count;
  const beside = name === "encoder" ? "decoder" : "encoder";
  const key_side = other ? beside : name;
  const role: Role = {
    ...r.roles[0],
    role: name,
    rows: count,
    keys,
    row_side: name,
    key_side,
    causal: false,
    window: 0,
    real_keys: keys,
    signed: true,
    row_labels: undefined,
  };
  const request = {
    run: r.run,
    side: name,
    layer,
    row: from,
    rows: count,
    key: start,
    keys,
    ...(other ? { other: other.run } : {}),
  };
  const own = slice_side(r.sides[name]!, from, count);
  return {
    run: {
      ...r,
      sides: {
        ...(other && {
          [key_side]: slice_side(other.sides[name]!, start, keys),
        }),
        [name]: own,
      },
    },
    role,
    place: { role: name, layer, head: 0 },
    pool: "max",
    axes: other
      ? { rows: "tokens of this text", keys: "tokens of the other" }
      : { rows: "tokens", keys: "tokens" },
    given: {
      id: ["cosine", layer, from, count, other?.run].join(),
      values: async () => {
        const answer = await ask_binary("embeddings", request);
        norms(floats(answer, "norm"));
        return floats(answer, "cosine");
      },
    },
  };
}

function Facts({
  sight,
  at,
  norms,
  from,
}: {
  sight: Sight;
  at: At;
  norms: Float32Array | null;
  from: number;
}) {
  const { run: r, role } = sight.spec;
  const tokens = r.sides[role.row_side]!.labels;
  const keys = r.sides[role.key_side]!.labels;
  const between = role.key_side !== role.row_side;
  const first = between ? 0 : from; // of the keys
  if (at.row >= tokens.length || at.key >= keys.length) return null;
  const cosine = sight.plot.value_at(at.row, at.key)?.value ?? NaN;
  const others = Array.from({ length: keys.length }, (_, k) =>
    k === at.row && !between
      ? -2
      : (sight.plot.value_at(at.row, k)?.value ?? -2),
  );
  return (
    <>
      <dl
        class="facts"
        data-test="cosine"
        data-row={at.row}
        data-key={at.key}
        data-number={cosine}
      >
        <dt>token</dt>
        <dd>
          <TokenLabel token={tokens[at.row]} />{" "}
          <span class="index">{from + at.row}</span>
        </dd>
        <dt>with</dt>
        <dd>
          <TokenLabel token={keys[at.key]} />{" "}
          <span class="index">{first + at.key}</span>
        </dd>
        <dt>cosine</dt>
        <dd class="number">{signed_text(cosine, 3)}</dd>
        {norms && (
          <>
            <dt>norm</dt>
            <dd class="number" data-test="norm" data-number={norms[at.row]}>
              {signed_text(norms[at.row], 2)}
            </dd>
          </>
        )}
      </dl>
      {keys.length <= 512 && (
        <table data-test="nearest">
          <caption>
            Nearest to <TokenLabel token={tokens[at.row]} />
            {between && " in the other text"}
          </caption>
          <tbody>
            {largest(others, 6).map((k) => (
              <tr key={k}>
                <td class="right faint">{first + k}</td>
                <td>
                  <TokenLabel token={keys[k]} />
                </td>
                <td class="number">{signed_text(others[k], 3)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

function spoken(p: MatrixPlot, at: At): string {
  const { run: r, role } = p.store.spec;
  const tokens = r.sides[role.row_side]!.labels;
  const keys = r.sides[role.key_side]!.labels;
  const found = p.value_at(at.row, at.key);
  return (
    `${token_text(tokens[at.row])} and ${token_text(keys[at.key])}: cosine ` +
    (found ? signed_text(found.value, 3) : "unknown")
  );
}

// The key is a token of the same text or of the other.
function choose_cell(at: At, between: boolean): void {
  if (between) go({ token: at.row, other_token: at.key });
  else go({ token: at.row, key: at.key });
}

const most_tokens = () => Math.floor(Math.sqrt(hello.value!.block_cells));

export function EmbeddingsView() {
  const r = run.value;
  const pair = useWordPair();
  const between = useSignal(true);
  const hover = useSignal<At | null>(null);
  const sight = useSignal<Sight | null>(null);
  const norms = useSignal<Float32Array | null>(null);
  const start = useSignal(0);
  if (!r) return <Waiting />;
  const at = place_in(r, state.value);
  const sides = Object.keys(r.sides) as SideName[];
  const name = at.role.row_side;
  const layers = at.role.layers;
  const layer = clamp(state.value.layer, 0, layers);
  const all = r.sides[name]!.tokens.length;
  const count = Math.min(all, most_tokens());
  const other = pair.value?.pair.why ? null : (pair.value?.other ?? null);
  const shown = between.value ? other : null;
  const from = clamp(start.value, 0, all - count);
  const spec = cosine_spec(
    r,
    shown,
    name,
    layer,
    from,
    count,
    (n) => (norms.value = n),
  );
  const { token, key } = state.value;
  const column = shown
    ? pair.value!.pair.other[0]
    : key >= 0
      ? key
      : token;
  const row = token < 0 && shown ? pair.value!.pair.word[0] : token;
  const mark = hover.value ?? (row >= 0 ? { row, key: column } : null);
  const label =
    layer === 0
      ? "token embeddings"
      : layer === layers
        ? "after the last layer"
        : `before layer ${layer}`;
  return (
    <div class="view embeddings-view">
      <div class="bar">
        {sides.length > 1 && (
          <Switch
            label="Tokens of"
            name="side"
            value={name}
            options={sides.map((s) => ({ value: s, label: s }))}
            choose={(s) => go({ role: s })}
          />
        )}
        {(source.live || pair.wanted) && <TwoTexts />}
        {other && (
          <Switch
            label="Cosines of"
            name="cosines"
            value={between.value ? "between" : "own"}
            options={[
              { value: "between", label: "this text and the other" },
              { value: "own", label: "this text" },
            ]}
            choose={(c) => (between.value = c === "between")}
          />
        )}
        <Slider
          label="Layer"
          test="embedding-layer"
          min={0}
          max={layers}
          value={layer}
          text={label}
          change={(n) => go({ layer: n }, "same")}
        />
        {all > count && (
          <Slider
            label="Tokens"
            test="embedding-window"
            min={0}
            max={all - count}
            value={from}
            text={`${count_text(from)}–${count_text(from + count - 1)} of ${count_text(all)}`}
            change={(n) => (start.value = n)}
          />
        )}
      </div>
      <Problem text={sight.value?.error ?? ""} />
      <Problem text={pair.error} />
      {shown && (
        <p class="faint hint">
          Rows: tokens of “{r.case.text}”. Columns: tokens of “
          {shown.case.text}”.
        </p>
      )}
      <div class="beside">
        <MatrixPane
          spec={spec}
          scale="linear"
          mark={mark}
          test="cosines"
          words={spoken}
          see={(s) => (sight.value = s)}
          hover={(cell) => (hover.value = cell)}
          press={(at) => choose_cell(at, shown !== null)}
          label={`Cosines of ${count_text(count)} tokens, ${label}`}
        />
        <aside class="matrix-side">
          {sight.value && mark ? (
            <Facts
              sight={sight.value}
              at={mark}
              norms={norms.value}
              from={from}
            />
          ) : (
            <p class="faint hint">
              Point at a cell to read the cosine of two tokens.
            </p>
          )}
          {sight.value && <ScaleLegend inks={sight.value.inks} what="cosine" />}
        </aside>
      </div>
      <Caption
        name={shown ? "embeddings.between" : "embeddings"}
        facts={{ layer }}
      />
      {pair.value && <WordFacts scene={pair.value} layer={layer} />}
      <PositionsSection model={r.model} step={r.case.step} />
    </div>
  );
}
