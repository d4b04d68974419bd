// Tokens as people read them: the space before a word is a small dot, what a
// tokenizer writes for spaces and newlines is put back into words.

import { Side } from "./protocol";

interface Reading {
  mark: string; // shown faint
  text: string;
}

function reading(token: string): Reading {
  // A byte of its own, in some vocabularies.
  let rest = token.replace(/^<0x0A>$/, "\n");
  let mark = "";
  if (/^[ \u0120\u2581]/.test(rest) && rest.length > 1) {
    mark = "·";
    rest = rest.slice(1);
  } else if (rest.startsWith("##") && rest.length > 2) {
    mark = "–";
    rest = rest.slice(2);
  }
  rest = rest
    .replace(/[ \u0120\u2581]/g, "␣")
    .replace(/[\n\u010a]/g, "⏎")
    .replace(/\t/g, "⇥");
  return { mark, text: rest || "∅" };
}

export function token_text(token: string): string {
  return reading(token).text;
}

// For canvases and titles, where the mark cannot be made faint.
export function token_short(token: string, most = 14): string {
  const { text } = reading(token);
  return text.length > most ? text.slice(0, most - 1) + "…" : text;
}

export function TokenLabel({
  token,
  special,
}: {
  token: string;
  special?: boolean;
}) {
  const { mark, text } = reading(token);
  return (
    <span class={special ? "token special" : "token"}>
      {mark && (
        <span class="mark" aria-hidden="true">
          {mark}
        </span>
      )}
      {text}
    </span>
  );
}

export function is_special(side: Side, index: number): boolean {
  return side.part[index] === -1;
}
