// Facts for tests and debugging, as window.attend.

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
  // Ready, and no request is pending.
  get idle(): boolean {
    return hooks.ready && !is_asking();
  },
  // The training step of the shown run; -1: none.
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
