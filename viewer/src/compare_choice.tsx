// The choice of the comparison. All of it is in the state: `form` for another form in
// one head alone, `other` for another run.

import { signal } from "@preact/signals";
import { useId } from "preact/hooks";
import { hello, run, source } from "./asking";
import { Slider, Switch } from "./controls";
import { training_here } from "./training";
import { count_text } from "./numbers";
import { Case } from "./protocol";
import { go, state } from "./state";

type Kind = "form" | "untrained" | "text" | "model" | "step";

const DEFAULT_FORM = "favor(m=256)";
const FORMS = ["favor", "fourier", "elu", "poly", "gaussian", "argmax"];
const WITH_FEATURES = ["favor", "fourier"];

// Equal cases do not determine the kind of comparison: the last choice does.
const chosen_kind = signal<Kind | null>(null);
addEventListener("popstate", () => (chosen_kind.value = null));

export function kind_of(c: Case, other: Case | null): Kind {
  if (!other || other.attention !== c.attention) return "form";
  if (other.model !== c.model) return "model";
  if (other.untrained !== c.untrained) return "untrained";
  if (other.text !== c.text || other.second !== c.second) return "text";
  const chosen = chosen_kind.value;
  if (other.step !== c.step) return chosen === "text" ? "text" : "step";
  return chosen === "step" ? "step" : "text";
}

export function compared_form(): string {
  return state.value.form || DEFAULT_FORM;
}

// Another model reads the same text. A pair is one text for models that read no pairs.
function text_for(c: Case, model: string): Partial<Case> {
  const parts = (id: string) =>
    hello.value!.models.find((m) => m.id === id)?.parts;
  const own = parts(c.model);
  if (c.second === null || own === parts(model)) return {};
  const text = own === "encoder" ? c.text + " " + c.second : c.text;
  return { text, second: null };
}

export function tensors_here(): boolean {
  const { model } = state.value.case;
  return !!hello.value!.models.find((m) => m.id === model)?.tensors;
}

// Tensors without queries and keys have one form.
export function takes_forms(): boolean {
  return !tensors_here() || !!run.value?.roles.some((r) => r.dim && r.dim_v);
}

// A link has the chosen values; values derived from the text are computed here.
export function settle_other(): void {
  const { case: c, other, form } = state.value;
  if (!other) {
    if (!takes_forms()) choose_kind("model");
    else if (!form) go({ form: DEFAULT_FORM }, "same");
    return;
  }
  const kind = kind_of(c, other);
  if (kind === "step") chosen_kind.value = "step";
  if (kind === "text") {
    if (other.step !== c.step)
      go({ other: { ...other, step: c.step } }, "same");
    return;
  }
  const mine =
    kind === "form"
      ? { attention: other.attention }
      : kind === "model"
        ? {
            model: other.model,
            step: other.step,
            ...text_for(c, other.model),
          }
        : kind === "step"
          ? { step: other.step }
          : { untrained: other.untrained };
  const settled = { ...c, ...mine };
  if (JSON.stringify(settled) !== JSON.stringify(other))
    go({ other: settled }, "same");
}

function choose_kind(kind: Kind): void {
  const c = state.value.case;
  const models = hello.value!.models;
  chosen_kind.value = kind;
  if (kind === "step") go({ other: { ...c, step: training_here()!.steps[0] } });
  else if (kind === "form") go({ other: null, form: compared_form() });
  else if (kind === "untrained")
    go({ other: { ...c, untrained: !c.untrained } });
  else if (kind === "text") go({ other: { ...c } });
  else choose_model((models.find((m) => m.id !== c.model) ?? models[0]).id);
}

function choose_model(model: string): void {
  const c = state.value.case;
  go({
    other: { ...c, model, step: -1, ...text_for(c, model) },
    other_layer: -1,
    other_head: -1,
    other_token: -1,
  });
}

function form_parts(form: string): { name: string; features: number } {
  return {
    name: /^[a-z]+/.exec(form)?.[0] ?? "favor",
    features: Number(/m=(\d+)/.exec(form)?.[1] ?? 256),
  };
}

