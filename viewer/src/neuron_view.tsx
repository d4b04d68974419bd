// One head for one query: from the elements of q and k to the head output.

import { useSignal } from "@preact/signals";
import { useId, useState } from "preact/hooks";
import { Caption, CrossCaption } from "./caption";
import { source } from "./asking";
import { PlaceBar, Problem, Waiting } from "./controls";
import { Formula, Fraction, Mi, Mn, Mo, Sub, Sup } from "./math";
import { NeuronPair } from "./neuron_pair";
import { KeyRow } from "./neuron_row";
import { NeuronScene, useNeuronScene, vector_inks } from "./neuron_scene";
import { clamp, count_text, signed_text } from "./numbers";
import { Role, Run } from "./protocol";
import { go } from "./state";
import { Reading, Strip } from "./strip";
import { row_labels, TokenLabel, token_text, token_word } from "./token_label";
import { narrow } from "./width";
import { TwoTexts, useWordPair } from "./word_pair";

const SHOWN = 20; // rows in sight

// Pixels of a row, which has two lines on a phone.
const row_height = () => (narrow.value ? 52 : 26);

function QueryChoice({ scene }: { scene: NeuronScene }) {
  return (
    <TokenChoice
      label="Query token"
      test="query"
      run={scene.run}
      role={scene.role}
      token={scene.token}
      choose={(token) => go({ token })}
    />
  );
}

export function TokenChoice({
  label,
  test,
  run,
  role,
  token,
  choose,
}: {
  label: string;
  test: string;
  run: Run;
  role: Role;
  token: number;
  choose: (token: number) => void;
}) {
  const id = useId();
  const tokens = row_labels(run, role);
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {role.rows <= 1000 ? (
        <select
          id={id}
          value={token}
          data-test={test}
          onChange={(e) => choose(Number(e.currentTarget.value))}
        >
          {tokens.map((t, i) => (
            <option key={i} value={i}>
              {i} {token_text(t)}
            </option>
          ))}
        </select>
      ) : (
        <input
          id={id}
          type="number"
          min={0}
          max={role.rows - 1}
          value={token}
          data-test={test}
          onChange={(e) =>
            choose(
              clamp(Number(e.currentTarget.value) || 0, 0, role.rows - 1),
            )
          }
        />
      )}
    </div>
  );
}

function read_words(scene: NeuronScene, r: Reading | null): string {
  if (!r) return "Point at a cell to read its number.";
  const of =
    r.key < 0
      ? ""
      : ` of “${token_text(scene.run.sides[scene.role.key_side]!.labels[r.key])}”`;
  return `${r.name}${of}, dimension ${r.dim}: ${signed_text(r.value, 4)}`;
}

// How a row's numbers follow from another, with the numbers of this query.
function WeightFormula({ scene }: { scene: NeuronScene }) {
  const { role, form, scale, lse } = scene;
  const softmax = form.startsWith("softmax");
  const j = <mi>j</mi>;
  return (
    <p class="formulas">
      <Formula say="score j is scale times q dot k j">
        <Sub base="s" low={j} />
        <Mo>=</Mo>
        <Mn>{signed_text(scale, 4)}</Mn>
        <Mo>·</Mo>
        <Mi>q</Mi>
        <Mo>·</Mo>
        <Sub base="k" low={j} />
        {role.bias && (
          <>
            <Mo>+</Mo>
            <Sub base="b" low={j} />
          </>
        )}
      </Formula>
      {softmax ? (
        <Formula say="weight j is e to the score j minus the log of the sum, which is the softmax of the scores">
          <Sub base="w" low={j} />
          <Mo>=</Mo>
          <Fraction
            over={<Sup base={<mi>e</mi>} high={<Sub base="s" low={j} />} />}
            under={
              <>
                <munder>
                  <mo>∑</mo>
                  <mi>i</mi>
                </munder>
                <Sup base={<mi>e</mi>} high={<Sub base="s" low={<mi>i</mi>} />} />
              </>
            }
          />
          <Mo>=</Mo>
          <Sup
            base={<mi>e</mi>}
            high={
              <>
                <Sub base="s" low={j} />
                <mo>{lse < 0 ? "+" : "−"}</mo>
                <mn>{signed_text(Math.abs(lse), 3)}</mn>
              </>
            }
          />
        </Formula>
      ) : (
        <span class="faint">the weights are those of {form}</span>
      )}
      <Formula say="the output is the sum over j of weight j times v j">
        <Mi>o</Mi>
        <Mo>=</Mo>
        <munder>
          <mo>∑</mo>
          {j}
        </munder>
        <Sub base="w" low={j} />
        <Sub base="v" low={j} />
      </Formula>
    </p>
  );
}

