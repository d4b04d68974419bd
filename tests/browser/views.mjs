// Every view of every kind of model opens, on a desk and on a phone, without a fault.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { check, must, near, run_checks, same, until } from "./harness.mjs";
import {
  drawn,
  no_faults,
  number_of,
  open_at,
  open_browser,
  open_view,
  ready,
  test,
  VIEWS,
  watched_page,
} from "./browser.mjs";
import {
  ATTEND,
  BOTH,
  DECODER,
  numbers,
  PAIR,
  serve,
  shipped,
  stop_servers,
  WORK,
} from "./program.mjs";

const PHONE = {
  viewport: { width: 390, height: 844 },
  hasTouch: true,
  isMobile: true,
  deviceScaleFactor: 2,
};
const browser = await open_browser();

async function visit(kind, options, look) {
  const server = await serve(kind.args);
  const page = await watched_page(browser, server.url, options);
  await page.goto(server.url);
  await ready(page);
  const views = VIEWS.filter((v) => v !== "generate" || kind !== PAIR);
  for (const view of views) {
    await open_view(page, view);
    if (view === "generate") {
      await test(page, "step").click();
      await test(page, "candidates").waitFor();
    }
    for (const role of kind.roles.length > 1 ? kind.roles : []) {
      const choice = test(page, "role-" + role);
      const idle = view === "generate" && role === "encoder"; // it writes nothing
      if (!idle && (await choice.count())) {
        await choice.check({ force: true });
        await open_view(page, view);
      }
      await look(page, `${view}, ${role}`);
    }
    if (kind.roles.length === 1) await look(page, view);
  }
  no_faults(page);
  await page.context().close();
  server.stop();
}

const KINDS = {
  "a decoder": DECODER,
  "an encoder's pair": PAIR,
  "an encoder-decoder": BOTH,
};

for (const [name, kind] of Object.entries(KINDS)) {
  check(`every view opens: ${name}`, () =>
    visit(kind, {}, async (page, where) => {
      const text = await page.locator("#view").innerText();
      must(text.length > 20, `${where}: the view is empty`);
      must(
        !/\b(NaN|undefined|null|Infinity)\b/.test(text),
        `${where}: the page says "${/.*\b(NaN|undefined|null|Infinity)\b.*/.exec(text)?.[0]}"`,
      );
    }),
  );
  check(`no page is wider than a phone: ${name}`, () =>
    visit(kind, PHONE, async (page, where) => {
      const wide = await page.evaluate(
        () => document.scrollingElement.scrollWidth,
      );
      same(wide, 390, `${where}: width of the page`);
    }),
  );
}

check("the weights of four heads fit beside their lines", async () => {
  const server = await serve([
    ...["--view", "head", "--head", "0,1,2,3", "--token", "1"],
    ...BOTH.args,
  ]);
  const viewport = { width: 1200, height: 800 };
  const page = await watched_page(browser, server.url, { viewport });
  await page.goto(server.url);
  await ready(page);
  await test(page, "row-table").waitFor();
  const right = await test(page, "row-table").evaluate(
    (table) => table.getBoundingClientRect().right,
  );
  must(right <= 1200, `the table ends at ${right}`);
  no_faults(page);
  await page.context().close();
  server.stop();
});

// A page of its own on these arguments, at this state.
function with_page(name, args, state, options, body) {
  check(name, async () => {
    const server = await serve(args);
    const page = await watched_page(browser, server.url, options);
    await open_at(page, server.url, state);
    await body(page);
    no_faults(page);
    await page.context().close();
    server.stop();
  });
}

// The words of a picture, in which a caption has several lines.
function picture_words(args) {
  const path = `${WORK}/caption.svg`;
  execFileSync(ATTEND, ["view", ...args, "--out", path], { stdio: "pipe" });
  return [...readFileSync(path, "utf8").matchAll(/<text[^>]*>([^<]*)</g)]
    .map((m) => m[1])
    .join(" ");
}

with_page(
  "views and pictures have the same captions",
  DECODER.args,
  { view: "model" },
  {},
  async (page) => {
    for (const view of ["model", "neuron", "matrix", "flow", "compare"]) {
      await open_view(page, view);
      const caption = await test(page, "caption").first().textContent();
      must(!/[{}]/.test(caption), `${view}: the caption says "${caption}"`);
      must(
        picture_words([...DECODER.args, "--view", view]).includes(caption),
        `${view}: the picture does not say "${caption}"`,
      );
    }
  },
);

with_page(
  "tokens are shown as text",
  ["--model", shipped("gutenberg"), "The dog’s café\n🙂 ran"],
  { view: "model" },
  {},
  async (page) => {
    for (const view of VIEWS) {
      await open_view(page, view).catch(async () => {
        await test(page, "step").click(); // generate has no step yet
        await drawn(page, view);
      });
      const text = await page.locator("#view").innerText();
      must(!/[ĠĊĀ-ŃâÃ\u2581\ufffd]/.test(text), `${view} says "${text}"`);
    }
    await open_view(page, "head");
    const rows = await test(page, "token-row").allInnerTexts();
    must(
      rows.some((t) => t.includes("⟨E2⟩")) && rows.some((t) => t.includes("↵")),
      `the tokens are ${rows}`,
    );
  },
);

