// Tensors of a file in place of a model: every view that applies opens, live and still, with the
// numbers of --json; the others are not in the navigation, and the page says why.

import { dirname, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { check, must, run_checks, same } from "./harness.mjs";
import {
  address,
  axe_faults,
  no_faults,
  open_at,
  open_browser,
  open_view,
  ready,
  shown_numbers,
  test,
  watched_page,
} from "./browser.mjs";
import { numbers, serve, stop_servers, write_page } from "./program.mjs";

const arrays = resolve(
  dirname(fileURLToPath(import.meta.url)),
  "../golden/arrays",
);
const browser = await open_browser();
const PHONE = {
  viewport: { width: 390, height: 844 },
  hasTouch: true,
  isMobile: true,
};

const KINDS = {
  "weights alone": {
    args: ["--tensors", arrays + "/weights.npz"],
    views: ["model", "head", "matrix", "flow"],
    missing: "neuron",
  },
  "queries, keys and values": {
    args: [
      ...["--tensors", arrays + "/qkv.npz"],
      ...["--tokens", "The dog ran , it stopped"],
    ],
    views: ["model", "head", "neuron", "matrix", "flow", "compare"],
    missing: "generate",
  },
  "cross-attention": {
    args: [
      ...["--tensors", arrays + "/cross.npz", "--tokens", "a b c d e f"],
      ...["--key-tokens", "t u v w x y z . !"],
    ],
    views: ["model", "head", "matrix"],
    missing: "flow",
  },
  "two files": {
    args: [
      ...["--tensors", arrays + "/weights.npz"],
      ...["--tensors", arrays + "/weights.npz"],
    ],
    views: ["model", "head", "matrix", "flow", "compare"],
    missing: "embeddings",
  },
};

async function tabs_of(page) {
  const tabs = await page
    .locator('[role="tab"]')
    .evaluateAll((all) => all.map((tab) => tab.dataset.test));
  return tabs.map((tab) => tab.replace("tab-", ""));
}

// Every view that applies; then one that does not, by a link.
async function visit(page, home, kind, look) {
  same(await tabs_of(page), kind.views, "the navigation");
  for (const view of kind.views) {
    await open_view(page, view);
    const text = await page.locator("#view").innerText();
    must(text.length > 20, `${view}: the view is empty`);
    must(!/\b(NaN|undefined|Infinity)\b/.test(text), `${view} says ${text}`);
    await look(view);
  }
  await test(page, "missing").locator("summary").click();
  must(
    /Generate, Embeddings.*: it runs a model/.test(
      await test(page, "missing").innerText(),
    ),
    "the page does not say why views are missing",
  );
  await page.goto("about:blank");
  await page.goto(home + "#view=" + kind.missing);
  await test(page, "no-view").waitFor();
  no_faults(page);
}

for (const [name, kind] of Object.entries(KINDS)) {
  check(`${name}: live, on a desk, and axe-core is content`, async () => {
    const server = await serve(kind.args);
    const page = await watched_page(browser, server.url);
    await page.goto(server.url + "#view=model");
    await ready(page);
    await visit(page, server.url, kind, async (view) => {
      const faults = await axe_faults(page);
      must(!faults.length, `${view}: ${faults.join("; ")}`);
    });
    await page.context().close();
    server.stop();
  });
  check(`${name}: a still page, on a phone`, async () => {
    const path = write_page(name.replaceAll(" ", "-") + ".html", kind.args);
    const home = pathToFileURL(path).href;
    const page = await watched_page(browser, home, PHONE);
    await page.goto(home + "#view=model");
    await ready(page);
    await visit(page, home, kind, async (view) => {
      const wide = await page.evaluate(
        () => document.scrollingElement.scrollWidth,
      );
      same(wide, 390, `${view}: width of the page`);
    });
    await page.context().close();
  });
}

check("the page shows the numbers of --json", async () => {
  const kind = KINDS["queries, keys and values"];
  const server = await serve(kind.args);
  const page = await watched_page(browser, server.url);
  await open_at(page, server.url, { view: "head", layer: 1, head: 3, token: 4 });
  const { block } = numbers([
    ...kind.args,
    ...["--view", "head", "--layer", "1", "--head", "3"],
  ]).answers;
  const shown = (await shown_numbers(page)).map((x) => x.number);
  for (const weight of block.weights[4].filter((w) => w > 0.02))
    must(
      shown.some((x) => Math.abs(x - weight) < 1e-6),
      `${weight} is not among ${shown}`,
    );
  no_faults(page);
  await page.context().close();
  server.stop();
});

await run_checks(async () => {
  await browser.close();
  return stop_servers();
});
