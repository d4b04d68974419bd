// Interventions and attributions: the page's numbers are those of --json, a press changes the run
// that every view shows, sweeps report and stop, and all of it works by keyboard and in both
// colours.

import { pathToFileURL } from "node:url";
import { check, must, near, run_checks, same, until } from "./harness.mjs";
import {
  address,
  axe_faults,
  drawn,
  no_faults,
  number_of,
  open_at,
  open_browser,
  open_view,
  ready,
  shown_numbers,
  test,
  watched_page,
} from "./browser.mjs";
import {
  BOTH,
  DECODER,
  numbers,
  PAIR,
  serve,
  stop_servers,
  write_page,
} from "./program.mjs";

const browser = await open_browser();
const TEXT = DECODER.args.at(-1);
const OTHER = "Once upon a day, there was a big boy and a cat. He";

const idle = (page) =>
  until(() => page.evaluate(() => window.attend.idle), "an idle page");

async function page_at(kind, state, options) {
  kind.server ??= await serve(kind.args);
  const [, , text, second] = kind.args;
  const page = await watched_page(browser, kind.server.url, options);
  await open_at(page, kind.server.url, {
    ...(second ? { text, second } : { text }),
    ...state,
  });
  return page;
}

async function numbers_of(page, name) {
  return (await shown_numbers(page, `[data-test="${name}"]`)).map(
    (n) => n.number,
  );
}

async function done(page) {
  await idle(page);
  no_faults(page);
  await page.context().close();
}

const place = (page, name) =>
  page.locator(`[data-test="place"][data-place="${name}"]`);

async function effect_is(page, { effect }) {
  await until(
    async () => (await number_of(page, "state-change")) === effect.state,
    `a change of states of ${effect.state}`,
  );
  same(await number_of(page, "logit"), effect.value, "the logit");
  same(await number_of(page, "loss"), effect.loss, "the loss");
  same(
    await numbers_of(page, "p-with"),
    effect.tokens.map((t) => t.p),
    "probabilities with changes",
  );
  same(
    await numbers_of(page, "p-before"),
    effect.tokens.map((t) => t.before),
    "probabilities without",
  );
}

// ---- changes ---------------------------------------------------------------------------

check("a press switches a head off, and the numbers are those of --json", async () => {
  const page = await page_at(DECODER, { view: "intervene" });
  const json = (changes) =>
    numbers([...DECODER.args, "--view", "intervene", ...changes]).answers;
  await effect_is(page, json([]));
  await place(page, "1.2").click();
  await test(page, "active-changes").waitFor();
  await idle(page);
  same(await place(page, "1.2").getAttribute("aria-pressed"), "true", "pressed");
  await effect_is(page, json(["--changes", "ablate 1.2"]));
  await place(page, "mlp:3").click();
  await idle(page);
  await until(
    async () => (await test(page, "remove-change").count()) === 2,
    "two changes",
  );
  await idle(page);
  await effect_is(page, json(["--changes", "ablate 1.2,mlp:3"]));
  await test(page, "remove-change").first().click();
  await until(
    async () => (await test(page, "remove-change").count()) === 1,
    "one change",
  );
  await idle(page);
  await effect_is(page, json(["--changes", "ablate mlp:3"]));
  await place(page, "mlp:3").click();
  await test(page, "active-changes").waitFor({ state: "detached" });
  await idle(page);
  await effect_is(page, json([]));
  await done(page);
});

check("every view shows the changed run, and a link has the changes", async () => {
  const page = await page_at(DECODER, { view: "intervene", change: "pin" });
  await test(page, "pin").selectOption("first");
  await place(page, "2.1").click();
  await test(page, "active-changes").waitFor();
  await idle(page);
  must(
    (await page.evaluate(() => location.hash)).includes("pin%202.1%3Dfirst"),
    "the address has no changes",
  );
  await page.goto("about:blank");
  await page.goBack();
  await ready(page);
  await open_at(page, DECODER.server.url, {
    view: "matrix",
    text: TEXT,
    layer: 2,
    head: 1,
    changes: "pin 2.1=first",
  });
  await test(page, "remove-change").waitFor();
  const args = ["--view", "matrix", "--layer", "2", "--head", "1"];
  const { weights } = numbers([
    ...DECODER.args,
    ...args,
    "--changes",
    "pin 2.1=first",
  ]).answers.block;
  same(
    weights.map((row) => row[0]),
    weights.map(() => 1),
    "weights on the first token",
  );
  const box = await test(page, "matrix").boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + box.height * 0.8);
  await idle(page);
  await done(page);
});

