// Tokens as people read them: their labels come from the program, which writes "·" for the
// space before a word and "–" for a piece that continues one.

import { Role, Run, Side } from "./protocol";

// Within a sentence, also of a row of cross-attention: "→ ·dog" is dog.
export function token_word(label: string): string {
  return token_text(label.replace(/^→ (?=.)/, ""));
}

function parts(label: string): { mark: string; text: string } {
  const marked = label.length > 1 && (label[0] === "·" || label[0] === "–");
  return marked
    ? { mark: label[0], text: label.slice(1) }
    : { mark: "", text: label };
}

export function token_text(label: string): string {
  return parts(label).text;
}

// The token as a part of its text.
export function token_spelled(label: string): string {
  const { mark, text } = parts(label);
  return (mark === "·" ? " " : "") + text.replace(/␣/g, " ");
}

// The mark is faint.
export function TokenLabel({
  token,
  special,
}: {
  token: string;
  special?: boolean;
}) {
  const { mark, text } = parts(token);
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

// Cut to a width in pixels, where a canvas has no more room.
export function token_fitted(
  context: CanvasRenderingContext2D,
  label: string,
  width: number,
): string {
  const text = token_text(label);
  if (context.measureText(text).width <= width) return text;
  let n = text.length - 1;
  while (n > 1 && context.measureText(text.slice(0, n) + "…").width > width)
    n--;
  return text.slice(0, n) + "…";
}

// Of queries: their tokens, or what each step of the decoder writes.
export function row_labels(run: Run, role: Role): string[] {
  return role.row_labels ?? run.sides[role.row_side]!.labels;
}
