// The logit lens: layers by tokens, the likeliest token and its probability in each cell.

import { percent_text } from "./numbers";
import { ink_css, ink_over, Inks } from "./palette";
import { LogitLens, Side } from "./protocol";
import { go } from "./state";
import { TokenLabel, token_text } from "./token_label";

export function LensGrid({
  lens,
  side,
  position,
  inks,
}: {
  lens: LogitLens;
  side: Side;
  position: number;
  inks: Inks;
}) {
  const columns = lens.cells[0].map((_, i) => lens.row + i);
  const name = (layer: number) =>
    layer === 0 ? "in" : layer === lens.cells.length - 1 ? "out" : String(layer);
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Logit lens">
      <table class="lens" data-test="lens">
        <thead>
          <tr>
            <th scope="col">layer</th>
            {columns.map((token) => (
              <th
                key={token}
                scope="col"
                class={token === position ? "chosen" : ""}
              >
                <button
                  type="button"
                  class="quiet"
                  data-test="lens-token"
                  title={`Predictions at token ${token}`}
                  onClick={() => go({ token, target: -1, against: -1 })}
                >
                  <TokenLabel token={side.labels[token]} />
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {lens.cells.map((row, layer) => (
            <tr key={layer}>
              <th scope="row">{name(layer)}</th>
              {row.map((cell, i) => (
                <td
                  key={i}
                  data-test="lens-cell"
                  data-layer={layer}
                  data-token={lens.row + i}
                  data-number={cell[0].p}
                  title={cell
                    .map((c) => `${token_text(c.label)} ${percent_text(c.p)}`)
                    .join(", ")}
                  style={{
                    background: ink_css(cell[0].p, inks),
                    color: ink_over(cell[0].p, inks),
                  }}
                >
                  <span class="lens-token">{token_text(cell[0].label)}</span>
                  <span class="lens-p">{percent_text(cell[0].p)}</span>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
