// One key of the neuron view: k, its products with q, the weight, and v.

import { useMemo } from "preact/hooks";
import { is_masked } from "./masks";
import { NeuronScene, vector_inks } from "./neuron_scene";
import { clamp, signed_text, weight_text } from "./numbers";
import { Reading, Strip } from "./strip";
import { is_special, TokenLabel } from "./token_label";

export function KeyRow({
  scene,
  index,
  read,
}: {
  scene: NeuronScene;
  index: number;
  read: (r: Reading | null) => void;
}) {
  const { role, token, first, q } = scene;
  const i = index - first;
  const here = i >= 0 && i < scene.count;
  const cells = useMemo(() => {
    if (!here) return null;
    const k = scene.k.subarray(i * role.dim, (i + 1) * role.dim);
    const product = k.map((x, d) => x * q[d]);
    return {
      k,
      product,
      dot: product.reduce((a, b) => a + b, 0),
      v: scene.v.subarray(i * role.dim_v, (i + 1) * role.dim_v),
    };
  }, [scene, index]);
  const side = scene.run.sides[role.key_side]!;
  const masked = is_masked(role, token, index);
  const weight = here ? scene.weights[i] : 0;
  const scaled = cells ? cells.dot * scene.scale : 0;
  return (
    <div
      class={masked ? "neuron-row masked" : "neuron-row"}
      role="row"
      data-test="neuron-row"
      data-key={index}
    >
      <span role="rowheader" class="neuron-token">
        <span class="index">{index}</span>
        <TokenLabel
          token={side.labels[index]}
          special={is_special(side, index)}
        />
      </span>
      {cells && !masked ? (
        <>
          <span role="cell">
            <Strip
              values={cells.k}
              inks={vector_inks(scene.top)}
              name="k"
              index={index}
              read={read}
            />
          </span>
          <span role="cell">
            <Strip
              values={cells.product}
              inks={vector_inks(scene.top_product)}
              name="q×k"
              index={index}
              read={read}
            />
          </span>
          <span
            role="cell"
            class="number"
            data-test="dot"
            data-key={index}
            data-number={cells.dot}
          >
            {signed_text(cells.dot, 2)}
          </span>
          <span
            role="cell"
            class="number"
            data-test="scaled"
            data-key={index}
            data-number={scaled}
          >
            {signed_text(scaled, 2)}
          </span>
          {role.bias && (
            <span role="cell" class="number" data-test="bias">
              {weight > 0
                ? signed_text(Math.log(weight) + scene.lse - scaled, 2)
                : "–"}
            </span>
          )}
          <span
            role="cell"
            class="weight-bar"
            style={{ "--share": `${clamp(Math.abs(weight), 0, 1) * 100}%` }}
          >
            <span
              class="number"
              data-test="weight"
              data-row={token}
              data-key={index}
              data-number={weight}
            >
              {weight_text(weight)}
            </span>
          </span>
          <span role="cell">
            <Strip
              values={cells.v}
              inks={vector_inks(scene.top_v)}
              name="v"
              index={index}
              read={read}
            />
          </span>
        </>
      ) : (
        <span role="cell" class="faint masked-words">
          {masked ? `hidden: ${masked}` : "…"}
        </span>
      )}
    </div>
  );
}
