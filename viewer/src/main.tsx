// The page: a header, the text, tabs, and the view that the state names.

import { effect, useSignal } from "@preact/signals";
import { FunctionComponent, render } from "preact";
import {
  follow_case,
  follow_other,
  hello,
  problem,
  progress,
  run,
  source,
} from "./asking";
import { rove } from "./controls";
import { AttributeView } from "./attribute_view";
import { CompareView } from "./compare_view";
import { training, follow_training } from "./training";
import { TrainingBar } from "./training_bar";
import { DesignPage, start_design } from "./design_page";
import { EmbeddingsView } from "./embeddings_view";
import { FlowView } from "./flow_view";
import { InterveneView } from "./intervene_view";
import { Gallery, gallery_open, Questions } from "./gallery";
import { Help, help_open, VIEW_WORDS } from "./help";
import { follow_opening } from "./gallery_head";
import { GenerateView } from "./generate_view";
import { hooks } from "./hooks";
import { HeadView } from "./head_view";
import { MatrixView } from "./matrix_view";
import { ModelView } from "./model_view";
import { NeuronView } from "./neuron_view";
import { SaveMenu } from "./save_menu";
import { TextBar } from "./text_bar";
import { Model, ViewName } from "./protocol";
import {
  change_case,
  follow_address,
  go,
  spoken,
  state,
  theme,
  theme_choice,
  VIEWS,
} from "./state";

const COMPONENTS: Record<ViewName, FunctionComponent> = {
  model: ModelView,
  head: HeadView,
  neuron: NeuronView,
  matrix: MatrixView,
  flow: FlowView,
  compare: CompareView,
  generate: GenerateView,
  embeddings: EmbeddingsView,
  intervene: InterveneView,
  attribute: AttributeView,
};

function offered(view: ViewName, model: Model | undefined): boolean {
  if (model?.without?.[view]) return false;
  return view !== "generate" || (source.writes && !!model?.writes);
}

function Header() {
  const known = hello.value!;
  const c = state.value.case;
  const dark = theme.value === "dark";
  const model = known.models.find((m) => m.id === c.model);
  return (
    <header class="top">
      <h1>attend</h1>
      {known.models.length > 1 && source.live ? (
        <>
          <label class="hidden" for="model-choice">
            Model
          </label>
          <select
            id="model-choice"
            value={c.model}
            data-test="model"
            onChange={(e) => {
              const to = e.currentTarget.value;
              const step =
                training.value?.model === to ? (training.value.last ?? -1) : -1;
              change_case({ model: to, second: null, step, changes: "", from: null });
              go({ target: -1, against: -1 }, "same");
            }}
          >
            {known.models.map((m) => (
              <option key={m.id} value={m.id}>
                {m.name}
              </option>
            ))}
          </select>
        </>
      ) : (
        <span class="model-name" data-test="model">
          {model?.name}
        </span>
      )}
      {model && (
        <span class="faint wide model-facts">
          {model.family}, {model.layers} layers × {model.heads} heads
        </span>
      )}
      <div class="top-tools">
        {source.live && known.gallery.length > 0 && (
          <button
            type="button"
            data-test="gallery-open"
            onClick={() => (gallery_open.value = true)}
          >
            Gallery
          </button>
        )}
        <SaveMenu />
        <button
          type="button"
          class="round"
          data-test="theme"
          aria-label={dark ? "Light colours" : "Dark colours"}
          title={dark ? "Light colours" : "Dark colours"}
          onClick={() => (theme_choice.value = dark ? "light" : "dark")}
        >
          {dark ? "☀" : "☾"}
        </button>
        <button
          type="button"
          class="round"
          aria-label="Help"
          title="Help"
          data-test="help-open"
          onClick={() => (help_open.value = true)}
        >
          ?
        </button>
      </div>
    </header>
  );
}

// On a phone the tabs are wider than the page.
function into_sight(tab: HTMLElement | null): void {
  const bar = tab?.parentElement;
  if (!tab || !bar || bar.scrollWidth <= bar.clientWidth) return;
  bar.scrollLeft = tab.offsetLeft - (bar.clientWidth - tab.offsetWidth) / 2;
}

function Tabs() {
  const current = state.value.view;
  const model = run.value?.model ?? hello.value?.models[0];
  const shown = VIEWS.filter((v) => offered(v, model));
  return (
    <div
      class="tabs"
      role="tablist"
      aria-label="Views"
      onKeyDown={(e) => rove(e, shown.length)}
    >
      {shown.map((v) => (
        <button
          key={v}
          ref={v === current ? into_sight : undefined}
          type="button"
          role="tab"
          id={"tab-" + v}
          aria-selected={v === current}
          aria-controls="view"
          tabIndex={v === current ? 0 : -1}
          data-rove
          data-test={"tab-" + v}
          onClick={() => go({ view: v })}
        >
          {VIEW_WORDS[v].title}
        </button>
      ))}
    </div>
  );
}

function Page() {
  const view = state.value.view;
  const View = COMPONENTS[view];
  return (
    <>
      <a
        class="skip"
        href="#view"
        onClick={(e) => {
          e.preventDefault(); // the address is the state's
          document.getElementById("view")?.focus();
        }}
      >
        Skip to the view
      </a>
      <Header />
      <TextBar />
      <main>
        <Tabs />
        <div
          id="view"
          role="tabpanel"
          aria-labelledby={"tab-" + view}
          tabIndex={-1}
          data-test={"view-" + view}
          class={(progress.value || problem.value) && run.value ? "stale" : ""}
        >
          <Questions />
          {run.value?.model.without?.[view] ? (
            <p class="waiting" data-test="no-view">
              {VIEW_WORDS[view].title} does not apply:{" "}
              {run.value.model.without[view]}.
            </p>
          ) : run.value ? (
            <View key={view} />
          ) : (
            <p class="waiting">{progress.value ? "Running the model…" : ""}</p>
          )}
        </div>
      </main>
      <TrainingBar />
      <Gallery />
      <Help view={view} />
      <div class="hidden" role="status" aria-live="polite" data-test="spoken">
        {spoken.value}
      </div>
    </>
  );
}

function App() {
  const failed = useSignal("");
  const begun = useSignal(false);
  if (!begun.value) {
    begun.value = true;
    source.hello().then(
      (h) => {
        follow_address(h.start);
        hello.value = h;
        follow_training();
        gallery_open.value = h.open_gallery && h.live && !location.hash;
        effect(() => {
          state.value;
          void follow_case();
          void follow_other();
          document.title = `${VIEW_WORDS[state.value.view].title} · attend`;
        });
        effect(() => void follow_opening());
      },
      (e) => (failed.value = e instanceof Error ? e.message : String(e)),
    );
  }
  if (failed.value)
    return (
      <main>
        <p class="problem" role="alert">
          {failed.value}
        </p>
      </main>
    );
  return hello.value ? (
    <Page />
  ) : (
    <main>
      <p class="waiting">Loading…</p>
    </main>
  );
}

window.attend = hooks;
const app = document.getElementById("app")!;
const design = document.getElementById("design")?.textContent?.trim();
if (design) {
  const { designs } = JSON.parse(design);
  start_design(designs);
  render(<DesignPage designs={designs} />, app);
} else {
  render(<App />, app);
}