// One text, or two beside each other.
export function NeuronView() {
  const pair = useWordPair();
  if (!pair.wanted) return <OneNeuron />;
  return (
    <div class="view neuron-view">
      <PlaceBar>
        <TwoTexts />
      </PlaceBar>
      <Problem text={pair.error} />
      {pair.value ? (
        <NeuronPair pair={pair.value} />
      ) : (
        !pair.error && <Waiting />
      )}
    </div>
  );
}

function OneNeuron() {
  const scroll = useSignal(0);
  const ROW = row_height();
  const first_seen = Math.floor(scroll.value / ROW);
  const { value: scene, error } = useNeuronScene(first_seen);
  const [reading, read] = useState<Reading | null>(null);
  if (!scene)
    return error ? (
      <>
        <PlaceBar />
        <Problem text={error} />
      </>
    ) : (
      <Waiting />
    );
  const { role, token } = scene;
  const from = clamp(first_seen - 4, 0, role.keys);
  const to = Math.min(role.keys, first_seen + SHOWN + 8);
  const softmax = scene.form.startsWith("softmax");
  return (
    <div class="view neuron-view">
      <PlaceBar>
        <QueryChoice scene={scene} />
        {source.live && <TwoTexts />}
      </PlaceBar>
      <p class="reading" data-test="reading" data-number={reading?.value ?? ""}>
        {read_words(scene, reading)}
      </p>
      <div
        class="scroll-x"
        tabIndex={0}
        role="region"
        aria-label="Query, keys and values"
      >
        <div class={role.bias ? "neuron with-bias" : "neuron"}>
          <div class="neuron-row neuron-q">
            <span class="neuron-token">
              <b>q</b>{" "}
              <TokenLabel
                token={row_labels(scene.run, role)[token]}
              />
            </span>
            <Strip
              values={scene.q}
              inks={vector_inks(scene.top)}
              name="q"
              index={-1}
              read={read}
              test="strip-q"
              label={`q of token ${token}, ${role.dim} numbers`}
            />
          </div>
          <div
            role="table"
            aria-rowcount={role.keys + 1}
            aria-label={`Query ${token}: products with ${count_text(role.keys)} keys`}
          >
            <div class="neuron-row neuron-head" role="row">
              <span role="columnheader">key</span>
              <span role="columnheader">k</span>
              <span role="columnheader">q × k</span>
              <span role="columnheader" class="right">
                q · k
              </span>
              <span
                role="columnheader"
                class="right"
                title={`times ${scene.scale}`}
              >
                scaled
              </span>
              {role.bias && (
                <span role="columnheader" class="right">
                  bias
                </span>
              )}
              <span role="columnheader" class="right">
                {softmax ? "softmax" : "weight"}
              </span>
              <span role="columnheader">v</span>
            </div>
            <div
              class="neuron-scroll"
              role="rowgroup"
              tabIndex={0}
              aria-label="Keys"
              style={{ maxHeight: SHOWN * 26 + "px" }}
              onScroll={(e) => (scroll.value = e.currentTarget.scrollTop)}
            >
              <div
                class="neuron-space"
                role="presentation"
                style={{
                  height: role.keys * ROW + "px",
                  paddingTop: from * ROW + "px",
                }}
              >
                {Array.from({ length: to - from }, (_, i) => (
                  <KeyRow
                    key={from + i}
                    scene={scene}
                    index={from + i}
                    read={read}
                  />
                ))}
              </div>
            </div>
          </div>
          <div class="neuron-row neuron-out">
            <span class="neuron-token">
              <b>out</b>
            </span>
            <span class="out-words faint">
              the weighted sum of v
              {softmax ? "" : ` (${scene.form})`}
            </span>
            <Strip
              values={scene.out}
              inks={vector_inks(scene.top_v)}
              name="out"
              index={-1}
              read={read}
              test="strip-out"
              label={`Head output, ${role.dim_v} numbers`}
            />
          </div>
        </div>
      </div>
      <Caption
        name="neuron"
        facts={{
          attention: role.words,
          position: token,
          query: token_word(row_labels(scene.run, role)[token]),
        }}
      />
      <CrossCaption
        role={role}
        labels={row_labels(scene.run, role)}
        row={token}
      />
      <WeightFormula scene={scene} />
      <p class="faint hint">
        Colours reach ±{signed_text(scene.top, 1)} for q and k, ±
        {signed_text(scene.top_product, 1)} for products, ±
        {signed_text(scene.top_v, 1)} for v.
      </p>
    </div>
  );
}
