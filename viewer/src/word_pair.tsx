// Two texts side by side: the control that adds another text, and one word in both with
// the cosines of its vectors.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask_json, other_asked, other_problem, other_run, run, run_asked, useScene } from "./asking";
import { OtherText, settle_other, tensors_here } from "./compare_choice";
import { Switch } from "./controls";
import { LinePlot, SeriesLegend } from "./line_plot";
import { ink_css, ink_over, Inks } from "./palette";
import { canonical, Role, Run, WordPair } from "./protocol";
import { go, place_in, state, theme } from "./state";
import { role_beside } from "./beside_scene";
import { token_text } from "./token_label";

export interface WordScene {
  run: Run;
  other: Run;
  role: Role;
  other_role: Role;
  pair: WordPair;
}

// null while there is no other run, or it is not the state's.
export function useWordPair(): { value: WordScene | null; error: string; wanted: boolean } {
  const { other: wanted, case: c, token, other_token } = state.value;
  useEffect(() => {
    if (wanted) settle_other();
  }, [wanted, c]);
  const r = run.value;
  const o = wanted && other_asked.value === canonical(wanted) ? other_run.value : null;
  const ready = r && o && run_asked.value === canonical(c);
  const role = r && place_in(r, state.value).role;
  const side = role?.row_side;
  const key = ready ? [r.run, o.run, side, token, other_token].join() : null;
  const scene = useScene(key, async (signal) => {
    const at = token >= 0 ? { at: token } : {};
    const other_at = other_token >= 0 ? { other_at: other_token } : {};
    const request = { run: r!.run, other: o!.run, side, ...at, ...other_at };
    const pair = await ask_json<WordPair>("word", request, signal);
    return {
      run: r!,
      other: o!,
      role: role!,
      other_role: role_beside(o!, role!.role),
      pair,
    };
  });
  const value = wanted && scene.fresh ? scene.value : null;
  return { value, error: other_problem.value || (wanted ? scene.error : ""), wanted: !!wanted };
}

// In the bar of a view: add, change or remove the other text.
export function TwoTexts() {
  const { case: c, other } = state.value;
  if (tensors_here()) return null;
  if (!other)
    return (
      <button
        type="button"
        data-test="add-other"
        title="Another text beside this one"
        onClick={() => go({ other: { ...c }, other_token: -1 })}
      >
        + another text
      </button>
    );
  return (
    <>
      <OtherText />
      <button
        type="button"
        data-test="drop-other"
        onClick={() => go({ other: null, other_token: -1 })}
      >
        one text
      </button>
    </>
  );
}

export function span_words(r: Run, role: Role, span: [number, number]): string {
  const side = r.sides[role.row_side]!;
  const tokens = side.labels.slice(span[0], span[0] + span[1]);
  return tokens.map(token_text).join("");
}

function cosine_inks(): Inks {
  return { theme: theme.value, signed: true, top: 1, scale: "linear" };
}

type Vector = "q" | "k" | "v";
const VECTORS: Record<Vector, string> = { q: "queries", k: "keys", v: "values" };

// Cosine of the word's queries, keys or values in every head.
function HeadCosines({ pair, role }: { pair: WordPair; role: Role }) {
  const which = useSignal<Vector>("k");
  const cells = pair[which.value]!;
  const inks = cosine_inks();
  const chosen = place_in(run.value!, state.value).place;
  return (
    <section>
      <Switch
        label="Cosine in every head, of the word's"
        name="vector"
        value={which.value}
        options={(Object.keys(VECTORS) as Vector[]).map((value) => ({ value, label: VECTORS[value] }))}
        choose={(v) => (which.value = v)}
      />
      <div class="scroll-x">
        <table class="head-cosines" data-test="head-cosines">
          <thead>
            <tr>
              <th scope="col">layer</th>
              {Array.from({ length: role.heads }, (_, h) => (
                <th scope="col" key={h} class="right">
                  {h}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {cells.map((row, l) => (
              <tr key={l}>
                <th scope="row" class="right">
                  {l}
                </th>
                {row.map((x, h) => (
                  <td key={h}>
                    <button
                      type="button"
                      class={l === chosen.layer && h === chosen.head ? "distance chosen" : "distance"}
                      aria-label={`Layer ${l}, head ${h}: cosine ${x.toFixed(2)}`}
                      data-test="head-cosine"
                      data-layer={l}
                      data-head={h}
                      data-number={x}
                      style={{ background: ink_css(x, inks), color: ink_over(x, inks) }}
                      onClick={() => go({ view: "neuron", layer: l, head: h, heads: [] })}
                    >
                      {x.toFixed(2)}
                    </button>
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="faint hint">
        1: the same direction in both texts; 0: unrelated. A press opens the
        head. Columns are heads.
      </p>
    </section>
  );
}

function ByLayer({ pair, names, layer }: { pair: WordPair; names: string; layer: number }) {
  const cosine = pair.cosine!;
  const last = cosine.length - 1;
  return (
    <section>
      <h2>Cosine of its hidden states, by layer</h2>
      <SeriesLegend names={[names]} />
      <div class="word-cosine">
        <LinePlot
          series={[{ name: "cosine", points: cosine.map((y, l) => [l, y]) }]}
          x_name={`before layer (${last}: after the last)`}
          y_name="cosine"
          low={Math.min(0, ...cosine)}
          high={1}
          marked={layer}
          test="word-cosine"
          label={`Cosine of ${names} by layer`}
        />
        <table data-test="word-table">
          <thead>
            <tr>
              <th scope="col">before layer</th>
              <th scope="col" class="right">
                cosine
              </th>
            </tr>
          </thead>
          <tbody>
            {cosine.map((x, l) => (
              <tr key={l} class={l === layer ? "taken" : ""}>
                <td>{l === last ? `after ${l - 1}` : l}</td>
                <td class="number" data-number={x} data-test="layer-cosine">
                  {x.toFixed(4)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

// The word in both texts. layer: marked in the plot.
export function WordFacts({ scene, layer }: { scene: WordScene; layer: number }) {
  const { pair, role, other_role } = scene;
  const word = span_words(scene.run, role, pair.word);
  const other = span_words(scene.other, other_role, pair.other);
  const names = `“${word}” (token ${pair.word[0]}) and “${other}” (token ${pair.other[0]})`;
  return (
    <div class="word-facts" data-test="word-facts">
      {!pair.same && (
        <p class="hint" data-test="not-same">
          “{word}” does not stand in the other text: “{other}” stands at that
          place. Choose another token in either text.
        </p>
      )}
      {pair.why ? (
        <p class="hint" data-test="no-cosine">
          No cosines: {pair.why}.
        </p>
      ) : (
        <>
          <ByLayer pair={pair} names={names} layer={layer} />
          <HeadCosines pair={pair} role={role} />
        </>
      )}
    </div>
  );
}
