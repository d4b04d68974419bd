// For everybody: what axe-core finds in every view, light and dark, and the keyboard alone.

import { check, fail, must, run_checks, same, until } from "./harness.mjs";
import {
  axe_faults,
  no_faults,
  open_browser,
  open_view,
  ready,
  shown_numbers,
  test,
  VIEWS,
  watched_page,
} from "./browser.mjs";
import {
  BOTH,
  DECODER,
  numbers,
  PAIR,
  serve,
  stop_servers,
} from "./program.mjs";

const browser = await open_browser();

async function opened(kind, options) {
  kind.server ??= await serve(kind.args);
  const page = await watched_page(browser, kind.server.url, options);
  await page.goto(kind.server.url);
  await ready(page);
  return page;
}

const KINDS = {
  "a decoder": [DECODER, VIEWS],
  "a pair": [PAIR, ["head"]],
  "an encoder-decoder": [BOTH, ["model", "matrix"]],
};

for (const colorScheme of ["light", "dark"]) {
  for (const [name, [kind, views]] of Object.entries(KINDS)) {
    check(
      `axe-core finds nothing serious: ${name}, ${colorScheme}`,
      async () => {
        const page = await opened(kind, { colorScheme });
        const found = [];
        for (const view of views) {
          await open_view(page, view);
          if (view === "model") await test(page, "pattern-first").click();
          if (view === "head") await test(page, "token-row").nth(2).click();
          if (view === "generate") {
            await test(page, "step").click();
            await test(page, "looked-mean").waitFor();
          }
          found.push(...(await axe_faults(page)).map((f) => `${view}: ${f}`));
        }
        if (kind === DECODER) {
          await test(page, "help-open").click();
          found.push(...(await axe_faults(page)).map((f) => `help: ${f}`));
        }
        same(found, [], "faults");
        no_faults(page);
        await page.context().close();
      },
    );
  }
}

const active = (page) =>
  page.evaluate(() => ({ ...document.activeElement?.dataset }));

async function tab_to(page, name, most = 60) {
  for (let i = 0; i < most; i++) {
    await page.keyboard.press("Tab");
    const at = await active(page);
    if (at.test === name) return at;
  }
  return fail(`${most} times Tab do not reach ${name}`);
}

check("the keyboard alone reaches a head's numbers", async () => {
  const page = await opened(DECODER);
  await test(page, "thumbs").waitFor();
  await tab_to(page, "thumb");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  const at = await active(page);
  same(
    [at.test, at.layer, at.head],
    ["thumb", "1", "1"],
    "the head that has the focus",
  );
  must(
    await page.evaluate(() => document.activeElement.matches(":focus-visible")),
    "the focus cannot be seen",
  );
  await page.keyboard.press("Enter");
  await test(page, "head-box").waitFor();
  await tab_to(page, "token-row");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await until(
    async () =>
      (await test(page, "row-table").getAttribute("data-row")) === "2",
    "the table of row 2",
  );
  const { weights } = numbers([
    ...DECODER.args,
    "--view",
    "head",
    "--layer",
    "1",
    "--head",
    "1",
  ]).answers.block;
  const listed = await shown_numbers(page, "[data-test=top-weight]");
  same(
    listed.map((n) => Math.fround(n.number)),
    weights[2]
      .slice(0, 3) // the later ones are masked
      .sort((a, b) => b - a)
      .map(Math.fround),
    "the table",
  );
  no_faults(page);
});

check("the keyboard alone goes from tab to tab", async () => {
  const page = await opened(DECODER);
  await tab_to(page, "tab-model");
  await page.keyboard.press("ArrowRight");
  same((await active(page)).test, "tab-head", "the tab that has the focus");
  await page.keyboard.press("Enter");
  await test(page, "head-box").waitFor();
  await page.keyboard.press("End");
  const last = (await active(page)).test;
  same(
    last,
    await page.locator("[role=tab]").last().getAttribute("data-test"),
    "the last tab",
  );
  await page.keyboard.press("Enter");
  await test(page, last.replace("tab-", "view-")).waitFor();
  no_faults(page);
});

await run_checks(async () => {
  await browser.close();
  return stop_servers();
});
