// A few facts for tests and the curious, as window.attend.

import { cache_bytes, is_asking, progress, run } from "./asking";
import { address_of, state } from "./state";

export const hooks = {
  // Frames a second of the last pan of a matrix.
  frames: (): number => 0,
  tiles: () => ({ count: 0, bytes: 0, level: 0 }),
  // Bytes of numbers and pictures that the page keeps.
  memory: (): number => cache_bytes() + hooks.tiles().bytes,
  get ready(): boolean {
    return run.value !== null && progress.value === null;
  },
  // Ready, and no question is on its way.
  get idle(): boolean {
    return hooks.ready && !is_asking();
  },
  // The step of training that what is shown was run with; -1: none.
  get shown_step(): number {
    return run.value?.case.step ?? -1;
  },
  get state() {
    return state.value;
  },
  get address(): string {
    return address_of(state.value);
  },
};

declare global {
  interface Window {
    attend: typeof hooks;
  }
}