check("a patch takes the values of another text", async () => {
  const page = await page_at(DECODER, {
    view: "intervene",
    point: "residual",
    change: "patch",
  });
  await test(page, "from").fill(OTHER);
  await idle(page);
  await place(page, "residual:in:9").waitFor();
  await place(page, "residual:1:9").click();
  await test(page, "active-changes").waitFor();
  await idle(page);
  await effect_is(
    page,
    numbers([
      ...[...DECODER.args, "--view", "intervene"],
      ...["--changes", "patch residual:1:9", "--from", OTHER],
    ]).answers,
  );
  await done(page);
});

check("changes that the model does not have are refused in a sentence", async () => {
  const page = await watched_page(browser, DECODER.server.url);
  await page.goto(
    DECODER.server.url + address({ text: TEXT, changes: "ablate 77.0" }),
  );
  await test(page, "run-problem").waitFor();
  must(
    /layer 77/.test(await test(page, "run-problem").innerText()),
    "no sentence about the layer",
  );
  same(page.faults.splice(0), [], "faults");
  await page.context().close();
});

// ---- sweeps ------------------------------------------------------------------------------

check("a sweep colours every head by what --json says", async () => {
  const page = await page_at(DECODER, { view: "intervene" });
  await test(page, "sweep").click();
  await page.locator("[data-test=place][data-number]:not([data-number=''])").first().waitFor();
  await idle(page);
  const { sweep } = numbers([
    ...[...DECODER.args, "--view", "intervene", "--sweep"],
  ]).answers;
  const shown = (await shown_numbers(page, "[data-test=place]")).filter(
    (n) => n.number !== null,
  );
  same(
    shown.map((n) => n.number),
    sweep.map.flat().map((x) => x - sweep.before),
    "the map",
  );
  must((await page.evaluate(() => location.hash)).includes("sweep=true"), "no link");
  await test(page, "metric").selectOption("kl");
  await idle(page);
  await until(
    async () =>
      (await shown_numbers(page, "[data-test=place]")).every(
        (n) => n.number === null || n.number >= 0,
      ),
    "the map of the KL divergence",
  );
  await test(page, "sweep-clear").click();
  await until(
    async () =>
      (await shown_numbers(page, "[data-test=place]")).every(
        (n) => n.number === null,
      ),
    "a map without colours",
  );
  await done(page);
});

check("a sweep can be stopped, and the page answers meanwhile", async () => {
  const text = Array(60).fill("Once upon a time there was a little cat.").join(" ");
  const page = await page_at(DECODER, {
    view: "intervene",
    point: "residual",
    metric: "loss",
    text,
  });
  await test(page, "sweep").click();
  await test(page, "sweep-stop").waitFor();
  await test(page, "position").selectOption("3");
  await idle_but_long(page);
  await test(page, "sweep-stop").click();
  await test(page, "sweep-progress").waitFor({ state: "detached" });
  await until(
    async () => !(await page.evaluate(() => location.hash)).includes("sweep=true"),
    "an address without a sweep",
  );
  no_faults(page);
  await page.context().close();
});

// The position's numbers come while the sweep runs, or it is over by then.
async function idle_but_long(page) {
  await until(
    async () =>
      (await test(page, "position").inputValue()) === "3" &&
      (await test(page, "sweep-stop").count()) > 0,
    "the sweep of the next position",
  );
}

check("a press, a sweep and a removal by the keyboard alone", async () => {
  const page = await page_at(DECODER, { view: "intervene" });
  await place(page, "0.0").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await test(page, "active-changes").waitFor();
  same(
    await test(page, "remove-change").getAttribute("data-place"),
    "1.2",
    "the place",
  );
  await test(page, "remove-change").focus();
  await page.keyboard.press("Enter");
  await test(page, "active-changes").waitFor({ state: "detached" });
  await done(page);
});

// ---- attributions ----------------------------------------------------------------------------

for (const [name, kind] of [
  ["a decoder", DECODER],
  ["a pair", PAIR],
  ["an encoder-decoder", BOTH],
])
  check(`attributions are those of --json: ${name}`, async () => {
    for (const method of ["gradient", "integrated", "attention", "direct"]) {
      const page = await page_at(kind, { view: "attribute", method });
      await idle(page);
      const { attribute, effect } = numbers([
        ...[...kind.args, "--view", "attribute", "--method", method],
      ]).answers;
      same(await number_of(page, "sum"), attribute.sum, method + ": sum");
      near(attribute.logit, effect.value, 1e-4, method + ": logit");
      if (attribute.scores)
        same(await numbers_of(page, "score"), attribute.scores, "scores");
      const cells = await numbers_of(page, "contribution");
      const rows = attribute.heads ?? [];
      const heads = rows.flatMap((row, l) =>
        attribute.mlps ? [...row, attribute.mlps[l]] : row,
      );
      same(cells, [...heads, ...(attribute.cross ?? []).flat()], "heads");
      const difference = attribute.logit - (attribute.baseline ?? 0);
      if (method === "integrated" || method === "direct")
        must(
          Math.abs(attribute.sum - difference) <= 0.011 * Math.abs(difference),
          `${method}: the sum is ${attribute.sum}, the difference ${difference}`,
        );
      await done(page);
    }
  });

