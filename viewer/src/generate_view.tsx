// Generation, one token at a time, with candidates, attention and the size of the cache.

import { useEffect, useId } from "preact/hooks";
import { run, source, useScene } from "./asking";
import { Caption } from "./caption";
import { PlaceBar, Problem } from "./controls";
import {
  at_step,
  run_on,
  sampling,
  settle_prompt,
  step_back,
  step_on,
  steps,
  stop,
  trouble,
  written,
  writing,
} from "./generate_state";
import { ask_row } from "./head_scene";
import { BytesPlot } from "./plot_lines";
import { bytes_text, count_text, percent_text, weight_text } from "./numbers";
import { ink_css, ink_over } from "./palette";
import { Run, Side, Step } from "./protocol";
import { go, place_in, state, theme } from "./state";
import { TokenLabel, token_spelled, token_text } from "./token_label";
import { useWidth } from "./width";

function NumberField({
  label,
  test,
  value,
  min,
  max,
  step,
  set,
}: {
  label: string;
  test: string;
  value: number;
  min: number;
  max: number;
  step: number;
  set: (n: number) => void;
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        type="number"
        min={min}
        max={max}
        step={step}
        value={value}
        data-test={test}
        onChange={(e) =>
          set(Math.max(min, Math.min(max, Number(e.currentTarget.value) || 0)))
        }
      />
    </div>
  );
}

function Buttons() {
  const c = state.value.case;
  const s = sampling.value;
  const set = (change: Partial<typeof s>) => {
    sampling.value = { ...sampling.value, ...change };
    settle_prompt(state.value.case);
  };
  return (
    <div class="bar">
      <div class="buttons">
        <button
          type="button"
          data-test="back"
          disabled={at_step.value < 0}
          onClick={step_back}
        >
          ‹ Back
        </button>
        <button
          type="button"
          class="primary"
          data-test="step"
          disabled={writing.value}
          onClick={() => step_on(c)}
        >
          Step ›
        </button>
        {writing.value ? (
          <button type="button" data-test="stop" onClick={stop}>
            Stop
          </button>
        ) : (
          <button type="button" data-test="run" onClick={() => run_on(c)}>
            Run {s.new}
          </button>
        )}
      </div>
      {source.live && (
        <>
          <NumberField
            label="Tokens"
            test="new"
            min={1}
            max={1000}
            step={1}
            value={s.new}
            set={(n) => set({ new: n })}
          />
          <NumberField
            label="Temperature"
            test="temperature"
            min={0}
            max={5}
            step={0.1}
            value={s.temperature}
            set={(n) => set({ temperature: n })}
          />
          <NumberField
            label="Top k"
            test="top-k"
            min={0}
            max={1000}
            step={1}
            value={s.top_k}
            set={(n) => set({ top_k: n })}
          />
          <NumberField
            label="Top p"
            test="top-p"
            min={0}
            max={1}
            step={0.05}
            value={s.top_p}
            set={(n) => set({ top_p: n })}
          />
          <NumberField
            label="Seed"
            test="seed"
            min={0}
            max={1e9}
            step={1}
            value={s.seed}
            set={(n) => set({ seed: n })}
          />
        </>
      )}
    </div>
  );
}

interface Looked {
  key: string;
  head: Float32Array;
  mean: Float32Array;
  side: Side;
}

// The row that chose the token: the query of the token before it.
function useLooked(r: Run | null, step: Step | undefined) {
  const at = r && place_in(r, state.value);
  const row = step ? step.position - 1 : -1;
  const fits = !!at && row >= 0 && row < at.role.rows;
  const key =
    r && at && fits
      ? [r.run, at.role.role, at.place.layer, at.place.head, row].join()
      : null;
  return useScene<Looked>(key, async (signal) => {
    const { role, place } = at!;
    const rows = await Promise.all(
      Array.from({ length: role.heads }, (_, head) =>
        ask_row(r!, role, { ...place, head }, row, signal),
      ),
    );
    const mean = Float32Array.from(
      { length: role.keys },
      (_, k) => rows.reduce((sum, w) => sum + w[k], 0) / rows.length,
    );
    return {
      key: key!,
      head: rows[place.head],
      mean,
      side: r!.sides[role.key_side]!,
    };
  });
}

const TOKENS_SHOWN = 400;

