// Formulas as MathML: <Mi>q</Mi> is a variable, <Sub base="x" low="i" /> an index.

import { ComponentChildren } from "preact";

// In line with the text; `say` is what a screen reader without MathML reads.
export function Formula({
  say,
  children,
}: {
  say: string;
  children: ComponentChildren;
}) {
  return (
    <math class="formula" displaystyle={true} aria-label={say} data-test="formula">
      <mrow>{children}</mrow>
    </math>
  );
}

type Part = ComponentChildren;

export function Mi({ children }: { children: Part }) {
  return <mi>{children}</mi>;
}

export function Mn({ children }: { children: Part }) {
  return <mn>{children}</mn>;
}

export function Mo({ children }: { children: Part }) {
  return <mo>{children}</mo>;
}

export function Sub({ base, low }: { base: Part; low: Part }) {
  return (
    <msub>
      <mi>{base}</mi>
      <mrow>{low}</mrow>
    </msub>
  );
}

export function Sup({ base, high }: { base: Part; high: Part }) {
  return (
    <msup>
      <mrow>{base}</mrow>
      <mrow>{high}</mrow>
    </msup>
  );
}

export function Fraction({ over, under }: { over: Part; under: Part }) {
  return (
    <mfrac>
      <mrow>{over}</mrow>
      <mrow>{under}</mrow>
    </mfrac>
  );
}