with_page(
  "masked cells are no numbers, and panels follow the pointer",
  DECODER.args,
  { view: "head", layer: 1, head: 2, token: 2 },
  {},
  async (page) => {
    const weights = await test(page, "weight").allInnerTexts();
    same(weights.slice(0, 3).filter((t) => !/^\d/.test(t)), [], "visible keys");
    must(
      weights.length > 4 && weights.slice(3).every((t) => t === "–"),
      `masked keys are ${weights.slice(3)}`,
    );
    await test(page, "token-row").nth(5).hover();
    await page.locator("[data-test=row-table][data-row='5']").waitFor();
    await test(page, "token-key").nth(1).hover();
    await page.locator("[data-test=key-table][data-key='1']").waitFor();
    await open_view(page, "matrix");
    const box = await test(page, "matrix").boundingBox();
    await page.mouse.move(box.x + 120, box.y + box.height - 60);
    const cell = test(page, "cell");
    await cell.waitFor();
    const row = await cell.getAttribute("data-row");
    must(row !== "2", "the pinned row");
    await page.locator(`[data-test=row-table][data-row='${row}']`).waitFor();
  },
);

with_page(
  "zoom buttons cover no cells, and a phone has the whole neuron view",
  DECODER.args,
  { view: "matrix" },
  PHONE,
  async (page) => {
    const plot = await test(page, "matrix").boundingBox();
    const button = await test(page, "fit").boundingBox();
    must(button.y >= plot.y + plot.height, "a button lies on the matrix");
    await open_view(page, "neuron");
    const wide = await page
      .locator(".neuron-view .scroll-x")
      .evaluate((e) => [e.scrollWidth, e.clientWidth]);
    must(wide[0] <= wide[1], `the view is ${wide[0]} px wide, of ${wide[1]}`);
    same(await test(page, "formula").count(), 3, "formulas");
  },
);

with_page(
  "the difference is the first minus the second",
  PAIR.args,
  { view: "compare", layer: 1, head: 1 },
  {},
  async (page) => {
    const box = await test(page, "map-a").boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    const cell = test(page, "compare-cell");
    await cell.waitFor();
    const [row, key, a, b] = await cell.evaluate((e) =>
      [e.dataset.row, e.dataset.key, e.dataset.a, e.dataset.b].map(Number),
    );
    near(await number_of(page, "compare-cell"), a - b, 1e-3, "the difference");
    const { difference } = numbers([
      ...["--view", "compare", "--layer", "1", "--head", "1"],
      ...PAIR.args,
    ]).answers;
    near(difference.weights[row][key], a - b, 1e-3, "that of --json");
    must(Math.abs(a - b) > 1e-3, "a cell without a difference");
  },
);

with_page(
  "a row of cross-attention is the step that writes its token",
  BOTH.args,
  { view: "head", role: "cross" },
  {},
  async (page) => {
    const { decoder } = numbers([...BOTH.args, "--role", "cross"]).run.sides;
    same(
      await test(page, "token-row").locator(".token").allInnerTexts(),
      [...decoder.labels.slice(1), "…"].map((label) => "→ " + label),
      "rows",
    );
  },
);

check("a gallery entry opens at the head of its answer", async () => {
  const text = "The dog ran";
  const model = shipped("gutenberg");
  const server = await serve(["--model", model, "Something else."]);
  const page = await watched_page(browser, server.url);
  await page.goto(server.url);
  await ready(page);
  await test(page, "gallery-open").click();
  await test(page, "gallery-dog-ran").click();
  await until(
    () => page.evaluate(() => window.attend.state.token >= 0),
    "the head and the token",
  );
  const { layer, head, token } = await page.evaluate(() => window.attend.state);
  // The largest of all weights from "ran" on the tokens of "dog".
  const best = { weight: -1 };
  for (let l = 0; l < 6; l++)
    for (let h = 0; h < 4; h++) {
      const at = ["--layer", String(l), "--head", String(h)];
      const { run, answers } = numbers(
        ["--model", model, "--view", "head", ...at, text],
      );
      const { labels } = run.sides.decoder;
      same(labels, ["The", "·do", "g", "·ran"], "tokens");
      const weight = answers.block.weights[3][1] + answers.block.weights[3][2];
      if (weight > best.weight) Object.assign(best, { weight, l, h });
    }
  same([layer, head, token], [best.l, best.h, 3], "layer, head and token");
  no_faults(page);
  await page.context().close();
  server.stop();
});

check("an encoder is offered no generation", async () => {
  const server = await serve(PAIR.args);
  const page = await watched_page(browser, server.url);
  await page.goto(server.url);
  await ready(page);
  same(await test(page, "tab-generate").count(), 0, "tabs called generate");
  no_faults(page);
  server.stop();
});

await run_checks(async () => {
  await browser.close();
  return stop_servers();
});
