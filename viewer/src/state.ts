// The state of the page as signals, synchronised with the address.
//
// `state` is all that a link needs. A change of the view is a history entry that Back
// undoes; a hover or a keystroke in the text replaces the current entry.

import { computed, effect, signal } from "@preact/signals";
import { Case, Run, State, ViewName } from "./protocol";

const DEFAULT_CASE: Case = {
  model: "0",
  text: "",
  second: null,
  attention: "softmax",
  untrained: false,
  seed: 0,
  pad: 0,
  step: -1,
  changes: "",
  from: null,
};

const DEFAULT_STATE: State = {
  view: "model",
  case: DEFAULT_CASE,
  other: null,
  role: "",
  layer: 0,
  head: 0,
  heads: [],
  token: -1,
  key: -1,
  other_layer: -1,
  other_head: -1,
  other_token: -1,
  filter: "all",
  pool: "max",
  way: "rollout",
  form: "",
  sort: "",
  zoom: "",
  colour: "root",
  target: -1,
  against: -1,
  method: "gradient",
  metric: "logit",
  sweep: false,
  change: "ablate",
  point: "head_output",
};

export const VIEWS: ViewName[] = [
  "model",
  "head",
  "neuron",
  "matrix",
  "flow",
  "compare",
  "generate",
  "embeddings",
  "intervene",
  "attribute",
];

// Longer texts are left out of the address: browsers truncate or refuse such links.
const LINK_TEXT = 100_000;

export const state = signal<State>(DEFAULT_STATE);
export const link_is_whole = computed(
  () => state.value.case.text.length <= LINK_TEXT,
);

type Plain = Record<string, string>;

function write_case(c: Case, prefix: string, out: Plain): void {
  for (const [name, value] of Object.entries(c)) {
    if (value === DEFAULT_CASE[name as keyof Case]) continue;
    if (typeof value === "string" && value.length > LINK_TEXT) continue;
    out[prefix + name] = String(value);
  }
}

export function address_of(s: State): string {
  const out: Plain = {};
  for (const [name, value] of Object.entries(s)) {
    if (name === "case" || name === "other") continue;
    if (
      name === "heads"
        ? s.heads.length === 0
        : value === DEFAULT_STATE[name as keyof State]
    )
      continue;
    out[name] = String(value);
  }
  write_case(s.case, "", out);
  if (s.other) {
    write_case(s.other, "other.", out);
    out["other.text"] = s.other.text; // it is what tells that there is another
  }
  return Object.entries(out)
    .map(([n, v]) => n + "=" + encodeURIComponent(v))
    .join("&");
}

function read_case(given: Map<string, string>, prefix: string): Case {
  const out: Record<string, unknown> = { ...DEFAULT_CASE };
  for (const [name, standard] of Object.entries(DEFAULT_CASE)) {
    const value = given.get(prefix + name);
    if (value === undefined) continue;
    out[name] =
      typeof standard === "number"
        ? Number(value) || 0
        : typeof standard === "boolean"
          ? value === "true"
          : value;
  }
  return out as unknown as Case;
}

