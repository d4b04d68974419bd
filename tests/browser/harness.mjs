// Checks with a name, one after the other; a failure is a sentence and the rest goes on.

const checks = [];

export function check(name, body) {
  checks.push({ name, body });
}

// Says why and ends the check it is called in.
export function fail(sentence) {
  throw new Error(sentence);
}

export function must(holds, sentence) {
  if (!holds) fail(sentence);
}

export function same(got, want, what) {
  const a = JSON.stringify(got);
  const b = JSON.stringify(want);
  if (a === b) return;
  if (Array.isArray(got) && Array.isArray(want) && got.length === want.length)
    got.forEach((x, i) => same(x, want[i], `${what}, number ${i}`));
  fail(`${what}: it is ${short(a)}, and should be ${short(b)}`);
}

const short = (text = "undefined") =>
  text.length > 300 ? text.slice(0, 300) + "…" : text;

// The page has f32, --json writes the shortest decimals that read back as the same f32.
export function same_floats(got, want, what) {
  must(
    got.length === want.length,
    `${what}: ${got.length} numbers, not ${want.length}`,
  );
  got.forEach((x, i) => {
    must(
      Math.fround(x) === Math.fround(want[i]),
      `${what}: number ${i} is ${x}, not ${want[i]}`,
    );
  });
}

export function near(got, want, tolerance, what) {
  const apart = Math.abs(got - want);
  must(
    apart <= tolerance * Math.max(1, Math.abs(want)),
    `${what}: ${got} is not ${want}`,
  );
}

export async function until(holds, what, seconds = 20) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const got = await holds();
    if (got) return got;
    if (Date.now() > end) fail(`waited ${seconds} s for ${what}`);
    await new Promise((done) => setTimeout(done, 30));
  }
}

// On one line: without colours, and of a browser's log what it waited for.
function plain(message) {
  return message
    .replace(/\x1b\[\d+m/g, "")
    .replace(/\s*Call log:\s*-\s*(.*)[\s\S]*/, " $1");
}

function place_of(e) {
  const frames = [...(e.stack ?? "").matchAll(/([a-z]+\.mjs):\d+/g)];
  const mine = frames.find(([, file]) => file !== "harness.mjs");
  return mine ? ` (${mine[0]})` : "";
}

// `after` ends what was started and tells what had ended by itself.
export async function run_checks(after) {
  let failed = 0;
  const begun = Date.now();
  for (const { name, body } of checks) {
    const start = Date.now();
    try {
      const note = await body();
      console.log(
        `ok      ${name} (${Date.now() - start} ms)${note ? ": " + note : ""}`,
      );
    } catch (e) {
      failed++;
      console.log(`FAILED  ${name}: ${plain(e.message)}${place_of(e)}`);
    }
  }
  for (const what of await after()) {
    failed++;
    console.log(`FAILED  ${what}`);
  }
  const seconds = ((Date.now() - begun) / 1000).toFixed(0);
  console.log(
    `${checks.length - failed} of ${checks.length} checks passed in ${seconds} s`,
  );
  process.exitCode = failed ? 1 : 0;
}
