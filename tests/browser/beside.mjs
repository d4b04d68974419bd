// Two models beside each other, and two texts in neuron and embeddings: what the page shows
// is what --json says, live and from disk.

import { pathToFileURL } from "node:url";
import { check, must, near, run_checks, same, until } from "./harness.mjs";
import {
  address,
  axe_faults,
  no_faults,
  number_of,
  open_browser,
  ready,
  test,
  watched_page,
} from "./browser.mjs";
import {
  DECODER,
  numbers,
  PAIR,
  serve,
  stop_servers,
  write_page,
} from "./program.mjs";

const TEXT = "the cat sat on the mat, sitting.";
const GPT = DECODER.args[1];
const BERT = PAIR.args[1];
const MODELS = ["--model", GPT, "--model", BERT, "--layer", "1", "--head", "2"];
const OTHER = "a dog sat on a cat";
const TEXTS = ["--model", BERT, "--layer", "1", "--head", "1"].concat(
  ["--against", "text=" + OTHER],
);
const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true };

const browser = await open_browser();

async function opened(args, options) {
  const server = await serve(args);
  const page = await watched_page(browser, server.url, options);
  await page.goto(server.url);
  await ready(page);
  return { page, server };
}

async function closed({ page, server }) {
  no_faults(page);
  await page.context().close();
  server?.stop();
}

const cells = (page, name) =>
  test(page, name)
    .locator("[data-number]")
    .evaluateAll((all) => all.map((e) => Number(e.dataset.number)));

// Moves to the cell of a map that lies at these shares of its width and height.
async function point(page, name, x, y) {
  const box = await test(page, name).boundingBox();
  const position = { x: x * box.width, y: y * box.height };
  await test(page, name).hover({ position });
}

async function shows_two_models(page, want) {
  const { beside, words, other_words } = want.answers;
  await test(page, "word-maps").waitFor();
  await test(page, "beside-heads").waitFor();
  const totals = [beside.first, beside.second].map((s) => s.counts[s.layers]);
  same(
    await cells(page, "pattern-totals"),
    totals[0].flatMap((n, i) => [n, totals[1][i]]),
    "heads by pattern",
  );
  const heads = [beside.first, beside.second].map((s) => s.layers * s.heads);
  same(
    await test(page, "beside-thumb").count(),
    heads[0] + heads[1],
    "thumbnails",
  );
  const facts = await test(page, "beside-facts").innerText();
  must(facts.includes("100.0 %"), `the encoder sees all pairs: ${facts}`);
  const reason = await test(page, "no-distance").innerText();
  must(reason.includes(want.answers.compare.why), `no reason: ${reason}`);
  await until(async () => {
    await point(page, "words-b", 0.6, 0.62);
    return test(page, "word-cell").count();
  }, "a cell of the word maps");
  const { row, key, a, b } = await test(page, "word-cell").evaluate((e) => ({
    ...e.dataset,
  }));
  near(Number(a), words.weights[row][key], 1e-6, "the first model's weight");
  near(Number(b), other_words.weights[row][key], 1e-6, "the second's");
  near(await number_of(page, "word-cell"), a - b, 1e-6, "first minus second");
}

check("two models are compared though tokens, layers and heads differ", async () => {
  const live = await opened([...MODELS, TEXT]);
  await shows_two_models(live.page, numbers([...MODELS, TEXT]));
  same(await axe_faults(live.page), [], "faults");
  await closed(live);
});

check("an example of a pattern opens its head, of either model", async () => {
  const live = await opened([...MODELS, TEXT]);
  const { page } = live;
  await test(page, "word-maps").waitFor();
  const chosen = (name) =>
    test(page, name).evaluate((select) => Number(select.value));
  for (const [example, layer, head] of [
    ["example-first", "layer", "head"],
    ["example-second", "other-layer", "other-head"],
  ]) {
    const button = test(page, example).last();
    const at = await button.evaluate((e) => ({ ...e.dataset }));
    await button.click();
    same(await chosen(layer), Number(at.layer), `${layer} of the example`);
    same(await chosen(head), Number(at.head), `${head} of the example`);
  }
  await test(page, "beside-thumb").last().click();
  const last = numbers([...MODELS, TEXT]).answers.beside.second;
  same(await chosen("other-layer"), last.layers - 1, "the last layer");
  await closed(live);
});

check("a pair of sentences is one text for a decoder", async () => {
  const live = await opened(["--model", BERT, "--model", GPT, "the cat", "a dog"]);
  await test(live.page, "word-maps").waitFor();
  const { answers, other } = numbers(
    ["--model", BERT, "--model", GPT, "the cat", "a dog"],
  );
  same(other.case.text, "the cat a dog", "what the decoder reads");
  same(answers.words.words, ["the", "cat", "a", "dog"], "words of both");
  await closed(live);
});