check("the logit lens shows what --json says, and a token is chosen there", async () => {
  const page = await page_at(DECODER, { view: "attribute", method: "gradient" });
  await test(page, "method-lens").check({ force: true });
  await test(page, "lens").waitFor();
  await idle(page);
  const { cells } = numbers([
    ...[...DECODER.args, "--view", "attribute", "--method", "lens"],
  ]).answers.lens;
  same(
    await numbers_of(page, "lens-cell"),
    cells.flat().map((top) => top[0].p),
    "probabilities",
  );
  await test(page, "lens-token").nth(4).click();
  await idle(page);
  same(await test(page, "position").inputValue(), "4", "the position");
  await done(page);
});

check("an answer and the one that it is compared with", async () => {
  const page = await page_at(DECODER, { view: "attribute", method: "direct" });
  const { effect } = numbers([...DECODER.args, "--view", "attribute"]).answers;
  const [a, b] = [effect.tokens[1].id, effect.tokens[2].id];
  await test(page, "answer").selectOption(String(a));
  await idle(page);
  await test(page, "against").selectOption(String(b));
  await idle(page);
  const args = ["--view", "attribute", "--method", "direct"];
  const ids = ["--target", String(a), "--minus", String(b)];
  const { attribute } = numbers([...DECODER.args, ...args, ...ids]).answers;
  await until(
    async () => (await number_of(page, "logit")) === attribute.logit,
    "the difference of the two logits",
  );
  near(attribute.sum, attribute.logit, 1e-4, "the sum");
  await done(page);
});

// ---- for everybody ---------------------------------------------------------------------------

for (const colorScheme of ["light", "dark"])
  check(`axe-core finds nothing serious in changes and methods, ${colorScheme}`, async () => {
    const found = [];
    const states = [
      { view: "intervene", changes: "ablate 1.2; pin 0.1=first", sweep: "true" },
      { view: "intervene", point: "residual", change: "patch", from: OTHER, changes: "patch residual:1:3", sweep: "true" },
      ...["integrated", "attention", "direct"].map((method) => ({ view: "attribute", method })),
    ];
    for (const state of states) {
      const page = await page_at(DECODER, state, { colorScheme });
      await idle(page);
      found.push(...(await axe_faults(page)).map((f) => `${address(state)}: ${f}`));
      await done(page);
    }
    const page = await page_at(DECODER, { view: "attribute" }, { colorScheme });
    await test(page, "method-lens").check({ force: true });
    await test(page, "lens").waitFor();
    await idle(page);
    found.push(...(await axe_faults(page)).map((f) => `lens: ${f}`));
    await done(page);
    same(found, [], "faults");
  });

check("nothing is wider than a phone", async () => {
  const phone = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
  for (const state of [
    { view: "intervene", changes: "ablate 1.2,1.3,mlp:0; pin 0.1=first", sweep: "true" },
    { view: "attribute", method: "attention" },
    { view: "attribute", method: "direct" },
  ]) {
    const page = await page_at(DECODER, state, phone);
    await idle(page);
    const wide = await page.evaluate(() => document.scrollingElement.scrollWidth);
    same(wide, 390, `${address(state)}: width of the page`);
    await done(page);
  }
});

check("a page from disk has a changed run's numbers", async () => {
  const args = ["--changes", "ablate 1.2", "--view", "intervene", "--sweep"];
  const url = pathToFileURL(write_page("changed.html", [...DECODER.args, ...args])).href;
  const page = await watched_page(browser, url);
  await page.goto(url);
  await ready(page);
  await drawn(page, "intervene");
  await idle(page);
  const json = numbers([...DECODER.args, ...args]).answers;
  await effect_is(page, json);
  const map = await numbers_of(page, "place");
  same(
    map.filter((x) => x !== null),
    json.sweep.map.flat().map((x) => x - json.sweep.before),
    "the map",
  );
  await open_view(page, "attribute");
  for (const method of ["integrated", "attention", "direct"]) {
    await test(page, "method-" + method).check({ force: true });
    await idle(page);
    await test(page, "sums").waitFor();
  }
  await test(page, "method-lens").check({ force: true });
  await test(page, "lens").waitFor();
  no_faults(page);
  await page.context().close();
});

await run_checks(async () => {
  await browser.close();
  return stop_servers();
});
