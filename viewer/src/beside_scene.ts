// Two runs that cannot be subtracted: another model, or a text of another length. What is
// asked about them, and which head of the other stands beside the chosen one.

import { ask_binary, ask_json, useScene } from "./asking";
import { floats } from "./decode";
import { clamp } from "./numbers";
import { Beside, Place, Role, RoleName, Run, State } from "./protocol";

export interface BesideScene {
  run: Run;
  other: Run;
  beside: Beside;
}

export function useBeside(run: Run | null, other: Run | null, role: RoleName) {
  const key = run && other ? [run.run, other.run, role].join() : null;
  return useScene<BesideScene>(key, async (signal) => ({
    run: run!,
    other: other!,
    beside: await ask_json<Beside>(
      "beside",
      { run: run!.run, other: other!.run, role },
      signal,
    ),
  }));
}

// As attend_view_role_beside.
export function role_beside(other: Run, role: RoleName): Role {
  const find = (name: RoleName) => other.roles.find((r) => r.role === name);
  return find(role) ?? find("decoder") ?? find("encoder") ?? other.roles[0];
}

// The layer of the same depth and the same head, unless the state names others. The last
// layers stand beside each other; lab/pictures/view.h has the same rule.
export function place_beside(
  s: State,
  own: Role,
  place: Place,
  other: Run,
): { role: Role; place: Place } {
  const role = role_beside(other, place.role);
  const rows = Math.max(own.layers, role.layers);
  const row = Math.floor(((place.layer + 1) * rows - 1) / own.layers);
  const layer =
    s.other_layer >= 0
      ? s.other_layer
      : Math.floor((row * role.layers) / rows);
  const head = s.other_head >= 0 ? s.other_head : place.head;
  return {
    role,
    place: {
      role: role.role,
      layer: clamp(layer, 0, role.layers - 1),
      head: clamp(head, 0, role.heads - 1),
    },
  };
}

export interface Words {
  why: string;
  words: string[];
  of: number[];
  weights: Float32Array; // [words, 1 + words]
}

async function ask_words(
  run: Run,
  place: Place,
  other: Run,
  signal: AbortSignal,
): Promise<Words> {
  const request = { run: run.run, ...place, other: other.run };
  const answer = await ask_binary("words", request, signal);
  return {
    why: answer.header.why as string,
    words: answer.header.words as string[],
    of: answer.header.of as number[],
    weights: floats(answer, "weights"),
  };
}

export interface WordScene {
  a: Words;
  b: Words;
  places: [Place, Place];
  roles: [Role, Role];
  runs: [Run, Run];
}

export function useWords(
  runs: [Run, Run],
  roles: [Role, Role],
  places: [Place, Place],
) {
  const key = [runs[0].run, runs[1].run]
    .concat(places.map((p) => [p.role, p.layer, p.head].join()))
    .join();
  return useScene<WordScene>(key, async (signal) => ({
    a: await ask_words(runs[0], places[0], runs[1], signal),
    b: await ask_words(runs[1], places[1], runs[0], signal),
    places,
    roles,
    runs,
  }));
}
