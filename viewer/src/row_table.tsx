// The weights of one token as a table, also for screen readers.

import { useScene } from "./asking";
import { ask_row, fits_a_block, HeadScene } from "./head_scene";
import { is_masked } from "./masks";
import { largest, percent_text, weight_text } from "./numbers";
import { head_colour } from "./palette";
import { theme } from "./state";
import { row_labels, TokenLabel } from "./token_label";

const LISTED = 10;

export function RowTable({
  scene,
  row,
  caption,
}: {
  scene: HeadScene;
  row: number;
  caption: string;
}) {
  const { run, role, place, range } = scene;
  const shown = row >= 0 && row < role.rows;
  const heads = scene.heads.map((h) => h.head);
  const key = shown
    ? [run.run, role.role, place.layer, heads.join(), row].join()
    : null;
  const { value, error } = useScene(key, async (signal) => {
    // A row of a long text needs a request, which is delayed while the pointer moves.
    if (!fits_a_block(role)) await new Promise((done) => setTimeout(done, 120));
    if (signal.aborted) throw new Error("passed over");
    const rows = await Promise.all(
      heads.map((head) => ask_row(run, role, { ...place, head }, row, signal)),
    );
    const mean = Float32Array.from(
      { length: role.keys },
      (_, k) => rows.reduce((sum, w) => sum + w[k], 0) / rows.length,
    );
    return { row, heads, rows, mean, run };
  });
  if (!shown || !value || value.run !== run) {
    return <p class="faint hint">{error || caption}</p>;
  }
  const keys = run.sides[role.key_side]!.labels;
  const visible = Array.from(value.mean, (w, k) =>
    is_masked(role, value.row, k) ? -Infinity : w,
  );
  const top = largest(visible, LISTED).filter((k) => visible[k] > -Infinity);
  let inside = 0;
  for (let k = range.key; k < range.key + range.keys; k++)
    inside += value.mean[k];
  return (
    <div
      class="row-table"
      tabIndex={value.heads.length > 4 ? 0 : undefined}
      role="region"
      aria-label={`Weights of row ${value.row}`}
    >
      <table data-test="row-table" data-row={value.row}>
        <caption>
          <TokenLabel token={row_labels(run, role)[value.row]} /> at{" "}
          {value.row} looks at
        </caption>
        <thead>
          <tr>
            <th scope="col" class="right">
              at
            </th>
            <th scope="col">token</th>
            {value.heads.map((h) => (
              <th key={h} scope="col" class="right">
                <span
                  class="swatch"
                  style={{ "--chip": head_colour(h, theme.value) }}
                />{" "}
                {h}
              </th>
            ))}
            {value.heads.length > 1 && (
              <th scope="col" class="right">
                mean
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {top.map((k) => (
            <tr key={k}>
              <td class="right faint">{k}</td>
              <td>
                <TokenLabel token={keys[k]} />
              </td>
              {value.heads.map((h, i) => (
                <td
                  key={h}
                  class="number"
                  data-test="top-weight"
                  data-row={value.row}
                  data-key={k}
                  data-head={h}
                  data-number={value.rows[i][k]}
                >
                  {weight_text(value.rows[i][k])}
                </td>
              ))}
              {value.heads.length > 1 && (
                <td class="number">{weight_text(value.mean[k])}</td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      {range.keys < role.keys && (
        <p class="hint" data-test="row-outside">
          {percent_text(Math.max(0, 1 - inside))} of it lies outside the window.
        </p>
      )}
    </div>
  );
}

// The queries that attend to one key, of those that are in sight.
export function KeyTable({ scene, index }: { scene: HeadScene; index: number }) {
  const { run, role, range, heads } = scene;
  const rows = Array.from({ length: range.rows }, (_, i) => range.row + i);
  const seen = rows.filter((r) => !is_masked(role, r, index));
  const mean = seen.map(
    (r) => heads.reduce((sum, h) => sum + h.at(r, index), 0) / heads.length,
  );
  return (
    <div
      class="row-table"
      tabIndex={heads.length > 4 ? 0 : undefined}
      role="region"
      aria-label={`Weights on key ${index}`}
    >
      <table data-test="key-table" data-key={index}>
        <caption>
          <TokenLabel token={run.sides[role.key_side]!.labels[index]} /> at{" "}
          {index} is looked at by
        </caption>
        <thead>
          <tr>
            <th scope="col" class="right">
              at
            </th>
            <th scope="col">token</th>
            {heads.map((h) => (
              <th key={h.head} scope="col" class="right">
                <span
                  class="swatch"
                  style={{ "--chip": head_colour(h.head, theme.value) }}
                />{" "}
                {h.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {largest(mean, LISTED).map((i) => (
            <tr key={seen[i]}>
              <td class="right faint">{seen[i]}</td>
              <td>
                <TokenLabel token={row_labels(run, role)[seen[i]]} />
              </td>
              {heads.map((h) => (
                <td key={h.head} class="number">
                  {weight_text(h.at(seen[i], index))}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
