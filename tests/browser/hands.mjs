// What hands do: point, filter, choose heads, slide, edit, follow links and go back.

import {
  check,
  must,
  run_checks,
  same,
  same_floats,
  until,
} from "./harness.mjs";
import {
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
import { DECODER, numbers, PAIR, serve, stop_servers } from "./program.mjs";

const FAINTEST = 0.015; // the head view draws no line below
const browser = await open_browser();

function with_page(name, kind, state, body) {
  check(name, async () => {
    kind.server ??= await serve(kind.args);
    const page = await watched_page(browser, kind.server.url);
    await open_at(page, kind.server.url, state);
    const note = await body(page, kind.server.url);
    no_faults(page);
    await page.context().close();
    return note;
  });
}

// The lines drawn, as [from, to] in tokens.
async function lines(page) {
  const boxes = test(page, "head-box"); // one for each head
  const step = await boxes.first().evaluate((e) =>
    parseFloat(getComputedStyle(e).getPropertyValue("--step")),
  );
  const ends = await page
    .locator("[data-test=lines] line")
    .evaluateAll((all) =>
      all.map((e) => [e.y1.baseVal.value, e.y2.baseVal.value]),
    );
  return ends.map((pair) => pair.map((y) => Math.round(y / step - 0.5)));
}

function lines_wanted(weights, keep) {
  return weights
    .flatMap((row, r) => row.map((w, k) => [r, k, w]))
    .filter(([r, k, w]) => Math.abs(w) >= FAINTEST && keep(r, k))
    .map(([r, k]) => [r, k]);
}

with_page(
  "pointing at a token leaves its lines alone",
  DECODER,
  { view: "head", layer: 1, head: 2 },
  async (page) => {
    const { weights } = numbers([
      ...DECODER.args,
      "--view",
      "head",
      "--layer",
      "1",
      "--head",
      "2",
    ]).answers.block;
    same(
      await lines(page),
      lines_wanted(weights, () => true),
      "all lines",
    );
    await test(page, "token-row").nth(5).hover();
    same(
      await lines(page),
      lines_wanted(weights, (r) => r === 5),
      "lines of row 5",
    );
    await test(page, "token-key").nth(0).hover();
    same(
      await lines(page),
      lines_wanted(weights, (r, k) => k === 0),
      "lines of key 0",
    );
    await test(page, "token-row").nth(6).click();
    await page.mouse.move(5, 5);
    same(
      await lines(page),
      lines_wanted(weights, (r) => r === 6),
      "lines of row 6, which is pinned",
    );
    await test(page, "token-row").nth(6).click();
    await page.mouse.move(5, 5);
    await page.locator(":focus").evaluate((e) => e.blur());
    same(
      (await lines(page)).length,
      lines_wanted(weights, () => true).length,
      "lines once nothing is pinned",
    );
  },
);

with_page(
  "the sentences of a pair are distinguished",
  PAIR,
  { view: "head", layer: 1, head: 1 },
  async (page) => {
    const { answers, run } = numbers([
      ...PAIR.args,
      "--view",
      "head",
      "--layer",
      "1",
      "--head",
      "1",
    ]);
    const { part } = run.sides.encoder;
    for (const filter of ["aa", "ab", "ba", "bb"]) {
      await test(page, "filter-" + filter).check({ force: true });
      const [from, to] = [...filter].map((c) => "ab".indexOf(c));
      const want = lines_wanted(
        answers.block.weights,
        (r, k) => part[r] === from && part[k] === to,
      );
      must(want.length > 0, `the text has no line for ${filter}`);
      same(await lines(page), want, `lines of ${filter}`);
    }
    await test(page, "filter-all").check({ force: true });
    same(
      (await lines(page)).length,
      lines_wanted(answers.block.weights, () => true).length,
      "lines of all",
    );
  },
);

with_page(
  "heads are switched on and off",
  DECODER,
  { view: "head", layer: 1, head: 2 },
  async (page) => {
    const one = (await lines(page)).length;
    await test(page, "head-chip-5").click();
    await until(
      async () => (await lines(page)).length > one,
      "the lines of a second head",
    );
    same(
      await page.evaluate(() => window.attend.state.heads),
      [2, 5],
      "heads of the state",
    );
    await test(page, "token-row").nth(4).hover();
    const weights = await shown_numbers(page, "[data-test=weight]");
    for (const head of [2, 5]) {
      const json = numbers([
        ...DECODER.args,
        "--view",
        "head",
        "--layer",
        "1",
        "--head",
        String(head),
      ]).answers;
      same_floats(
        weights.filter((n) => n.head === String(head)).map((n) => n.number),
        json.block.weights[4],
        `weights of head ${head}`,
      );
    }
    same(await test(page, "lines").count(), 2, "small multiples");
    same(
      await test(page, "row-table").locator("thead .swatch").count(),
      2,
      "heads in the table",
    );
    await test(page, "heads-all").click();
    await until(
      () => page.evaluate(() => window.attend.state.heads.length === 8),
      "all heads",
    );
    await until(
      async () => (await test(page, "lines").count()) === 8,
      "eight small multiples",
    );
    await test(page, "token-row").nth(6).hover();
    await until(
      async () =>
        (await test(page, "row-table").locator("thead .swatch").count()) === 8,
      "eight heads in the table",
    );
    await test(page, "heads-one").click();
    await until(
      () => page.evaluate(() => window.attend.state.heads.length === 1),
      "one head",
    );
  },
);

with_page(
  "more random features come nearer",
  PAIR,
  { view: "compare", layer: 1, head: 2 },
  async (page) => {
    const slider = test(page, "features");
    const means = [];
    await slider.focus();
    await slider.press("Home");
    for (const m of [8, 16, 32, 64, 128, 256, 512, 1024]) {
      const form = `favor(m=${m})`;
      await until(
        () => page.evaluate((f) => window.attend.state.form === f, form),
        form,
      );
      const want = numbers([
        ...PAIR.args,
        "--view",
        "compare",
        "--form",
        form,
      ]).answers.compare.distance.flat();
      await until(
        async () => (await number_of(page, "distance-cell")) === want[0],
        `the distances of ${form}`,
      );
      const shown = (
        await shown_numbers(page, "[data-test=distance-cell]")
      ).map((n) => n.number);
      same(shown, want, `distances of ${form}`);
      means.push(shown.reduce((a, b) => a + b) / shown.length);
      await slider.press("ArrowRight");
    }
    const mean = (list) => list.reduce((a, b) => a + b) / list.length;
    must(
      mean(means.slice(4)) < mean(means.slice(0, 4)),
      `distances do not shrink with m: ${means}`,
    );
    must(
      means.at(-1) < 0.8 * means[0],
      `m = 1024 is hardly nearer than m = 8: ${means}`,
    );
    return (
      "mean distance for m = 8 to 1024: " +
      means.map((d) => d.toFixed(3)).join(" ")
    );
  },
);

with_page(
  "texts of other lengths are shown side by side, without a difference",
  DECODER,
  { view: "compare" },
  async (page) => {
    await test(page, "kind-text").check({ force: true });
    await test(page, "other-text").fill("Once upon a time.");
    await test(page, "other-text").blur();
    await until(
      async () =>
        (await page.locator(".no-difference").count()) === 1 &&
        (await page.locator(".no-difference").innerText()).includes("tokens"),
      "the sentence that says why",
    );
    same(await test(page, "distance-grid").count(), 0, "grids of distances");
  },
);

with_page(
  "a link opens the same place with the same numbers",
  DECODER,
  { view: "model" },
  async (page, url) => {
    const places = {
      head: async () => {
        await page
          .locator("[data-test=thumb][data-layer='2'][data-head='3']")
          .first()
          .click();
        await drawn(page, "head");
        await test(page, "token-row").nth(4).click();
      },
      neuron: async () => open_view(page, "neuron"),
      flow: async () => {
        await open_view(page, "flow");
        await test(page, "way-argmax").check({ force: true });
      },
      compare: async () => {
        await open_view(page, "compare");
        await test(page, "form").selectOption("elu");
        await page
          .locator("[data-test=distance-cell][data-layer='1'][data-head='6']")
          .click();
        await page.waitForTimeout(600);
      },
    };
    for (const [view, hands] of Object.entries(places)) {
      await hands();
      await page.mouse.move(5, 5);
      await page.waitForTimeout(400); // the address follows at most this late
      const before = {
        state: await page.evaluate(() => window.attend.state),
        numbers: await shown_numbers(page),
      };
      const other = await watched_page(browser, url);
      await other.goto(await page.evaluate(() => location.href));
      await ready(other);
      await drawn(other, view);
      same(
        await other.evaluate(() => window.attend.state),
        before.state,
        `${view}: the state`,
      );
      must(before.numbers.length > 0, `${view}: the page shows no numbers`);
      await until(
        async () =>
          (await shown_numbers(other)).length >= before.numbers.length,
        `${view}: the numbers`,
      );
      same(await shown_numbers(other), before.numbers, `${view}: the numbers`);
      no_faults(other);
      await other.context().close();
    }
  },
);

with_page(
  "an edit runs without a reload, and Back undoes it",
  DECODER,
  { view: "head", layer: 1, head: 2 },
  async (page) => {
    const before = await test(page, "token-row").count();
    // From now on every frame looks whether there is a picture.
    await page.evaluate(() => {
      window.same_page = true;
      window.empty_frames = 0;
      const look = () => {
        if (
          !document.querySelector("[data-test=head-box] [data-test=token-row]")
        )
          window.empty_frames++;
        requestAnimationFrame(look);
      };
      look();
    });
    const text = "The dog sat";
    await test(page, "text").fill(text);
    const want = numbers([
      ...DECODER.args.slice(0, 2),
      text,
      "--view",
      "head",
      "--layer",
      "1",
      "--head",
      "2",
    ]);
    const count = want.run.sides.decoder.tokens.length;
    await until(
      async () => (await test(page, "token-row").count()) === count,
      "the new text's tokens",
    );
    same(
      await page.evaluate(() => [window.same_page, window.empty_frames]),
      [true, 0],
      "the same page, frames without a picture",
    );
    await test(page, "token-row").nth(2).hover();
    same_floats(
      (await shown_numbers(page, "[data-test=weight]")).map((n) => n.number),
      want.answers.block.weights[2],
      "the new text's weights",
    );
    must(
      (await page.evaluate(() => location.hash)).includes(
        "text=The%20dog%20sat",
      ),
      "the address does not have the new text",
    );
    await page.mouse.move(5, 5);
    await page.goBack();
    await until(
      async () => (await test(page, "token-row").count()) === before,
      "the old text's tokens",
    );
    same(
      await test(page, "text").inputValue(),
      DECODER.args[2],
      "the text after Back",
    );
    await page.goForward();
    await until(
      async () => (await test(page, "token-row").count()) === count,
      "the new text again",
    );
    same(
      await page.evaluate(() => [window.same_page, window.empty_frames]),
      [true, 0],
      "the same page, frames without a picture",
    );
  },
);

with_page(
  "Back returns from view to view",
  DECODER,
  { view: "model" },
  async (page) => {
    await page
      .locator("[data-test=thumb][data-layer='3'][data-head='1']")
      .first()
      .click();
    await drawn(page, "head");
    await open_view(page, "matrix");
    await page.goBack();
    await drawn(page, "head");
    await page.goBack();
    await drawn(page, "model");
  },
);

with_page(
  "a text that cannot run leaves the picture and says why",
  PAIR,
  { view: "head" },
  async (page) => {
    const before = await test(page, "token-row").count();
    await test(page, "text").fill("the cat ".repeat(60)); // more than its positions
    await until(
      async () =>
        (await test(page, "run-problem").count()) +
          (await test(page, "notice").count()) >
        0,
      "a sentence",
    );
    must((await test(page, "token-row").count()) > 0, "the picture is gone");
    await test(page, "text").fill(PAIR.args[2]);
    await until(
      async () => (await test(page, "token-row").count()) === before,
      "the first text",
    );
    page.faults = page.faults.filter(
      (f) => !/status 400|400 \(Bad Request\)/.test(f),
    ); // the refusal itself
  },
);

with_page(
  "the weights of the pair move in the matrix by keys",
  PAIR,
  { view: "matrix", layer: 1, head: 1 },
  async (page) => {
    const { weights } = numbers([
      ...PAIR.args,
      "--view",
      "matrix",
      "--layer",
      "1",
      "--head",
      "1",
    ]).answers.block;
    await test(page, "matrix").focus();
    for (const key of [
      "Shift+ArrowDown",
      "Shift+ArrowDown",
      "Shift+ArrowRight",
    ])
      await page.keyboard.press(key);
    await until(
      async () => (await test(page, "cell").count()) > 0,
      "the marked cell",
    );
    const { row, key, number } = await test(page, "cell").evaluate((e) => ({
      ...e.dataset,
    }));
    same([row, key], ["2", "1"], "the marked cell");
    same_floats([Number(number)], [weights[2][1]], "its weight");
    must(
      (await test(page, "spoken").innerText()).includes("attends to"),
      "the move is not spoken",
    );
  },
);

await run_checks(async () => {
  await browser.close();
  return stop_servers();
});
