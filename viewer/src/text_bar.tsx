// The text that is looked at, and how it is run. An edit runs at once.

import { ActiveChanges } from "./active_changes";
import { useSignal } from "@preact/signals";
import { useEffect, useId, useLayoutEffect, useRef } from "preact/hooks";
import {
  ask_again,
  cancel_run,
  hello,
  problem,
  progress,
  run,
  source,
} from "./asking";
import { change_case, go, link_is_whole, state } from "./state";
import { VIEW_WORDS } from "./help";
import { Model, Run, ViewName } from "./protocol";
import { bytes_text, count_text } from "./numbers";

const PAUSE = 300; // ms without a keystroke before the model runs
const FORMS = [
  "softmax",
  "favor(m=256)",
  "fourier(m=256)",
  "elu",
  "poly(p=2)",
  "gaussian",
  "argmax",
];

// A text area of its own: the state's text is written back only when it came
// from elsewhere.
function Words({
  label,
  test,
  value,
  set,
  placeholder,
}: {
  label: string;
  test: string;
  value: string;
  set: (text: string) => void;
  placeholder?: string;
}) {
  const id = useId();
  const area = useRef<HTMLTextAreaElement>(null);
  const timer = useRef<number>(0);
  const grow = () => {
    const a = area.current!;
    a.style.height = "auto";
    a.style.height = Math.min(a.scrollHeight + 2, 108) + "px";
  };
  useLayoutEffect(() => {
    if (area.current!.value !== value) area.current!.value = value;
    grow();
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <div class="words">
      <label for={id} class={label === "Text" ? "hidden" : ""}>
        {label}
      </label>
      <textarea
        ref={area}
        id={id}
        rows={1}
        spellcheck={false}
        data-test={test}
        placeholder={placeholder}
        onInput={() => {
          grow();
          clearTimeout(timer.current);
          timer.current = window.setTimeout(
            () => set(area.current!.value),
            PAUSE,
          );
        }}
      />
    </div>
  );
}

function second_label(model: Model): string {
  if (model.parts === "both") return "Decoder text";
  return model.pairs ? "Second sentence (B)" : "";
}

function Settings({ model }: { model: Model }) {
  const c = state.value.case;
  const id = useId();
  const forms = FORMS.includes(c.attention) ? FORMS : [c.attention, ...FORMS];
  return (
    <div class="bar settings" data-test="settings">
      <div class="field">
        <label for={id + "f"}>Attention of the whole model</label>
        <select
          id={id + "f"}
          value={c.attention}
          data-test="case-attention"
          onChange={(e) => change_case({ attention: e.currentTarget.value })}
        >
          {forms.map((f) => (
            <option key={f} value={f}>
              {f}
            </option>
          ))}
        </select>
      </div>
      <label class="check">
        <input
          type="checkbox"
          checked={c.untrained}
          data-test="case-untrained"
          onChange={(e) => change_case({ untrained: e.currentTarget.checked })}
        />
        untrained: random weights
      </label>
      {model.parts !== "decoder" && (
        <div class="field">
          <label for={id + "p"}>Pad to (tokens)</label>
          <input
            id={id + "p"}
            type="number"
            min={0}
            max={model.context || 512}
            value={c.pad}
            data-test="case-pad"
            onChange={(e) =>
              change_case({
                pad: Math.max(0, Number(e.currentTarget.value) || 0),
              })
            }
          />
        </div>
      )}
    </div>
  );
}

function Doing() {
  const p = progress.value;
  if (!p) return null;
  return (
    <div class="doing" data-test="progress">
      <progress
        value={p.done ?? undefined}
        aria-label={p.what || "Running the model"}
      />
      <span>
        {p.what}
        {p.done === null ? "" : ` ${Math.round(100 * p.done)} %`}
      </span>
      <button
        type="button"
        class="small"
        data-test="cancel"
        onClick={cancel_run}
      >
        Cancel
      </button>
    </div>
  );
}

export function TextBar() {
  const open = useSignal(false);
  const known = hello.value!;
  const c = state.value.case;
  const model = known.models.find((m) => m.id === c.model) ?? known.models[0];
  const label = second_label(model);
  const second = useSignal(false);
  const pair = label && (c.second !== null || second.value);
  if (!source.live) return <Recording />;
  if (model.tensors) return <TensorsBar model={model} />;
  return (
    <section class="text-bar" aria-label="Text">
      <div class={pair ? "words-row two" : "words-row"}>
        <Words
          test="text"
          label={
            model.words === false
              ? "Token ids (this model has no tokenizer)"
              : pair && model.parts === "encoder"
                ? "First sentence (A)"
                : "Text"
          }
          value={c.text}
          set={(text) => change_case({ text })}
        />
        {pair && (
          <Words
            label={label}
            test="second"
            value={c.second ?? ""}
            placeholder={
              model.parts === "both" ? "empty: generated by the model" : ""
            }
            set={(text) => change_case({ second: text === "" ? null : text })}
          />
        )}
      </div>
      <div class="text-tools">
        {label && !pair && (
          <button
            type="button"
            class="quiet"
            data-test="add-second"
            onClick={() => (second.value = true)}
          >
            + {label.toLowerCase()}
          </button>
        )}
        {pair && model.parts === "encoder" && (
          <button
            type="button"
            class="quiet"
            data-test="drop-second"
            onClick={() => {
              second.value = false;
              change_case({ second: null });
              go({ filter: "all" }, "same");
            }}
          >
            one sentence
          </button>
        )}
        <button
          type="button"
          class="quiet"
          aria-expanded={open.value}
          data-test="settings-toggle"
          onClick={() => (open.value = !open.value)}
        >
          {c.attention !== "softmax" || c.untrained || c.pad
            ? "Settings •"
            : "Settings"}
        </button>
        <RunFacts />
        <Doing />
      </div>
      {open.value && <Settings model={model} />}
      {state.value.view !== "intervene" && <ActiveChanges />}
      <Trouble />
    </section>
  );
}

// Views that do not apply, by reason: "Neuron: it shows ..".
function missing_views(model: Model): string[] {
  const by_reason = new Map<string, string[]>();
  for (const [view, why] of Object.entries(model.without ?? {}))
    by_reason.set(why, [
      ...(by_reason.get(why) ?? []),
      VIEW_WORDS[view as ViewName]?.title ?? view,
    ]);
  return [...by_reason].map(([why, views]) => `${views.join(", ")}: ${why}.`);
}

function Missing({ model }: { model: Model }) {
  const list = missing_views(model);
  if (list.length === 0) return null;
  return (
    <details class="missing" data-test="missing">
      <summary>Views that do not apply</summary>
      <ul>
        {list.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
    </details>
  );
}

function TensorsBar({ model }: { model: Model }) {
  const r = run.value;
  return (
    <section class="text-bar" aria-label="Tensors">
      {r && r.model.tensors && (
        <p class="recorded-text" data-test="tensors">
          {tokens_text(r)}
        </p>
      )}
      <div class="text-tools">
        <span class="faint">
          Tensors of <code>{model.name}</code>
        </span>
        <RunFacts />
        <Doing />
        <Missing model={model} />
      </div>
      <Trouble />
    </section>
  );
}

// The rows' tokens, then the keys' where they are others.
function tokens_text(r: Run): string {
  return [r.case.text, r.case.second].filter((t) => t).join(" ‖ ");
}

function Trouble() {
  if (problem.value) {
    return (
      <p class="problem" role="alert" data-test="run-problem">
        {problem.value}
        {run.value ? " The view shows the previous text." : ""}{" "}
        <button type="button" class="quiet" onClick={ask_again}>
          Try again
        </button>
      </p>
    );
  }
  const notice = run.value?.notice;
  return (
    <>
      {notice && (
        <p class="notice" data-test="notice">
          {notice}
        </p>
      )}
      {!link_is_whole.value && (
        <p class="notice">
          The text is too long for a link and is not in the address.
        </p>
      )}
    </>
  );
}

function RunFacts() {
  const r = run.value;
  if (!r) return null;
  const sides = Object.entries(r.sides).map(
    ([name, s]) =>
      `${count_text(s!.tokens.length)} tokens${Object.keys(r.sides).length > 1 ? " (" + name + ")" : ""}`,
  );
  return (
    <span class="faint run-facts" data-test="run-facts">
      {sides.join(", ")}
      {!r.model.tensors && ` · ${r.seconds.toFixed(2)} s`}
      {" · "}
      {bytes_text(r.bytes)}
      {r.case.attention !== "softmax" && ` · ${r.case.attention}`}
      {r.case.step >= 0 && ` · step ${count_text(r.case.step)}`}
      {r.case.untrained && " · untrained"}
    </span>
  );
}

function Recording() {
  const r = run.value;
  return (
    <section class="text-bar" aria-label="Text">
      <p class="notice" data-test="recording">
        {r?.model.tensors
          ? "This is a recording of tensors. For the live page, run "
          : "This is a recording: a text run once and kept in this file. To edit the text, run "}
        <code data-test="command">{hello.value!.command ?? "attend view"}</code>
        .
      </p>
      {r && (
        <p class="recorded-text">
          {r.case.text}
          {r.case.second ? " ‖ " + r.case.second : ""}
        </p>
      )}
      <div class="text-tools">
        <RunFacts />
        {r && <Missing model={r.model} />}
      </div>
      <Trouble />
    </section>
  );
}
