// A modal <dialog> that follows a signal; the browser keeps the focus inside.

import { Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

export function useDialog(open: Signal<boolean>) {
  const dialog = useRef<HTMLDialogElement>(null);
  const is_open = open.value;
  useEffect(() => {
    const d = dialog.current!;
    if (is_open && !d.open) d.showModal();
    if (!is_open && d.open) d.close();
    if (!is_open) return;
    const outside = (e: MouseEvent) => {
      if (e.target === d) open.value = false;
    };
    d.addEventListener("click", outside);
    return () => d.removeEventListener("click", outside);
  }, [is_open]);
  return dialog;
}
