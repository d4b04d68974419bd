// What the changes do: probabilities with and without them, a logit, the loss.

import { Caption } from "./caption";
import { percent_text, signed_text } from "./numbers";
import { Prediction } from "./prediction";
import { Effect } from "./protocol";
import { TokenLabel, token_text } from "./token_label";
import { head_side } from "./prediction";

function Bars({ effect }: { effect: Effect }) {
  const most = Math.max(...effect.tokens.flatMap((t) => [t.p, t.before]), 1e-9);
  return (
    <table class="bars effect-bars" data-test="effect">
      <caption>Probabilities</caption>
      <thead>
        <tr>
          <th>token</th>
          <th class="right">without</th>
          <th class="right">with changes</th>
          <th>
            <span class="hidden">bars</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {effect.tokens.map((t) => (
          <tr key={t.id} class={t.id === effect.target.token ? "target" : ""}>
            <td>
              <TokenLabel token={t.label} />
            </td>
            <td class="number" data-test="p-before" data-number={t.before}>
              {percent_text(t.before)}
            </td>
            <td class="number" data-test="p-with" data-number={t.p}>
              {percent_text(t.p)}
            </td>
            <td class="bar-cell" aria-hidden="true">
              <span
                class="bar-fill"
                style={{ width: `${(t.p / most) * 100}%` }}
              />
              <span
                class="bar-fill without"
                style={{ width: `${(t.before / most) * 100}%` }}
              />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Row(props: {
  name: string;
  test: string;
  before: number | null;
  value: number | null;
}) {
  const { before, value } = props;
  if (before === null || value === null) return null;
  return (
    <tr>
      <th scope="row">{props.name}</th>
      <td class="number">{signed_text(before, 3)}</td>
      <td class="number" data-test={props.test} data-number={value}>
        {signed_text(value, 3)}
      </td>
      <td class="number">
        {signed_text(value - before, 3).replace(/^(?=[0-9])/, "+")}
      </td>
    </tr>
  );
}

function Measures({ effect }: { effect: Effect }) {
  const t = effect.target;
  const logit =
    t.against >= 0
      ? `logit of “${token_text(t.label)}” − “${token_text(t.against_label)}”`
      : `logit of “${token_text(t.label)}”`;
  return (
    <table class="measures" data-test="measures">
      <thead>
        <tr>
          <th>
            <span class="hidden">measure</span>
          </th>
          <th class="right">without</th>
          <th class="right">with</th>
          <th class="right">difference</th>
        </tr>
      </thead>
      <tbody>
        {effect.has_head && (
          <>
            <Row
              name={logit}
              test="logit"
              before={effect.before}
              value={effect.value}
            />
            <Row
              name={"loss of the text"}
              test="loss"
              before={effect.loss_before}
              value={effect.loss}
            />
            <Row
              name="KL divergence, nats"
              test="divergence"
              before={0}
              value={effect.divergence}
            />
          </>
        )}
        <Row
          name="relative change of the last hidden states"
          test="state-change"
          before={0}
          value={effect.state}
        />
      </tbody>
    </table>
  );
}

export function EffectPanel({ value }: { value: Prediction }) {
  const { effect, run } = value;
  const side = run.sides[head_side(run)]!;
  return (
    <section class="effect-panel" aria-label="What the changes do">
      {effect.has_head ? (
        <Bars effect={effect} />
      ) : (
        <p class="faint hint" data-test="no-head">
          This model has no language-model head, so it predicts no tokens. The
          change of its last hidden states is measured instead.
        </p>
      )}
      <Measures effect={effect} />
      {effect.has_head && (
        <Caption
          name="intervene"
          facts={{
            position: effect.target.position,
            query: token_text(side.labels[effect.target.position]),
          }}
        />
      )}
    </section>
  );
}
