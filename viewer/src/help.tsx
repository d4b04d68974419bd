// What each view shows, in two sentences.

import { ViewName } from "./protocol";
import { useDialog } from "./dialog";
import { signal } from "@preact/signals";

export const VIEW_WORDS: Record<ViewName, { title: string; about: string }> = {
  model: {
    title: "Model",
    about:
      "Every head of every layer as a small map of who looks at whom. The " +
      "chips find heads by what they do, such as looking at the token " +
      "before, each measured from 0 to 1.",
  },
  head: {
    title: "Head",
    about:
      "Lines run from each token on the left to the tokens it looks at on " +
      "the right; the stronger the line, the larger the weight. Point at a " +
      "token to see its lines and numbers alone, press to keep it, and " +
      "switch heads on and off by their colour.",
  },
  neuron: {
    title: "Neuron",
    about:
      "For one query token: how q and each k multiply, number by number, " +
      "into a score, how scores become weights, and how weighted values add " +
      "up to what the head gives. Blue is positive, orange negative.",
  },
  matrix: {
    title: "Matrix",
    about:
      "The whole table of weights, a row for each token that looks and a " +
      "column for each looked at, from one glance at a hundred thousand " +
      "tokens down to single weights. Hatched cells are hidden by a mask, " +
      "and the legend says which.",
  },
  flow: {
    title: "Flow",
    about:
      "Which tokens of the input can reach one token's output through the " +
      "layers. Argmax follows each head's strongest link, so that k heads " +
      "and n layers reach at most (k+1) to the power n tokens; rollout " +
      "multiplies the mean attention of all layers.",
  },
  compare: {
    title: "Compare",
    about:
      "The same place under two conditions: another form of attention, " +
      "random weights, another text or another model. The middle map is the " +
      "difference, blue where the first has more and orange where the " +
      "second has.",
  },
  generate: {
    title: "Generate",
    about:
      "The model writes one token at a time: its candidates with their " +
      "probabilities, where it looked for them, and how its memory grows. " +
      "Step, run, and go back.",
  },
  embeddings: {
    title: "Embeddings",
    about:
      "How alike the tokens' vectors are before each layer, as cosines, " +
      "from words alone to words in context. Below, the sinusoidal " +
      "positions, and the one matrix that moves every position to the next.",
  },
};

export const help_open = signal(false);

const KEYS: [string, string][] = [
  ["Tab", "from part to part"],
  ["Arrows", "within tabs, grids and token columns; move the matrix"],
  ["Enter", "enter a head, pin a token"],
  ["+ − 0", "zoom the matrix, show all of it"],
  ["Shift + arrows", "move the marked cell"],
  ["[ ]", "the step of training before or after"],
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
        <h2 id="help-title">What the views show</h2>
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