function LookedAt({
  title,
  test,
  weights,
  side,
}: {
  title: string;
  test: string;
  weights: Float32Array;
  side: Side;
}) {
  let last = weights.length;
  while (last > 1 && weights[last - 1] === 0) last--;
  const first = Math.max(0, last - TOKENS_SHOWN);
  let top = 0;
  for (const w of weights) top = Math.max(top, w);
  const inks = {
    theme: theme.value,
    signed: false,
    top: top || 1,
    scale: "root" as const,
  };
  return (
    <figure class="looked">
      <figcaption>{title}</figcaption>
      <p class="looked-text" data-test={test}>
        {first > 0 && (
          <span class="faint">… {count_text(first)} tokens before … </span>
        )}
        {side.labels.slice(first, last).map((t, i) => {
          const w = weights[first + i];
          return (
            <span
              key={first + i}
              class="looked-token"
              title={`${token_text(t)} (${first + i}): ${weight_text(w)}`}
              data-test="looked-token"
              data-key={first + i}
              data-number={w}
              style={{ background: ink_css(w, inks), color: ink_over(w, inks) }}
            >
              <TokenLabel token={t} />
            </span>
          );
        })}
      </p>
    </figure>
  );
}

function Candidates({ step }: { step: Step }) {
  const top = Math.max(...step.candidates.map((c) => c.p), 1e-9);
  return (
    <table class="bars" data-test="candidates">
      <caption>Candidates for “{token_text(step.label)}”</caption>
      <thead class="hidden">
        <tr>
          <th scope="col">token</th>
          <th scope="col">probability</th>
          <th scope="col">bar</th>
        </tr>
      </thead>
      <tbody>
        {step.candidates.map((c) => (
          <tr key={c.id} class={c.id === step.id ? "taken" : ""}>
            <td>
              <TokenLabel token={c.label} />
            </td>
            <td class="number" data-test="candidate" data-number={c.p}>
              {percent_text(c.p)}
            </td>
            <td class="bar-cell">
              <span
                class="bar-fill"
                style={{ width: `${(c.p / top) * 100}%` }}
              />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Text({ prompt, spaced }: { prompt: string; spaced: boolean }) {
  return (
    <p class="written" data-test="written">
      <span class="faint">
        {prompt.length > 1200 ? "…" + prompt.slice(-1200) : prompt}
      </span>
      {steps.value.map((s, i) => (
        <button
          key={i}
          type="button"
          aria-pressed={i === at_step.value}
          class={
            "written-token" +
            (i === at_step.value ? " on" : i > at_step.value ? " ahead" : "")
          }
          title={`probability ${percent_text(s.p)}`}
          data-test="written-token"
          data-number={s.p}
          style={{ "--share": `${Math.round(s.p * 100)}%` }}
          onClick={() => (at_step.value = i)}
        >
          {spaced ? " " : ""}
          {token_spelled(s.label)}
        </button>
      ))}
    </p>
  );
}

export function GenerateView() {
  const c = state.value.case;
  useEffect(() => settle_prompt(c), [c]);
  useEffect(() => stop, []);
  // The encoder runs before the first token, so the decoder is shown.
  const role = run.value && place_in(run.value, state.value).role;
  useEffect(() => {
    if (role?.role === "encoder") go({ role: "cross" }, "same");
  }, [role?.role]);
  const { box, width } = useWidth(320);
  const step = steps.value[at_step.value];
  const looked = useLooked(written.value, step);
  const place = run.value && place_in(run.value, state.value).place;
  const bytes = steps.value.map((s) => s.cache_bytes);
  return (
    <div class="view generate-view">
      <Buttons />
      <Problem text={trouble.value} />
      <Text prompt={c.text} spaced={run.value?.model.words === false} />
      {!step && (
        <p class="faint hint">
          Step generates the next token, Run several; press a token to select
          its step.
        </p>
      )}
      {step && (
        <>
          <PlaceBar encoder={false} />
          <div class="generate-body">
            <Candidates step={step} />
            <div class="looked-both">
              <Problem text={looked.error} />
              {!looked.value && !looked.error && !writing.value && (
                <p class="faint hint">
                  Attention is available once a run has ended: press Run or Step
                  again.
                </p>
              )}
              {looked.value && place && (
                <>
                  <LookedAt
                    title={`Attention of layer ${place.layer}, head ${place.head} at this step`}
                    test="looked-head"
                    weights={looked.value.head}
                    side={looked.value.side}
                  />
                  <LookedAt
                    title={`Mean of the heads of layer ${place.layer}`}
                    test="looked-mean"
                    weights={looked.value.mean}
                    side={looked.value.side}
                  />
                </>
              )}
            </div>
            <figure ref={box} class="memory">
              <figcaption>
                KV cache:{" "}
                <b data-test="cache-bytes" data-number={step.cache_bytes}>
                  {bytes_text(step.cache_bytes)}
                </b>{" "}
                for {count_text(step.length)} tokens
              </figcaption>
              <BytesPlot
                values={bytes}
                at={at_step.value}
                width={width}
                label={`The KV cache grows from ${bytes_text(bytes[0])} to ${bytes_text(bytes[bytes.length - 1])}`}
              />
            </figure>
          </div>
          {role && (
            <Caption name="generate" facts={{ attention: role.words }} />
          )}
        </>
      )}
    </div>
  );
}
