// A training run: the same text and view at every saved step, on a slider, a curve, by keys
// and by itself; steps that come while one looks; and all of it in a page from disk.

import { renameSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { check, must, run_checks, same, until } from "./harness.mjs";
import {
  axe_faults,
  no_faults,
  open_at,
  open_browser,
  open_view,
  shown_numbers,
  test,
  VIEWS,
  watched_page,
} from "./browser.mjs";
import {
  made_training,
  numbers,
  serve,
  stop_servers,
  WORK,
  write_page,
} from "./program.mjs";

const STEPS = [0, 10, 20, 30, 40];
const TEXT = "The cat saw the ball. The dog";
const training = made_training("training");
const args = ["--run", training, TEXT];
const browser = await open_browser();
const server = await serve(args);

const shown_step = (page) =>
  page.evaluate(() => (window.attend.idle ? window.attend.shown_step : null));
const at_step = (page, step) =>
  until(async () => (await shown_step(page)) === step, `step ${step}`);

async function opened(state, options, url = server.url) {
  const page = await watched_page(browser, url, options);
  await open_at(page, url, state);
  return page;
}

// The program keeps few steps open, and says so by a status: what was dropped is run again.
const without_gone = (page) => {
  page.faults = page.faults.filter((f) => !/404/.test(f));
};

const head_of = (step) =>
  numbers([
    ...args,
    ...`--step ${step} --view head --layer 1 --head 2`.split(" "),
  ]).answers.block.weights;

check("the slider changes the weights, and nothing else", async () => {
  const page = await opened({ view: "head", layer: 1, head: 2, token: 4 });
  await at_step(page, 40);
  const slider = test(page, "step-slider");
  await slider.focus();
  for (const [key, step] of [
    ["Home", 0],
    ["ArrowRight", 10],
    ["End", 40],
  ]) {
    await page.keyboard.press(key);
    await at_step(page, step);
    const want = [...head_of(step)[4]].sort((a, b) => b - a).slice(0, 8);
    await until(async () => {
      const got = await shown_numbers(page, "[data-test=top-weight]");
      return (
        JSON.stringify(got.map((n) => Math.fround(n.number)).slice(0, 5)) ===
        JSON.stringify(want.map(Math.fround).slice(0, 5))
      );
    }, `the weights of step ${step}`);
    const { view, token, case: c } = await page.evaluate(
      () => window.attend.state,
    );
    same([view, token, c.text, c.step], ["head", 4, TEXT, step], "the state");
    await until(
      async () => page.url().includes("step=" + step),
      `step ${step} in the address`,
    );
  }
  without_gone(page);
  no_faults(page);
  await page.context().close();
});

check("every view follows the step", async () => {
  const page = await opened({ step: 0 });
  for (const view of VIEWS) {
    await open_view(page, view);
    const from = await page.evaluate(() => window.attend.state.case.step);
    await page.locator("h1").click(); // out of any field
    await page.keyboard.press(from < 40 ? "]" : "[");
    await at_step(page, from < 40 ? from + 10 : 30);
    await open_view(page, view);
    same(await test(page, "run-problem").count(), 0, `problems in ${view}`);
  }
  without_gone(page);
  no_faults(page);
  await page.context().close();
});

check("a press on the loss chooses the nearest step, and Back returns", async () => {
  const page = await opened({ view: "model", step: 40 });
  const box = await test(page, "loss-curve").boundingBox();
  const x = 48 + (box.width - 60) * 0.27; // 10.8 of 40
  await page.mouse.click(box.x + x, box.y + 20);
  await at_step(page, 10);
  must(
    (await test(page, "step-words").innerText()).includes("validation"),
    "the measurement is not shown",
  );
  await page.goBack();
  await at_step(page, 40);
  without_gone(page);
  no_faults(page);
  await page.context().close();
});

check("playing goes from the first step to the last, and stops", async () => {
  const page = await opened({ view: "matrix", step: 40 });
  const seen = new Set();
  await test(page, "play").click();
  await until(async () => {
    seen.add(await page.evaluate(() => window.attend.state.case.step));
    const label = await test(page, "play").getAttribute("aria-label");
    return seen.size === STEPS.length && label.startsWith("Play");
  }, "all steps, and the end");
  same([...seen].sort((a, b) => a - b), STEPS, "the steps");
  await at_step(page, 40);
  without_gone(page);
  no_faults(page);
  await page.context().close();
});

check("the film strip shows one head at all steps, and leads to them", async () => {
  const page = await opened({ view: "model", step: 40 });
  await test(page, "film-toggle").click();
  await until(
    async () => (await test(page, "film-frame").count()) === STEPS.length,
    "all frames",
  );
  await test(page, "film-frame").nth(1).click();
  await at_step(page, 10);
  same(await axe_faults(page), [], "faults that axe-core finds");
  await page.context().close();
});

check("a step is compared with another, and writes on like it", async () => {
  const page = await opened({ view: "compare", step: 40 });
  await test(page, "kind-step").click();
  await until(
    async () => (await test(page, "other-step").count()) === 1,
    "the other step",
  );
  await test(page, "distance-grid").waitFor();
  same(await test(page, "other-step").inputValue(), "0", "the other step");
  await test(page, "step-slider").fill("0"); // both are the same then
  await at_step(page, 0);
  same(await test(page, "other-step").count(), 1, "the choice of a step");
  await open_view(page, "generate");
  await test(page, "step").click();
  await until(
    async () => (await test(page, "written-token").count()) === 1,
    "a token",
  );
  await test(page, "step-slider").fill("4");
  await at_step(page, 40);
  await until(
    async () => (await test(page, "written-token").count()) === 1,
    "a token of the last step",
  );
  await page.context().close();
});

check("a page from disk has all steps of a small run", async () => {
  const url = pathToFileURL(write_page("steps.html", args)).href;
  const page = await opened({ view: "head", layer: 1, head: 2 }, {}, url);
  for (const [i, step] of STEPS.entries()) {
    await test(page, "step-slider").fill(String(i));
    await at_step(page, step);
    await open_view(page, i % 2 ? "matrix" : "flow");
  }
  await test(page, "film-toggle").click();
  await until(
    async () => (await test(page, "film-frame").count()) === STEPS.length,
    "all frames",
  );
  await open_view(page, "compare");
  await test(page, "kind-step").click();
  await test(page, "distance-grid").waitFor();
  same(await test(page, "problem").allTextContents(), [], "problems");
  no_faults(page);
  await page.context().close();
});

check("on a phone nothing is wider than the page, light or dark", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const page = await opened(
      { view: "head", step: 20 },
      {
        viewport: { width: 390, height: 844 },
        isMobile: true,
        hasTouch: true,
        colorScheme,
      },
    );
    const wide = await page.evaluate(
      () => document.documentElement.scrollWidth - innerWidth,
    );
    must(wide <= 0, `${wide} px too wide`);
    same(await axe_faults(page), [], "faults that axe-core finds");
    await page.context().close();
  }
});

check("a new step comes, and is followed", async () => {
  renameSync(join(training, "step-00000040"), join(WORK, "later"));
  const page = await opened({ view: "model", step: 30 });
  await until(
    async () =>
      (await test(page, "step-slider").getAttribute("max")) === "3",
    "four steps",
  );
  await test(page, "follow").click();
  renameSync(join(WORK, "later"), join(training, "step-00000040"));
  await at_step(page, 40);
  same(await test(page, "step-slider").getAttribute("max"), "4", "steps");
  await page.context().close();
});

await run_checks(async () => {
  await browser.close();
  return stop_servers();
});
