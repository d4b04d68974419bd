// Head patterns of two models, counted in total and by layer; and how broadly their heads
// attend, by depth.

import { BesideScene } from "./beside_scene";
import { LinePlot, Series, series_colour, SeriesLegend } from "./line_plot";
import { Beside, Summary } from "./protocol";
import { go } from "./state";

const NONE = "no single pattern";

// Relative depth: the share of the layers up to and with this one.
const depth_of = (s: Summary, layer: number) => (layer + 1) / s.layers;

function series_of(
  scene: BesideScene,
  names: string[],
  of: (s: Summary) => (number | null)[],
): Series[] {
  return [scene.beside.first, scene.beside.second].map((s, i) => ({
    name: names[i],
    points: of(s)
      .slice(0, s.layers)
      .map((y, l) => [depth_of(s, l), y ?? NaN]),
  }));
}

function Examples({ s, at, side }: { s: Summary; at: number; side: 0 | 1 }) {
  if (at >= s.best.length) return <td class="examples" />;
  if (!s.best[at].length)
    return <td class="examples faint">does not apply</td>;
  return (
    <td class="examples">
      {s.best[at].map(([layer, head, score]) => (
        <button
          key={layer * 1000 + head}
          type="button"
          class="small"
          title={`Layer ${layer}, head ${head}: score ${score.toFixed(2)}`}
          data-test={side ? "example-second" : "example-first"}
          data-layer={layer}
          data-head={head}
          onClick={() =>
            go(
              side
                ? { other_layer: layer, other_head: head }
                : { layer, head, heads: [] },
            )
          }
        >
          {layer}.{head} <span class="faint">{score.toFixed(2)}</span>
        </button>
      ))}
    </td>
  );
}

function Bar({ s, count, i }: { s: Summary; count: number; i: number }) {
  const share = count / (s.layers * s.heads);
  return (
    <span class="pair-bar">
      <span
        class="pair-fill"
        style={{ width: `${share * 100}%`, background: series_colour(i) }}
      />
      <span class="number" data-number={count}>
        {count}
      </span>
    </span>
  );
}

function Totals({ scene, names }: { scene: BesideScene; names: string[] }) {
  const { first, second, labels, about } = scene.beside;
  const rows = [...labels, NONE];
  return (
    <div class="scroll-x">
      <table class="pattern-totals" data-test="pattern-totals">
        <caption>Heads by pattern</caption>
        <thead>
          <tr>
            <th scope="col">pattern</th>
            <th scope="col">heads of each; a full bar is all heads</th>
            {names.map((name, i) => (
              <th scope="col" key={i}>
                highest scores, {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((label, at) => (
            <tr key={label} data-test="pattern-row" data-pattern={scene.beside.names[at] ?? ""}>
              <th scope="row" title={about[at]}>
                {label}
              </th>
              <td class="pair-bars">
                <Bar s={first} count={first.counts[first.layers][at]} i={0} />
                <Bar s={second} count={second.counts[second.layers][at]} i={1} />
              </td>
              <Examples s={first} at={at} side={0} />
              <Examples s={second} at={at} side={1} />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Count({ s, layer, at, i }: { s: Summary; layer: number; at: number; i: number }) {
  const n = s.counts[layer][at];
  return (
    <span
      class="number"
      data-number={n}
      style={n ? { color: `color-mix(in srgb, ${series_colour(i)} 65%, var(--ink))`, fontWeight: 600 } : undefined}
    >
      {n || "·"}
    </span>
  );
}

function ByLayer({ beside, names }: { beside: Beside; names: string[] }) {
  const { first, second, depth } = beside;
  const used = [...beside.labels, NONE]
    .map((label, at) => ({ label, at }))
    .filter(({ at }) =>
      [first, second].some((s) => s.counts[s.layers][at] > 0),
    );
  return (
    <div class="scroll-x">
      <table class="pattern-layers" data-test="pattern-layers">
        <caption>By layer, at the same relative depth</caption>
        <thead>
          <tr>
            <th scope="col">layers</th>
            {used.map(({ label, at }) => (
              <th scope="col" key={at}>
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {depth.map(([a, b], row) => (
            <tr key={row}>
              <th scope="row">
                {a} | {b}
              </th>
              {used.map(({ at }) => (
                <td key={at}>
                  <Count s={first} layer={a} at={at} i={0} /> |{" "}
                  <Count s={second} layer={b} at={at} i={1} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <p class="faint hint">
        Left of the bar: {names[0]}; right: {names[1]}. A head counts for the
        pattern that dominates it.
      </p>
    </div>
  );
}

const plots: [string, string, string, (s: Summary) => (number | null)[], number?][] = [
  ["entropy", "Mean entropy of a layer's heads", "nats", (s) => s.entropy],
  ["broad", "Entropy as a share of the largest possible", "share", (s) => s.broad, 1],
  ["later", "Weight on later tokens", "weight", (s) => s.later],
];

export function BesidePatterns({
  scene,
  names,
}: {
  scene: BesideScene;
  names: string[];
}) {
  return (
    <section class="beside-patterns">
      <h2>Head patterns</h2>
      <SeriesLegend names={names} />
      <Totals scene={scene} names={names} />
      <ByLayer beside={scene.beside} names={names} />
      <h2>By depth</h2>
      <SeriesLegend names={names} />
      <div class="plots">
        {plots.map(([id, title, unit, of, high]) => (
          <figure key={id}>
            <figcaption>{title}</figcaption>
            <LinePlot
              series={series_of(scene, names, of)}
              x_name="relative depth"
              y_name={unit}
              x_ends={[0, 1]}
              high={high}
              test={"depth-" + id}
              label={`${title}, by relative depth, of ${names.join(" and ")}`}
            />
          </figure>
        ))}
      </div>
    </section>
  );
}