check("the gallery opens a decoder beside an encoder", async () => {
  const live = await opened([...MODELS, "--view", "head", TEXT]);
  await test(live.page, "gallery-open").click();
  await test(live.page, "gallery-gpt-bert").click();
  await test(live.page, "word-maps").waitFor();
  await closed(live);
});

check("texts of different lengths are shown side by side", async () => {
  const live = await opened([...TEXTS, "the cat sat"]);
  const { page } = live;
  await page.goto(live.server.url + address({ view: "compare", text: "the cat sat", "other.text": OTHER }));
  await test(page, "pattern-totals").waitFor();
  await test(page, "map-b").waitFor();
  await closed(live);
});

async function shows_two_texts(page, want) {
  const { word, vectors, other_vectors } = want.answers;
  await test(page, "neuron-pair").waitFor();
  const dots = (v) =>
    v.k.map((k) => v.scale * k.reduce((sum, x, i) => sum + x * v.q[0][i], 0));
  for (const [name, v, span] of [
    ["pair-first", vectors, word.word],
    ["pair-second", other_vectors, word.other],
  ]) {
    const column = test(page, name);
    same(await column.getAttribute("data-token"), String(span[0]), `query of ${name}`);
    const shown = await column
      .locator("[data-test=pair-scaled]")
      .evaluateAll((all) => all.map((e) => Number(e.dataset.number)));
    const wanted = dots(v);
    same(shown.length, wanted.length, `keys of ${name}`);
    shown.forEach((x, i) => near(x, wanted[i], 1e-4, `key ${i} of ${name}`));
  }
  await shows_cosines(page, word);
  const here = await cells(page, "here-cosines");
  [word.q, word.k, word.v].forEach((x, i) =>
    near(here[i], x[1][1], 1e-9, "cosine in this head"),
  );
}

async function shows_cosines(page, word) {
  await test(page, "word-table").waitFor();
  const shown = await cells(page, "word-table");
  same(shown, word.cosine, "cosines by layer");
  same(await cells(page, "head-cosines"), word.k.flat(), "cosines of keys");
}

check("neuron shows a word in two texts, and another word that is chosen", async () => {
  const args = [...TEXTS, "--view", "neuron"];
  const live = await opened([...args, TEXT]);
  const { page } = live;
  await shows_two_texts(page, numbers([...args, TEXT]));
  same(await axe_faults(page), [], "faults");
  await test(page, "other-query").selectOption("2");
  const chosen = numbers([...args, "--against", "token=2", TEXT]);
  await until(
    async () =>
      (await test(page, "pair-second").getAttribute("data-token")) === "2",
    "the other query",
  );
  await shows_cosines(page, chosen.answers.word);
  await test(page, "not-same").waitFor();
  await test(page, "drop-other").click();
  await test(page, "strip-out").waitFor();
  await closed(live);
});

check("embeddings shows cosines between two texts", async () => {
  const args = [...TEXTS, "--view", "embeddings"];
  const live = await opened(["--model", BERT, "--view", "embeddings", "--layer", "1", "--head", "1", TEXT]);
  const { page } = live;
  await test(page, "shift-error").waitFor();
  await test(page, "add-other").click();
  await test(page, "other-text").fill(OTHER);
  await test(page, "other-text").press("Enter");
  const { answers } = numbers([...args, TEXT]);
  await until(
    async () => (await test(page, "not-same").count()) === 0 && (await cells(page, "word-table"))[1] === answers.word.cosine[1],
    "the other text",
  );
  await shows_cosines(page, answers.word);
  await until(
    async () => (await test(page, "cosine").count()) > 0,
    "the cosine of the word",
  );
  const { row, key } = await test(page, "cosine").evaluate((e) => ({ ...e.dataset }));
  near(await number_of(page, "cosine"), answers.between.cosine[row][key], 1e-6, "a cosine");
  same(await axe_faults(page), [], "faults");
  await closed(live);
});

check("a file shows the same, and nothing is wider than a phone", async () => {
  const pages = [
    ["models.html", [...MODELS, TEXT], shows_two_models],
    ["texts.html", [...TEXTS, "--view", "neuron", TEXT], shows_two_texts],
  ];
  for (const [name, args, look] of pages) {
    const home = pathToFileURL(write_page(name, args)).href;
    const page = await watched_page(browser, home, PHONE);
    await page.goto(home);
    await ready(page);
    await look(page, numbers(args));
    const wide = await page.evaluate(() => document.scrollingElement.scrollWidth);
    same(wide, 390, `width of ${name}`);
    same(await test(page, "problem").allTextContents(), [], "problems");
    await closed({ page });
  }
});

await run_checks(async () => {
  await browser.close();
  return stop_servers();
});
