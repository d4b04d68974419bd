// The changes that the shown run has, each with a button that takes it back.

import { run, source } from "./asking";
import {
  Change,
  KIND_WORDS,
  parse_changes,
  place_words,
  remove_change,
  set_changes,
} from "./changes";
import { state } from "./state";

function words_of(c: Change): string {
  const what = c.pin ? `pinned to ${c.pin}` : KIND_WORDS[c.kind];
  return `${place_words(c.place)}: ${what}`;
}

export function ActiveChanges() {
  const list = parse_changes(state.value.case.changes ?? "");
  if (list.length === 0) return null;
  return (
    <div class="active-changes" data-test="active-changes">
      <span class="faint">This run has changes:</span>
      <ul class="chips" aria-label="Changes of the run">
        {list.map((c) => (
          <li key={c.kind + c.place} class="change-chip">
            <span>{words_of(c)}</span>
            {source.live && (
              <button
                type="button"
                class="small"
                aria-label={"Undo: " + words_of(c)}
                data-test="remove-change"
                data-place={c.place}
                onClick={() => remove_change(c)}
              >
                ×
              </button>
            )}
          </li>
        ))}
      </ul>
      {list.length > 1 && source.live && (
        <button
          type="button"
          class="quiet"
          data-test="remove-changes"
          onClick={() => set_changes([])}
        >
          Undo all
        </button>
      )}
      {run.value && list.some((c) => c.kind === "patch" || c.kind === "mean") && (
        <span class="faint">
          {run.value.case.from
            ? `values from “${run.value.case.from}”`
            : "means over this text"}
        </span>
      )}
    </div>
  );
}
