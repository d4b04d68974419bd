// The sentence under a view: what is seen. The program writes it for its pictures too; the
// names in braces are filled in here.

import { hello } from "./asking";
import { Role } from "./protocol";
import { token_word } from "./token_label";

export function caption_text(
  name: string,
  facts: Record<string, string | number>,
): string {
  const text = hello.value?.captions[name] ?? "";
  return text.replace(/\{(\w+)\}/g, (all, fact) =>
    fact in facts ? String(facts[fact]) : all,
  );
}

export function Caption({
  name,
  facts,
}: {
  name: string;
  facts: Record<string, string | number>;
}) {
  return (
    <p class="caption" data-test="caption">
      {caption_text(name, facts)}
    </p>
  );
}

// What a row of cross-attention is.
export function CrossCaption({
  role,
  labels,
  row,
}: {
  role: Role;
  labels: string[];
  row: number;
}) {
  if (role.role !== "cross" || !labels[0].startsWith("→ ")) return null;
  const query = token_word(labels[Math.max(row, 0)]);
  return <Caption name="cross" facts={{ query }} />;
}
