// The weights of one token as a table, also for screen readers.

import { useScene } from "./asking";
import { ask_row, fits_a_block, HeadScene } from "./head_scene";
import { largest, percent_text, weight_text } from "./numbers";
import { head_colour } from "./palette";
import { theme } from "./state";
import { TokenLabel } from "./token_label";

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
  const top = largest(value.mean, LISTED);
  let inside = 0;
  for (let k = range.key; k < range.key + range.keys; k++)
    inside += value.mean[k];
  const listed = value.heads.slice(0, 4);
  return (
    <div class="row-table">
      <table data-test="row-table" data-row={value.row}>
        <caption>
          <TokenLabel token={run.sides[role.row_side]!.labels[value.row]} /> at{" "}
          {value.row} looks at
        </caption>
        <thead>
          <tr>
            <th scope="col" class="right">
              at
            </th>
            <th scope="col">token</th>
            {listed.map((h) => (
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
              {listed.map((h, i) => (
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
