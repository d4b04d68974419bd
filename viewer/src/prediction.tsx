// The prediction that is looked at: its position, its token, and the token that it is
// compared with; and what the changes of the run make of it.

import { useId } from "preact/hooks";
import { ask_json, run, run_asked, run_quietly, Scene, useScene } from "./asking";
import { canonical, Case, Effect, Run } from "./protocol";
import { go, state } from "./state";
import { token_text } from "./token_label";

const TOP = 10;

// The case without its changes; the same object where it has none.
export function unchanged(c: Case): Case {
  return c.changes ? { ...c, changes: "", from: null } : c;
}

export interface Prediction {
  run: Run;
  before: Run; // without changes
  effect: Effect;
}

// The run of the state, once it is the one that is shown.
export function shown_run(): Run | null {
  return run.value && run_asked.value === canonical(state.value.case)
    ? run.value
    : null;
}

// The side that the model's head reads.
export function head_side(r: Run): "encoder" | "decoder" {
  return r.sides.decoder ? "decoder" : "encoder";
}

// What is asked of a prediction; -1 is left out.
export function prediction_members(r: Run) {
  const { token, target, against } = state.value;
  const length = r.sides[head_side(r)]!.tokens.length;
  return {
    predicted: token >= 0 && token < length ? token : undefined,
    target: target >= 0 ? target : undefined,
    against: against >= 0 ? against : undefined,
  };
}

export function usePrediction(): Scene<Prediction> {
  const r = shown_run();
  const members = r && prediction_members(r);
  const key = r && canonical({ run: r.run, ...members });
  return useScene(key, async (signal) => {
    const plain = unchanged(state.value.case);
    const before =
      plain === state.value.case ? r! : await run_quietly(plain, signal);
    const effect = await ask_json<Effect>(
      "effect",
      { run: r!.run, before: before.run, top: TOP, ...members },
      signal,
    );
    return { run: r!, before, effect };
  });
}

function TokenChoice({
  label,
  test,
  value,
  none,
  tokens,
  choose,
}: {
  label: string;
  test: string;
  value: number;
  none: string;
  tokens: { id: number; label: string }[];
  choose: (id: number) => void;
}) {
  const id = useId();
  const known = tokens.some((t) => t.id === value);
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select
        id={id}
        value={value}
        data-test={test}
        onChange={(e) => choose(Number(e.currentTarget.value))}
      >
        <option value={-1}>{none}</option>
        {!known && value >= 0 && <option value={value}>token {value}</option>}
        {tokens.map((t) => (
          <option key={t.id} value={t.id}>
            {token_text(t.label)}
          </option>
        ))}
      </select>
    </div>
  );
}

// Position, answer and the token that it is compared with.
export function PredictionBar({ value }: { value: Prediction | null }) {
  const id = useId();
  const r = value?.run ?? run.value;
  if (!r) return null;
  const side = r.sides[head_side(r)]!;
  const effect = value?.effect;
  const position = effect?.target.position ?? state.value.token;
  const tokens = effect?.tokens ?? [];
  if (effect?.has_head === false) return null;
  return (
    <>
      <div class="field">
        <label for={id}>
          {r.model.parts === "encoder" ? "Prediction at" : "Prediction after"}
        </label>
        <select
          id={id}
          value={position}
          data-test="position"
          onChange={(e) =>
            go({
              token: Number(e.currentTarget.value),
              target: -1,
              against: -1,
            })
          }
        >
          {side.labels.slice(0, side.real).map((label, i) => (
            <option key={i} value={i}>
              {i} {token_text(label)}
            </option>
          ))}
        </select>
      </div>
      <>
          <TokenChoice
            label="Answer"
            test="answer"
            value={state.value.target}
            none={
              state.value.target < 0 && effect
                ? `the likeliest: ${token_text(effect.target.label)}`
                : "the likeliest"
            }
            tokens={tokens}
            choose={(target) => go({ target })}
          />
          <TokenChoice
            label="Minus the logit of"
            test="against"
            value={state.value.against}
            none="nothing"
            tokens={tokens}
            choose={(against) => go({ against })}
          />
      </>
    </>
  );
}

// "the logit of “,”", "the logit of “he” minus that of “she”".
export function answer_words(e: Effect): string {
  const t = e.target;
  return t.against >= 0
    ? `${token_text(t.label)}” minus “${token_text(t.against_label)}`
    : token_text(t.label);
}
