// A comparison in numbers: for the chosen head, for every head, and for the hidden
// states.

import type { CompareScene } from "./compare_view";
import { rove } from "./controls";
import { compact_text, count_text } from "./numbers";
import { ink_css, ink_over, Inks } from "./palette";
import { Place } from "./protocol";
import { go, theme } from "./state";

function distance_inks(): Inks {
  return { theme: theme.value, signed: false, top: 1, scale: "root" };
}

export function CompareFacts({
  scene,
  place,
}: {
  scene: CompareScene;
  place: Place;
}) {
  const c = scene.comparison;
  const { layer, head } = place;
  const distance = c.distance?.[layer]?.[head] ?? null;
  const error = c.output_error?.[layer]?.[head] ?? null;
  const entropy = c.entropy?.[layer]?.[head];
  const other_entropy = c.other_entropy?.[layer]?.[head];
  return (
    <section class="compare-facts">
      <h2>
        Layer {layer}, head {head}
      </h2>
      <dl class="facts">
        <dt>distance (0 same, 1 apart)</dt>
        <dd class="number" data-test="distance" data-number={distance ?? ""}>
          {compact_text(distance)}
        </dd>
        <dt>entropy, first</dt>
        <dd
          class="number"
          data-test="entropy"
          data-number={entropy ?? ""}
        >
          {compact_text(entropy)}
        </dd>
        <dt>entropy, second</dt>
        <dd
          class="number"
          data-test="other-entropy"
          data-number={other_entropy ?? ""}
        >
          {compact_text(other_entropy)}
        </dd>
        <dt>error of the head output</dt>
        <dd class="number" data-test="output-error" data-number={error ?? ""}>
          {compact_text(error)}
        </dd>
      </dl>
      {c.why && <p class="faint hint">{c.why}</p>}
      {c.rows_looked < c.rows && (
        <p class="faint hint">
          From {count_text(c.rows_looked)} of {count_text(c.rows)} rows.
        </p>
      )}
      {c.hidden_error && <HiddenError errors={c.hidden_error} />}
    </section>
  );
}

function HiddenError({ errors }: { errors: number[] }) {
  const top = Math.max(...errors, 1e-12);
  return (
    <table class="bars" data-test="hidden-error">
      <caption>Relative error of the hidden states</caption>
      <thead class="hidden">
        <tr>
          <th scope="col">before layer</th>
          <th scope="col">error</th>
          <th scope="col">bar</th>
        </tr>
      </thead>
      <tbody>
        {errors.map((e, l) => (
          <tr key={l}>
            <td class="right faint">{l === errors.length - 1 ? "end" : l}</td>
            <td class="number" data-number={e}>
              {compact_text(e)}
            </td>
            <td class="bar-cell">
              <span class="bar-fill" style={{ width: `${(e / top) * 100}%` }} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

// The distance of every head: shows where a change of form has the largest effect.
export function DistanceGrid({
  scene,
  place,
}: {
  scene: CompareScene;
  place: Place;
}) {
  const { distance } = scene.comparison;
  const inks = distance_inks();
  const heads = scene.role.heads;
  if (!distance || distance.every((layer) => layer.every((d) => d === null))) return null;
  return (
    <section>
      <h2>Distance of every head</h2>
      <div class="scroll-x">
        <div
          class="distance-grid"
          role="group"
          aria-label="Distance of every head"
          data-test="distance-grid"
          onKeyDown={(e) => rove(e, heads)}
          style={{
            gridTemplateColumns: `auto repeat(${heads}, minmax(30px, 52px))`,
          }}
        >
          <span />
          {Array.from({ length: heads }, (_, h) => (
            <span key={h} class="axis">
              {h}
            </span>
          ))}
          {distance.map((layer, l) => [
            <span key={"l" + l} class="axis layer-axis">
              {l}
            </span>,
            ...layer.map((d, h) => {
              const chosen = l === place.layer && h === place.head;
              return (
                <button
                  key={l * 1000 + h}
                  type="button"
                  data-rove
                  tabIndex={chosen ? 0 : -1}
                  class={chosen ? "distance chosen" : "distance"}
                  aria-label={`Layer ${l}, head ${h}: distance ${d === null ? "unknown" : d.toFixed(2)}`}
                  data-test="distance-cell"
                  data-layer={l}
                  data-head={h}
                  data-number={d ?? ""}
                  style={
                    d === null
                      ? undefined
                      : {
                          background: ink_css(d, inks),
                          color: ink_over(d, inks),
                        }
                  }
                  onClick={() => go({ layer: l, head: h })}
                >
                  {d === null ? "–" : d.toFixed(2)}
                </button>
              );
            }),
          ])}
        </div>
      </div>
    </section>
  );
}
