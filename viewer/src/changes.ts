// The changes of a case: places of the model that a run is computed without, or with other
// values. The text is that of the command line (include/attend/intervene.h):
// "ablate 1.2,mlp:0; patch residual:1:2-3; pin 0.3=previous".

import { Role, Run } from "./protocol";
import { go, state } from "./state";

export type Kind = "ablate" | "mean" | "patch" | "pin";
export type Point = "head_output" | "mlp" | "residual";

export interface Change {
  kind: Kind;
  place: string; // "1.2", "residual:1:2-3"
  pin: string; // "previous"; "": not pinned
}

export const KIND_WORDS: Record<Kind, string> = {
  ablate: "off (zero)",
  mean: "mean",
  patch: "patched",
  pin: "pinned",
};

export function parse_changes(text: string): Change[] {
  return text.split(";").flatMap((part) => {
    const [kind, ...places] = part.trim().split(/[\s,]+/);
    return places.filter(Boolean).map((p) => {
      const [place, pin = ""] = p.split("=");
      return { kind: kind as Kind, place, pin };
    });
  });
}

// Places of one kind stand together, in the order in which they came.
export function changes_text(list: Change[]): string {
  const groups = new Map<Kind, string[]>();
  for (const c of list) {
    const own = groups.get(c.kind) ?? [];
    groups.set(c.kind, [...own, c.place + (c.pin ? "=" + c.pin : "")]);
  }
  return [...groups].map(([kind, places]) => kind + " " + places).join("; ");
}

// A head's changes of any kind are one place; so are a layer's mlp and stream.
const bare = (place: string) => place.replace(/pattern:|head_output:/, "");

export function change_at(list: Change[], place: string): Change | undefined {
  return list.find((c) => bare(c.place) === bare(place));
}

// The text is the same: what is marked stays.
export function set_changes(list: Change[]): void {
  go({ case: { ...state.value.case, changes: changes_text(list) } });
}

export function remove_change(of: Change): void {
  const list = parse_changes(state.value.case.changes);
  set_changes(
    list.filter((c) => c.place !== of.place || c.kind !== of.kind),
  );
}

export function toggle_change(change: Change): void {
  const list = parse_changes(state.value.case.changes);
  const present = change_at(list, change.place);
  set_changes(
    present
      ? list.filter((c) => bare(c.place) !== bare(change.place))
      : [...list, change],
  );
}

// The role is named where it is not the one that is meant without a name.
export function role_prefix(run: Run, role: Role): string {
  const own = run.sides.decoder ? "decoder" : "encoder";
  return role.role === own ? "" : role.role + ":";
}

// Streams are named by the layer that wrote them.
function stream_name(row: number): string {
  return row === 0 ? "in" : String(row - 1);
}

export function place_text(
  prefix: string,
  point: Point,
  row: number,
  column: number,
): string {
  if (point === "head_output") return `${prefix}${row}.${column}`;
  const layer = point === "residual" ? stream_name(row) : String(row);
  return `${prefix}${point}:${layer}:${column}`;
}

export function row_label(point: Point, row: number): string {
  return point === "residual" ? stream_name(row) : String(row);
}

// "layer 1, head 2", for sentences.
export function place_words(place: string): string {
  const at = bare(place);
  const parts = at.split(":");
  const roles = ["encoder", "decoder", "cross"];
  const role = roles.includes(parts[0]) ? parts.shift() + " " : "";
  const word = /^\d/.test(parts[0]) ? "" : parts.shift()!;
  const [layer, head] = parts[0].split(".");
  const tokens = parts[1] ? `, token ${parts[1]}` : "";
  if (word === "residual")
    return `${role}stream ${layer === "in" ? "before layer 0" : "after layer " + layer}${tokens}`;
  if (word) return `${role}${word === "mlp" ? "MLP" : word} of layer ${layer}${tokens}`;
  return `${role}layer ${layer}${head === undefined ? "" : ", head " + head}${tokens}`;
}
