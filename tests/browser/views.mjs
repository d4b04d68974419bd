// Every view of every kind of model opens, on a desk and on a phone, without a fault.

import { check, must, run_checks, same } from "./harness.mjs";
import {
  no_faults,
  open_browser,
  open_view,
  ready,
  test,
  VIEWS,
  watched_page,
} from "./browser.mjs";
import { BOTH, DECODER, PAIR, serve, stop_servers } from "./program.mjs";

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
