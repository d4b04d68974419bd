// Saving the view: a picture drawn by the program, or a link.

import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { source } from "./asking";
import { say, state, theme } from "./state";

function download(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function SaveMenu() {
  const failed = useSignal("");
  const menu = useRef<HTMLDetailsElement>(null);
  if (!source.live) return null;
  const save = async (as: "svg" | "png") => {
    failed.value = "";
    try {
      const s = state.value;
      const blob = await source.picture({
        state: s,
        as,
        width: 1200,
        dark: theme.value === "dark",
      });
      download(blob, `attend-${s.view}-layer${s.layer}-head${s.head}.${as}`);
      menu.current!.open = false;
      say("The picture is saved.");
    } catch (e) {
      failed.value = e instanceof Error ? e.message : String(e);
      say(failed.value);
    }
  };
  // With the token: the link is for this machine, while the program runs.
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      menu.current!.open = false;
      say("The link is copied.");
    } catch {
      say("The link is in the address bar.");
    }
  };
  return (
    <details
      ref={menu}
      class="menu"
      data-test="save-menu"
      onKeyDown={(e) => {
        if (e.key === "Escape") menu.current!.open = false;
      }}
      onFocusOut={(e) => {
        if (!menu.current!.contains(e.relatedTarget as Node | null))
          menu.current!.open = false;
      }}
    >
      <summary>Save</summary>
      <div class="menu-list">
        <button type="button" data-test="save-svg" onClick={() => save("svg")}>
          Picture as SVG
        </button>
        <button type="button" data-test="save-png" onClick={() => save("png")}>
          Picture as PNG
        </button>
        <button type="button" data-test="copy-link" onClick={copy}>
          Copy link
        </button>
        {failed.value && (
          <p class="problem" role="alert">
            {failed.value}
          </p>
        )}
      </div>
    </details>
  );
}
