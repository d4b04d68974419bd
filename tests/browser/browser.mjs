// The browser, and a page in it that is watched: what it says, what it asks for.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { must, same, until } from "./harness.mjs";
import { WORK } from "./program.mjs";

const load = createRequire(join(process.env.PACKAGES, "package.json"));
const { chromium } = load("playwright-core");
const axe_source = readFileSync(load.resolve("axe-core/axe.min.js"), "utf8");

export const VIEWS = [
  "model",
  "head",
  "neuron",
  "matrix",
  "flow",
  "compare",
  "generate",
  "embeddings",
  "intervene",
  "attribute",
];

// Elements that a view has once it is drawn.
const DRAWN = {
  model: "[data-test=pattern-broad]",
  head: "[data-test=head-box]",
  neuron: "[data-test=strip-out]",
  matrix: "[data-test=legend]",
  flow: "[data-test=flow-words]",
  compare: "[data-test=distance-grid]",
  generate: "[data-test=step]",
  embeddings: "[data-test=shift-error]",
  intervene: "[data-test=measures]",
  attribute: "[data-test=sums]",
};

const ARGUMENTS = [
  "--no-sandbox",
  "--headless",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", // nothing leaves this machine
];

export function open_browser(more = []) {
  return chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: [...ARGUMENTS, ...more],
    tmpDir: WORK,
  });
}

// A page of its own context. Its `faults` are console errors, page errors, failed and foreign
// requests; `asked` are the names of the API requests.
export async function watched_page(browser, home, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(20000);
  page.faults = [];
  page.asked = [];
  page.requests = [];
  page.on("console", (m) => {
    if (m.type() === "error") page.faults.push("console: " + m.text());
  });
  page.on("pageerror", (e) => page.faults.push("page: " + e.message));
  page.on("request", (r) => {
    const url = r.url();
    page.requests.push(url);
    if (/^(data|blob):/.test(url)) return;
    if (!url.startsWith(home.split("?")[0]))
      page.faults.push("a request to " + url);
    const name = /\/api\/(\w+)$/.exec(url)?.[1];
    if (name) page.asked.push({ name, body: r.postDataJSON() });
  });
  page.on("response", (r) => {
    if (r.status() >= 400)
      page.faults.push(`status ${r.status()} of ${r.url()}`);
  });
  return page;
}

export function no_faults(page) {
  same(page.faults.splice(0), [], "faults of the page");
}

export function ready(page, seconds = 20) {
  return until(
    () => page.evaluate(() => !!window.attend?.ready),
    "the run",
    seconds,
  );
}

export const test = (page, name) => page.locator(`[data-test="${name}"]`);

// The state's part of an address.
export const address = (state) =>
  "#" +
  Object.entries(state)
    .map(([n, v]) => n + "=" + encodeURIComponent(v))
    .join("&");

export async function drawn(page, view) {
  await page.locator(DRAWN[view]).first().waitFor();
  await test(page, "waiting").waitFor({ state: "detached" });
  same(
    await test(page, "problem").allTextContents(),
    [],
    `problems shown in the view ${view}`,
  );
}

export async function open_view(page, view) {
  await test(page, "tab-" + view).click();
  await test(page, "view-" + view).waitFor();
  await drawn(page, view);
}

// Loads the page anew with this state.
export async function open_at(page, home, state) {
  await page.goto("about:blank");
  await page.goto(home + address(state));
  await ready(page);
  await drawn(page, state.view ?? "model");
}

// Every number that the page shows: [{test, row, key, .., number}].
export function shown_numbers(page, selector = "[data-number]") {
  return page.locator(selector).evaluateAll((all) =>
    all.map((e) => {
      const { test, number, rove, ...rest } = e.dataset;
      const sorted = Object.fromEntries(Object.entries(rest).sort());
      return { test, ...sorted, number: number === "" ? null : Number(number) };
    }),
  );
}

export async function number_of(page, name) {
  const value = await test(page, name).first().getAttribute("data-number");
  must(value !== null && value !== "", `${name} has no number`);
  return Number(value);
}

// What axe-core finds that is serious or critical, a line each.
export async function axe_faults(page) {
  if (!(await page.evaluate(() => "axe" in window)))
    await page.evaluate(axe_source + "; 0");
  const found = await page.evaluate(() =>
    window.axe.run(document, { resultTypes: ["violations"] }),
  );
  return found.violations
    .filter((v) => v.impact === "serious" || v.impact === "critical")
    .map(
      (v) =>
        `${v.id}: ${v.help}: ${v.nodes
          .slice(0, 3)
          .map((n) => n.html.slice(0, 160))
          .join(" | ")}`,
    );
}