function state_of(address: string, start: Partial<State>): State {
  const given = new Map<string, string>();
  for (const pair of address.replace(/^#/, "").split("&")) {
    const at = pair.indexOf("=");
    if (at > 0)
      given.set(pair.slice(0, at), decodeURIComponent(pair.slice(at + 1)));
  }
  if (given.size === 0) return with_defaults(start);
  const out: Record<string, unknown> = { ...DEFAULT_STATE };
  for (const [name, standard] of Object.entries(DEFAULT_STATE)) {
    const value = given.get(name);
    if (value === undefined || name === "case" || name === "other") continue;
    if (name === "heads")
      out.heads = value.split(",").map(Number).filter(Number.isInteger);
    else
      out[name] =
        typeof standard === "number"
          ? Math.trunc(Number(value)) || 0
          : typeof standard === "boolean"
            ? value === "true"
            : value;
  }
  out.case = read_case(given, "");
  const begun = with_defaults(start).case;
  if (!given.has("text"))
    out.case = {
      ...(out.case as Case),
      text: begun.text,
      second: begun.second,
    };
  if (!given.has("step") && (out.case as Case).model === begun.model)
    out.case = { ...(out.case as Case), step: begun.step };
  out.other = given.has("other.text") ? read_case(given, "other.") : null;
  if (!VIEWS.includes(out.view as ViewName)) out.view = "model";
  return out as unknown as State;
}

export function with_defaults(s: Partial<State>): State {
  return {
    ...DEFAULT_STATE,
    ...s,
    case: { ...DEFAULT_CASE, ...s.case },
    other: s.other ? { ...DEFAULT_CASE, ...s.other } : null,
  };
}

// "step": a new history entry. "same": replaces the current entry.
export function go(
  change: Partial<State>,
  how: "step" | "same" = "step",
): void {
  const next = { ...state.value, ...change };
  const address = address_of(next);
  if (address === address_of(state.value) && next.case === state.value.case)
    return;
  state.value = next;
  try {
    if (how === "step") {
      replace_now(); // else it would come later, and undo this step
      history.pushState(null, "", "#" + address);
    } else {
      replace_soon(address);
    }
  } catch {
    // A page opened from disk may be refused a history; the state is set all
    // the same.
  }
}

// Browsers limit history changes per second, and hovering makes many.
let waiting: number | undefined;
let replacement: string | null = null;

function replace_soon(address: string): void {
  clearTimeout(waiting);
  replacement = address;
  waiting = window.setTimeout(replace_now, 200);
}

function replace_now(): void {
  clearTimeout(waiting);
  if (replacement === null) return;
  try {
    history.replaceState(null, "", "#" + replacement);
  } catch {
    // As above.
  }
  replacement = null;
}

export function change_case(
  change: Partial<Case>,
  how: "step" | "same" = "step",
): void {
  const fresh = { token: -1, key: -1, other_token: -1 };
  go({ case: { ...state.value.case, ...change }, ...fresh }, how);
}

export function follow_address(start: Partial<State>): void {
  const read = () => {
    clearTimeout(waiting);
    replacement = null;
    state.value = state_of(location.hash, start);
  };
  read();
  addEventListener("popstate", read);
}

// The state's role, layer and head, limited to a run: another model may have fewer heads.
export function place_in(run: Run, s: State) {
  const role = run.roles.find((r) => r.role === s.role) ?? run.roles[0];
  return {
    role,
    place: {
      role: role.role,
      layer: Math.max(0, Math.min(s.layer, role.layers - 1)),
      head: Math.max(0, Math.min(s.head, role.heads - 1)),
    },
    row_side: run.sides[role.row_side]!,
    key_side: run.sides[role.key_side]!,
    token: s.token < role.rows ? s.token : -1,
    key: s.key < role.keys ? s.key : -1,
  };
}

const THEMES = ["auto", "light", "dark"] as const;
type ThemeChoice = (typeof THEMES)[number];

const system_dark = matchMedia("(prefers-color-scheme: dark)");
const is_system_dark = signal(system_dark.matches);
system_dark.addEventListener(
  "change",
  (e) => (is_system_dark.value = e.matches),
);

function remembered(): ThemeChoice {
  try {
    const value = localStorage.getItem("theme") as ThemeChoice;
    return THEMES.includes(value) ? value : "auto";
  } catch {
    // Some browsers have no storage for pages opened from disk.
    return "auto";
  }
}

export const theme_choice = signal<ThemeChoice>(remembered());
export const theme = computed<"light" | "dark">(() =>
  theme_choice.value === "auto"
    ? is_system_dark.value
      ? "dark"
      : "light"
    : theme_choice.value,
);

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  try {
    localStorage.setItem("theme", theme_choice.value);
  } catch {
    // Not remembered, then.
  }
});

// The text of the live region, for screen readers.
export const spoken = signal("");
export function say(sentence: string): void {
  spoken.value = sentence;
}
