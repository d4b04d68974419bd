// The width that the layout gives an element, as it changes.

import { signal } from "@preact/signals";
import { useCallback, useRef, useState } from "preact/hooks";

export function useWidth(first = 200) {
  const [width, set_width] = useState(first);
  const observer = useRef<ResizeObserver | null>(null);
  // A callback ref, because the element may be created later than the component.
  const box = useCallback((element: HTMLElement | null) => {
    observer.current?.disconnect();
    if (!element) return;
    const measure = () => set_width(Math.floor(element.clientWidth));
    observer.current = new ResizeObserver(measure);
    observer.current.observe(element);
    measure();
  }, []);
  return { box, width };
}

// Whether the window is as narrow as a phone's; the style sheets' limit.
const phone = matchMedia("(max-width: 640px)");
export const narrow = signal(phone.matches);
phone.addEventListener("change", (e) => (narrow.value = e.matches));
