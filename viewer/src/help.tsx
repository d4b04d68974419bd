// Descriptions of the views and keys.

import { ViewName } from "./protocol";
import { useDialog } from "./dialog";
import { signal } from "@preact/signals";

export const VIEW_WORDS: Record<ViewName, { title: string; about: string }> = {
  model: {
    title: "Model",
    about:
      "Every head of every layer as a small map of its weights. The chips " +
      "sort heads by a pattern, such as attending to the previous token, " +
      "measured from 0 to 1.",
  },
  head: {
    title: "Head",
    about:
      "Lines run from each token on the left to the tokens it attends to on " +
      "the right; the stronger the line, the larger the weight. Point at a " +
      "token to see only its lines and numbers, press to pin it, and " +
      "switch heads on and off by their colour: each has its own lines. In " +
      "cross-attention a row “→ dog” is the step that writes “dog”.",
  },
  neuron: {
    title: "Neuron",
    about:
      "For one query token: the products of q with each k, element by " +
      "element, the scores, the weights, and the head output, which is the " +
      "weighted sum of the values. Blue is positive, orange negative. With " +
      "another text, one word of both: its products, and the cosines of its " +
      "vectors by layer and head.",
  },
  matrix: {
    title: "Matrix",
    about:
      "The whole matrix of weights, a row for each query and a column for " +
      "each key, from an overview of a hundred thousand tokens down to " +
      "single weights. Hatched cells are masked; the legend explains the " +
      "masks.",
  },
  flow: {
    title: "Flow",
    about:
      "The receptive field: tokens of the input that reach one token's " +
      "output through the layers. Argmax follows the largest weight of each " +
      "head, so that k heads and n layers reach at most (k+1)ⁿ tokens; " +
      "rollout multiplies the mean attention of all layers.",
  },
  compare: {
    title: "Compare",
    about:
      "The same head under two conditions: another form of attention, " +
      "random weights, another text or another model. The middle map is the " +
      "difference, blue where the first is larger and orange where the " +
      "second is. Two models whose tokens, layers or heads differ are " +
      "compared by words, by the patterns of their heads, and by depth.",
  },
  generate: {
    title: "Generate",
    about:
      "Generation one token at a time: candidates with their " +
      "probabilities, the attention at each step, and the size of the KV " +
      "cache. Step, run, and go back.",
  },
  embeddings: {
    title: "Embeddings",
    about:
      "The cosines of the tokens' hidden states before each layer, from " +
      "token embeddings to tokens in context; with another text also " +
      "between both texts. Below, the sinusoidal " +
      "positions, and the matrix that maps every position to the next.",
  },
  intervene: {
    title: "Intervene",
    about:
      "Switch heads and MLPs off, replace them by their mean, patch them or " +
      "the residual stream from another text, or pin a head's attention to a " +
      "pattern. Probabilities, a logit and the loss stand beside those " +
      "without changes; every other view shows the changed run. Sweep " +
      "changes each place by itself and colours it by what that does.",
  },
  attribute: {
    title: "Attribute",
    about:
      "Which tokens, heads and MLPs a prediction comes from: gradient × " +
      "input, integrated gradients, gradients at attention weights, direct " +
      "contributions, and the logit lens. The sum of the scores stands " +
      "beside the true difference.",
  },
};

export const help_open = signal(false);

const KEYS: [string, string][] = [
  ["Tab", "move between controls"],
  ["Arrows", "within tabs, grids and token columns; move the matrix"],
  ["Enter", "enter a head, pin a token"],
  ["+ − 0", "zoom the matrix, show all of it"],
  ["Shift + arrows", "move the marked cell"],
  ["[ ]", "previous or next training step"],
];

export function Help({ view }: { view: ViewName }) {
  const dialog = useDialog(help_open);
  return (
    <dialog
      ref={dialog}
      class="panel"
      aria-labelledby="help-title"
      data-test="help"
      onClose={() => (help_open.value = false)}
    >
      <div class="panel-top">
        <h2 id="help-title">The views</h2>
        <button
          type="button"
          class="quiet"
          onClick={() => (help_open.value = false)}
        >
          Close
        </button>
      </div>
      <dl class="help-list">
        {(Object.keys(VIEW_WORDS) as ViewName[]).map((v) => (
          <div key={v} class={v === view ? "here" : ""}>
            <dt>{VIEW_WORDS[v].title}</dt>
            <dd>{VIEW_WORDS[v].about}</dd>
          </div>
        ))}
      </dl>
      <h3 class="keys-title">Keys</h3>
      <dl class="keys">
        {KEYS.map(([k, what]) => (
          <div key={k}>
            <dt>
              <kbd>{k}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </dialog>
  );
}
