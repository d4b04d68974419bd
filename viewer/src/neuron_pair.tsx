// The neuron view of two texts: for the chosen word of each, the products of its query with
// every key, element by element, on common scales.

import { useState } from "preact/hooks";
import { Caption } from "./caption";
import { place_beside } from "./beside_scene";
import { TokenChoice } from "./neuron_view";
import { NeuronScene, useVectors, vector_inks } from "./neuron_scene";
import { is_masked } from "./masks";
import { clamp, signed_text, weight_text } from "./numbers";
import { Problem, Waiting } from "./controls";
import { go, place_in, state } from "./state";
import { Reading, Strip } from "./strip";
import { is_special, TokenLabel, token_text } from "./token_label";
import { span_words, WordFacts, WordScene } from "./word_pair";

const MOST = 200; // keys, those with the largest weights

interface Tops {
  q: number;
  product: number;
}

function keys_of(s: NeuronScene): number[] {
  const all = Array.from({ length: s.count }, (_, i) => i).filter(
    (i) => !is_masked(s.role, s.token, s.first + i),
  );
  if (all.length <= MOST) return all;
  all.sort((a, b) => Math.abs(s.weights[b]) - Math.abs(s.weights[a]));
  return all.slice(0, MOST).sort((a, b) => a - b);
}

function Row({ s, i, tops, read }: { s: NeuronScene; i: number; tops: Tops; read: (r: Reading | null) => void }) {
  const { role, q } = s;
  const side = s.run.sides[role.key_side]!;
  const index = s.first + i;
  const product = s.k
    .subarray(i * role.dim, (i + 1) * role.dim)
    .map((x, d) => x * q[d]);
  const scaled = product.reduce((a, b) => a + b, 0) * s.scale;
  const weight = s.weights[i];
  return (
    <div class="pair-row" role="row" data-test="pair-row" data-key={index}>
      <span role="rowheader" class="neuron-token">
        <span class="index">{index}</span>
        <TokenLabel token={side.labels[index]} special={is_special(side, index)} />
      </span>
      <span role="cell">
        <Strip values={product} inks={vector_inks(tops.product)} name="q×k" index={index} read={read} />
      </span>
      <span role="cell" class="number" data-test="pair-scaled" data-number={scaled}>
        {signed_text(scaled, 2)}
      </span>
      <span
        role="cell"
        class="weight-bar"
        style={{ "--share": `${clamp(Math.abs(weight), 0, 1) * 100}%` }}
      >
        <span class="number" data-test="pair-weight" data-key={index} data-number={weight}>
          {weight_text(weight)}
        </span>
      </span>
    </div>
  );
}

function Column({ s, tops, title, test }: { s: NeuronScene; tops: Tops; title: string; test: string }) {
  const [reading, read] = useState<Reading | null>(null);
  const side = s.run.sides[s.role.key_side]!;
  const query = s.run.sides[s.role.row_side]!.labels[s.token];
  const words = reading
    ? `${reading.name}${reading.key < 0 ? "" : ` of “${token_text(side.labels[reading.key])}”`}, dimension ${reading.dim}: ${signed_text(reading.value, 4)}`
    : "Point at a cell to read its number.";
  return (
    <section class="pair-column" data-test={test} data-token={s.token} aria-label={title}>
      <h2>{title}</h2>
      <p class="faint">
        layer {s.place.layer}, head {s.place.head}
      </p>
      <p class="reading">{words}</p>
      <div class="scroll-x" tabIndex={0} role="region" aria-label={`Products of ${title}`}>
        <div role="table" class="pair-table" aria-label={`Query “${token_text(query)}”: products with its keys`}>
          <div class="pair-row" role="row">
            <span role="rowheader" class="neuron-token">
              <b>q</b> <TokenLabel token={query} />
            </span>
            <span role="cell">
              <Strip values={s.q} inks={vector_inks(tops.q)} name="q" index={-1} read={read} label={`q of token ${s.token}`} />
            </span>
            <span role="cell" />
            <span role="cell" />
          </div>
          <div class="pair-row neuron-head" role="row">
            <span role="columnheader">key</span>
            <span role="columnheader">q × k, element by element</span>
            <span role="columnheader" class="right">
              q · k scaled
            </span>
            <span role="columnheader" class="right">
              weight
            </span>
          </div>
          {keys_of(s).map((i) => (
            <Row key={s.first + i} s={s} i={i} tops={tops} read={read} />
          ))}
        </div>
      </div>
    </section>
  );
}

// Numbers of this head: how alike the word's own vectors are.
function HereCosines({ scene, layer, head }: { scene: WordScene; layer: number; head: number }) {
  const { q, k, v } = scene.pair;
  if (!q || !k || !v) return null;
  const all = { "its queries": q, "its keys": k, "its values": v };
  return (
    <p class="reading" data-test="here-cosines">
      In this head, cosine of the two texts:{" "}
      {Object.entries(all).map(([name, x], i) => (
        <span key={name}>
          {i ? ", " : ""}
          {name} <b data-number={x[layer][head]}>{signed_text(x[layer][head], 3)}</b>
        </span>
      ))}
      .
    </p>
  );
}

export function NeuronPair({ pair }: { pair: WordScene }) {
  const s = state.value;
  const { run: r, other } = pair;
  const { role, place, token } = place_in(r, s);
  const second = place_beside(s, role, place, other);
  const a_token = token >= 0 ? token : pair.pair.word[0];
  const b_token = s.other_token >= 0 ? s.other_token : pair.pair.other[0];
  const a = useVectors({ run: r, role, place, token: a_token });
  const b = useVectors({ run: other, role: second.role, place: second.place, token: b_token });
  const error = a.error || b.error;
  if (!a.value || !b.value) return error ? <Problem text={error} /> : <Waiting />;
  const tops = {
    q: Math.max(a.value.top, b.value.top),
    product: Math.max(a.value.top_product, b.value.top_product),
  };
  const same = other.model.id === r.model.id;
  return (
    <>
      <div class="bar">
        <TokenChoice
          label="Query token, first text"
          test="query"
          run={r}
          role={role}
          token={a_token}
          choose={(token) => go({ token })}
        />
        <TokenChoice
          label="Query token, second text"
          test="other-query"
          run={other}
          role={second.role}
          token={b_token}
          choose={(other_token) => go({ other_token })}
        />
      </div>
      {same && <HereCosines scene={pair} layer={place.layer} head={place.head} />}
      <div class="neuron-pair" data-test="neuron-pair">
        <Column s={a.value} tops={tops} title={title_of(r, other, r)} test="pair-first" />
        <Column s={b.value} tops={tops} title={title_of(other, r, other)} test="pair-second" />
      </div>
      <Caption
        name="neuron.pair"
        facts={{
          attention: role.words,
          query: span_words(r, role, pair.pair.word),
        }}
      />
      <p class="faint hint">
        Both columns have the same colours: ±{signed_text(tops.q, 1)} for q, ±
        {signed_text(tops.product, 1)} for products. Hidden keys are left out.
      </p>
      <WordFacts scene={pair} layer={place.layer} />
    </>
  );
}

type Run = WordScene["run"];

// What tells one run from the other.
function title_of(r: Run, from: Run, c: Run): string {
  if (r.model.id !== from.model.id) return c.model.name;
  if (r.case.untrained !== from.case.untrained)
    return c.case.untrained ? "untrained" : "trained";
  if (r.case.step !== from.case.step) return `step ${c.case.step}`;
  if (r.case.attention !== from.case.attention) return c.case.attention;
  return "“" + c.case.text + (c.case.second ? " ‖ " + c.case.second : "") + "”";
}