function form_text(name: string, features: number): string {
  if (WITH_FEATURES.includes(name)) return `${name}(m=${features})`;
  return name === "poly" ? "poly(p=2)" : name;
}

function FormChoice() {
  const id = useId();
  const { other, case: c } = state.value;
  const whole = other !== null;
  const form = whole ? other.attention : compared_form();
  const { name, features } = form_parts(form);
  const set = (f: string) =>
    go(
      whole ? { form: f, other: { ...c, attention: f } } : { form: f },
      "same",
    );
  return (
    <>
      <div class="field">
        <label for={id}>Form</label>
        <select
          id={id}
          value={name}
          data-test="form"
          onChange={(e) => set(form_text(e.currentTarget.value, features))}
        >
          {FORMS.map((f) => (
            <option key={f} value={f}>
              {f}
            </option>
          ))}
        </select>
      </div>
      {WITH_FEATURES.includes(name) && (
        <Slider
          label="Random features m"
          test="features"
          min={3}
          max={10}
          value={Math.round(Math.log2(features))}
          text={String(features)}
          change={(n) => set(form_text(name, 2 ** n))}
        />
      )}
      {!tensors_here() && (
      <Switch
        label="Swapped"
        name="scope"
        value={whole ? "whole" : "alone"}
        options={[
          { value: "alone", label: "in this head alone" },
          { value: "whole", label: "in the whole model" },
        ]}
        choose={(scope) =>
          go(
            scope === "whole"
              ? { form, other: { ...c, attention: form } }
              : { form, other: null },
          )
        }
      />
      )}
    </>
  );
}

export function OtherText() {
  const id = useId();
  const other = state.value.other!;
  return (
    <div class="field other-text">
      <label for={id}>The other text</label>
      <input
        id={id}
        type="text"
        value={other.text}
        data-test="other-text"
        spellcheck={false}
        onChange={(e) =>
          go({
            other: { ...other, text: e.currentTarget.value },
            other_token: -1,
          })
        }
      />
    </div>
  );
}

function OtherStep() {
  const id = useId();
  const other = state.value.other!;
  return (
    <div class="field">
      <label for={id}>The other step</label>
      <select
        id={id}
        value={other.step}
        data-test="other-step"
        onChange={(e) =>
          go({ other: { ...other, step: Number(e.currentTarget.value) } })
        }
      >
        {training_here()!.steps.map((s) => (
          <option key={s} value={s}>
            {count_text(s)}
          </option>
        ))}
      </select>
    </div>
  );
}

export function CompareChoice() {
  const id = useId();
  const { case: c, other } = state.value;
  const kind = kind_of(c, other);
  const models = hello.value!.models;
  const kinds: { value: Kind; label: string }[] = [];
  if (takes_forms()) kinds.push({ value: "form", label: "another form" });
  if (!tensors_here())
    kinds.push(
      { value: "untrained", label: c.untrained ? "trained" : "untrained" },
      { value: "text", label: "another text" },
    );
  if (models.length > 1) kinds.push({
      value: "model",
      label: tensors_here() ? "another file" : "another model",
    });
  if (training_here()) kinds.push({ value: "step", label: "another step" });
  if (!source.live && !run.value) return null;
  return (
    <>
      <Switch
        label="Compare with"
        name="kind"
        value={kind}
        options={kinds}
        choose={choose_kind}
      />
      {kind === "form" && <FormChoice />}
      {kind === "text" && <OtherText />}
      {kind === "step" && training_here() && <OtherStep />}
      {kind === "model" && (
        <div class="field">
          <label for={id}>
            {tensors_here() ? "The other file" : "The other model"}
          </label>
          <select
            id={id}
            value={other!.model}
            data-test="other-model"
            onChange={(e) => choose_model(e.currentTarget.value)}
          >
            {models
              .filter((m) => m.id !== c.model)
              .map((m) => (
                <option key={m.id} value={m.id}>
                  {m.name}
                </option>
              ))}
          </select>
        </div>
      )}
    </>
  );
}
