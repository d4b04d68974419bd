// Formatted numbers, of equal width in columns.

export function weight_text(w: number): string {
  if (!Number.isFinite(w)) return "–";
  if (w !== 0 && Math.abs(w) < 0.0005) return w < 0 ? ">−0.001" : "<0.001";
  return signed_text(w, 3);
}

export function signed_text(x: number, digits: number): string {
  if (!Number.isFinite(x)) return x > 0 ? "∞" : x < 0 ? "−∞" : "–";
  return x.toFixed(digits).replace("-", "−");
}

export function percent_text(share: number): string {
  const p = share * 100;
  return (
    (p > 0 && p < 0.1
      ? "<0.1"
      : p >= 99.95 || p < 10
        ? p.toFixed(1)
        : p.toFixed(0)) + " %"
  );
}

export function count_text(n: number): string {
  return Math.round(n)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ",");
}

export function bytes_text(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB"];
  let u = 0;
  for (; n >= 1024 && u < 3; u++) n /= 1024;
  return (u && n < 100 ? n.toFixed(1) : n.toFixed(0)) + " " + units[u];
}

export function compact_text(x: number | null | undefined): string {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  if (size !== 0 && (size < 0.001 || size >= 10000))
    return x.toExponential(1).replace("-", "−");
  return signed_text(x, size >= 100 ? 0 : size >= 10 ? 1 : 3);
}

export function clamp(x: number, low: number, high: number): number {
  return Math.max(low, Math.min(high, x));
}

// The indices of the largest values, largest first.
export function largest(values: ArrayLike<number>, count: number): number[] {
  const best: number[] = [];
  for (let i = 0; i < values.length; i++) {
    if (best.length === count && values[i] <= values[best[count - 1]]) continue;
    let at = best.length;
    while (at > 0 && values[best[at - 1]] < values[i]) at--;
    best.splice(at, 0, i);
    if (best.length > count) best.pop();
  }
  return best;
}
