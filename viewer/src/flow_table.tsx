// The flow in numbers: tokens reached by layer, and the largest shares.

import { FlowScene } from "./flow_view";
import { count_text, percent_text } from "./numbers";
import { row_labels, TokenLabel } from "./token_label";

export function FlowTable({ scene }: { scene: FlowScene }) {
  const tokens = row_labels(scene.run, scene.role);
  const last = scene.nodes.length - 1;
  const input = [...scene.nodes[last]].sort((a, b) => b[1] - a[1]).slice(0, 10);
  return (
    <div class="flow-tables">
      {scene.way === "argmax" && (
        <table data-test="flow-counts">
          <caption>Tokens reached</caption>
          <thead>
            <tr>
              <th scope="col">before layer</th>
              <th scope="col" class="right">
                tokens
              </th>
            </tr>
          </thead>
          <tbody>
            {scene.nodes.slice(1).map((layer, i) => (
              <tr key={i}>
                <td>
                  {last - i - 1}
                  {i === last - 1 ? " (input)" : ""}
                </td>
                <td
                  class="number"
                  data-test="flow-count"
                  data-number={layer.length}
                >
                  {count_text(layer.length)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {scene.way === "rollout" && (
        <table data-test="flow-top">
          <caption>Largest shares of the input</caption>
          <thead>
            <tr>
              <th scope="col" class="right">
                at
              </th>
              <th scope="col">token</th>
              <th scope="col" class="right">
                share
              </th>
            </tr>
          </thead>
          <tbody>
            {input.map(([i, share]) => (
              <tr key={i}>
                <td class="right faint">{i}</td>
                <td>
                  <TokenLabel token={tokens[i]} />
                </td>
                <td class="number" data-number={share}>
                  {percent_text(share)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}
