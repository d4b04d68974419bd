// Controls that views share: switches, chips, steppers, role and head.

import { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { run } from "./asking";
import { clamp } from "./numbers";
import { RoleName } from "./protocol";
import { go, place_in, state } from "./state";

interface Option<T extends string> {
  value: T;
  label: string;
  title?: string;
}

// A few exclusive choices, as radio buttons side by side.
export function Switch<T extends string>(props: {
  label: string;
  name: string;
  value: T;
  options: Option<T>[];
  choose: (value: T) => void;
}) {
  const id = useId();
  return (
    <fieldset class="switch" data-test={"switch-" + props.name}>
      <legend>{props.label}</legend>
      <div class="switch-row">
        {props.options.map((o) => (
          <label
            key={o.value}
            title={o.title}
            class={o.value === props.value ? "on" : ""}
          >
            <input
              type="radio"
              name={id}
              value={o.value}
              checked={o.value === props.value}
              data-test={`${props.name}-${o.value}`}
              onChange={() => props.choose(o.value)}
            />
            <span>{o.label}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}

export function Chip(props: {
  on: boolean;
  test: string;
  toggle: () => void;
  colour?: string;
  title?: string;
  children: ComponentChildren;
}) {
  return (
    <button
      type="button"
      class={props.on ? "chip on" : "chip"}
      aria-pressed={props.on}
      title={props.title}
      data-test={props.test}
      onClick={props.toggle}
      style={props.colour ? { "--chip": props.colour } : undefined}
    >
      {props.colour && <span class="swatch" aria-hidden="true" />}
      {props.children}
    </button>
  );
}

export function Slider(props: {
  label: string;
  test: string;
  value: number;
  min: number;
  max: number;
  step?: number;
  text?: string;
  change: (value: number) => void;
}) {
  const id = useId();
  return (
    <div class="slider">
      <label for={id}>{props.label}</label>
      <input
        id={id}
        type="range"
        min={props.min}
        max={props.max}
        step={props.step ?? 1}
        value={props.value}
        data-test={props.test}
        aria-valuetext={props.text}
        onInput={(e) => props.change(Number(e.currentTarget.value))}
      />
      <output for={id}>{props.text ?? props.value}</output>
    </div>
  );
}

export function Stepper(props: {
  label: string;
  test: string;
  value: number;
  count: number;
  change: (value: number) => void;
}) {
  const id = useId();
  const to = (n: number) => props.change(clamp(n, 0, props.count - 1));
  return (
    <div class="stepper">
      <label for={id}>{props.label}</label>
      <button
        type="button"
        class="small"
        aria-label={`${props.label} before`}
        disabled={props.value <= 0}
        onClick={() => to(props.value - 1)}
      >
        ‹
      </button>
      <select
        id={id}
        value={props.value}
        data-test={props.test}
        onChange={(e) => to(Number(e.currentTarget.value))}
      >
        {Array.from({ length: props.count }, (_, i) => (
          <option key={i} value={i}>
            {i}
          </option>
        ))}
      </select>
      <button
        type="button"
        class="small"
        aria-label={`${props.label} after`}
        disabled={props.value >= props.count - 1}
        onClick={() => to(props.value + 1)}
      >
        ›
      </button>
    </div>
  );
}

const ROLE_WORDS: Record<RoleName, string> = {
  encoder: "Encoder",
  decoder: "Decoder",
  cross: "Cross",
};

// Role, layer and head; views that show all heads leave the head out.
export function PlaceBar({
  head = true,
  layer = true,
  cross = true,
  encoder = true,
  children,
}: {
  head?: boolean;
  layer?: boolean;
  cross?: boolean;
  encoder?: boolean; // false: of what writes alone
  children?: ComponentChildren;
}) {
  const r = run.value;
  if (!r) return null;
  const { role, place } = place_in(r, state.value);
  const roles = r.roles.filter(
    (x) =>
      (cross || x.role !== "cross") && (encoder || x.role !== "encoder"),
  );
  const chosen = roles.includes(role) ? role.role : role.row_side;
  if (roles.length < 2 && !layer && !head && !children) return null;
  return (
    <div class="bar">
      {roles.length > 1 && (
        <Switch
          label="Attention"
          name="role"
          value={chosen}
          options={roles.map((x) => ({
            value: x.role,
            label: ROLE_WORDS[x.role],
          }))}
          choose={(value) => go({ role: value, token: -1, key: -1 })}
        />
      )}
      {layer && (
        <Stepper
          label="Layer"
          test="layer"
          value={place.layer}
          count={role.layers}
          change={(n) => go({ layer: n })}
        />
      )}
      {head && (
        <Stepper
          label="Head"
          test="head"
          value={place.head}
          count={role.heads}
          change={(n) => go({ head: n, heads: [] })}
        />
      )}
      {children}
    </div>
  );
}

export function Problem({ text }: { text: string }) {
  return text ? (
    <p class="problem" role="alert" data-test="problem">
      {text}
    </p>
  ) : null;
}

export function Waiting() {
  return (
    <p class="waiting" data-test="waiting">
      Looking…
    </p>
  );
}

// Arrow keys move among the [data-rove] elements of a grid; Tab leaves it.
export function rove(event: KeyboardEvent, columns: number): void {
  const box = event.currentTarget as HTMLElement;
  const items = [...box.querySelectorAll<HTMLElement>("[data-rove]")];
  const at = items.indexOf(document.activeElement as HTMLElement);
  if (at < 0) return;
  const steps: Record<string, number> = {
    ArrowLeft: at - 1,
    ArrowRight: at + 1,
    ArrowUp: at - columns,
    ArrowDown: at + columns,
    Home: at - (at % columns),
    End: at - (at % columns) + columns - 1,
  };
  const next = items[steps[event.key]];
  if (!next) return;
  event.preventDefault();
  for (const item of items) item.tabIndex = item === next ? 0 : -1;
  next.focus();
}
