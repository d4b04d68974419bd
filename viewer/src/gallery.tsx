// Example texts, with the questions of the course documents beside the view.

import { signal, useSignal } from "@preact/signals";
import { hello } from "./asking";
import { useDialog } from "./dialog";
import { opening } from "./gallery_head";
import { GalleryEntry } from "./protocol";
import { go, state, with_defaults } from "./state";

export const gallery_open = signal(false);

const models_of = (kind: string) =>
  (hello.value?.models ?? []).filter(
    (m) => m.parts === kind && !m.tensors,
  );

// A model that suits an entry, the current one if it does.
function model_for(entry: GalleryEntry): string | null {
  if (entry.beside && !models_of(entry.beside).length) return null;
  const fits = (hello.value?.models ?? []).filter(
    (m) =>
      !m.tensors &&
      (m.parts === entry.for || (m.parts === "both" && !entry.beside)),
  );
  const present = fits.find((m) => m.id === state.value.case.model);
  return (present ?? fits[0])?.id ?? null;
}

function needs(entry: GalleryEntry): string {
  if (entry.beside) return "a decoder and an encoder";
  return entry.for === "encoder" ? "an encoder" : "a decoder";
}

function open_entry(entry: GalleryEntry, model: string): void {
  gallery_open.value = false;
  const { case: c, other } = with_defaults(entry.state);
  go({
    ...with_defaults(entry.state),
    case: { ...c, model },
    other: other && {
      ...other,
      model: entry.beside ? models_of(entry.beside)[0].id : model,
    },
  });
  opening.value = entry; // its run is asked for from now on
}

export function Gallery() {
  const dialog = useDialog(gallery_open);
  const all = hello.value?.gallery ?? [];
  const entries = all.filter((e) => model_for(e) !== null);
  const missing = [
    ...new Set(
      all
        .filter((e) => model_for(e) === null)
        .map((e) => needs(e)),
    ),
  ];
  return (
    <dialog
      ref={dialog}
      class="panel"
      aria-labelledby="gallery-title"
      data-test="gallery"
      onClose={() => (gallery_open.value = false)}
    >
      <div class="panel-top">
        <h2 id="gallery-title">Gallery</h2>
        <button
          type="button"
          class="quiet"
          onClick={() => (gallery_open.value = false)}
        >
          Close
        </button>
      </div>
      <ul class="gallery-list">
        {entries.map((entry) => (
          <li key={entry.id}>
            <button
              type="button"
              data-test={"gallery-" + entry.id}
              onClick={() => open_entry(entry, model_for(entry)!)}
            >
              <b>{entry.title}</b>
              <span class="faint">{entry.state.case?.text}</span>
            </button>
          </li>
        ))}
      </ul>
      {missing.map((kind) => (
        <p key={kind} class="faint hint">
          {
            all.filter((e) => model_for(e) === null && needs(e) === kind)
              .length
          }{" "}
          more need {kind}: give attend view one more --model.
        </p>
      ))}
    </dialog>
  );
}

// The current entry, identified by its text.
function current_entry(): GalleryEntry | undefined {
  const { text, second } = state.value.case;
  return hello.value?.gallery.find(
    (e) =>
      e.state.case?.text === text && (e.state.case?.second ?? null) === second,
  );
}

export function Questions() {
  const folded = useSignal(innerWidth < 700);
  const entry = current_entry();
  if (!entry || entry.questions.length === 0) return null;
  return (
    <aside class="questions" aria-label="Questions" data-test="questions">
      <button
        type="button"
        class="quiet"
        aria-expanded={!folded.value}
        onClick={() => (folded.value = !folded.value)}
      >
        <b>{entry.title}</b>{" "}
        <span class="faint">{folded.value ? "questions ▸" : "▾"}</span>
      </button>
      {!folded.value && (
        <ol>
          {entry.questions.map((q) => (
            <li key={q}>{q}</li>
          ))}
        </ol>
      )}
    </aside>
  );
}
