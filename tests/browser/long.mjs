// Long texts: 4,096 tokens in models of real size, 100,000 in one head. Times and frames are
// printed, since machines differ; memory is bounded, and so is what is asked for.

import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { check, must, run_checks, same, until } from "./harness.mjs";
import {
  no_faults,
  open_browser,
  open_view,
  test,
  watched_page,
} from "./browser.mjs";
import {
  made_model,
  memory_of,
  serve,
  stop_servers,
  WORK,
} from "./program.mjs";

const MB = 1e6;
const PAGE_MOST = 300 * MB;
const SERVER_REST = 150 * MB; // beside the weights and what was recorded
const browser = await open_browser([
  "--enable-precise-memory-info",
  "--js-flags=--expose-gc",
]);

function llama(hidden, layers, heads, kv_heads) {
  return {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    hidden_size: hidden,
    intermediate_size: Math.round((hidden * 8) / 3 / 32) * 32,
    num_hidden_layers: layers,
    num_attention_heads: heads,
    num_key_value_heads: kv_heads,
    vocab_size: 512,
    max_position_embeddings: 131072,
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
    hidden_act: "silu",
    tie_word_embeddings: true,
    bos_token_id: 1,
    eos_token_id: 2,
  };
}

const BERT = {
  architectures: ["BertForMaskedLM"],
  model_type: "bert",
  hidden_size: 384,
  intermediate_size: 1536,
  num_hidden_layers: 6,
  num_attention_heads: 12,
  vocab_size: 512,
  max_position_embeddings: 4096,
  type_vocab_size: 2,
  hidden_act: "gelu",
  layer_norm_eps: 1e-12,
  pad_token_id: 0,
  hidden_dropout_prob: 0,
  attention_probs_dropout_prob: 0,
};

const WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
while (WORDS.length < 512) WORDS.push("w" + WORDS.length);

// The same text every time: a small generator of its own.
function words(count, write) {
  let x = 1;
  return Array.from({ length: count }, () => {
    x = (x * 1103515245 + 12345) % 2147483648;
    return write(5 + ((x >> 8) % 500));
  }).join(" ");
}

// Weights in f32: twelve hidden x hidden a layer and the tables is above either family.
const weight_bytes = (c) =>
  4 *
  c.hidden_size *
  (12 * c.hidden_size * c.num_hidden_layers + c.vocab_size + 4096);

// The run that the page has: the same case has the same run, and is not run again.
async function run_of(server, what) {
  const answer = await server.ask("run", what);
  const events = (await answer.text())
    .split("\n\n")
    .filter((e) => e.startsWith("event: done"));
  same(events.length, 1, "runs that ended");
  return JSON.parse(events[0].slice(events[0].indexOf("data:") + 5));
}

// One weight, asked of the program: the answer's last four bytes are it.
async function weight_of(server, run, { row, key }) {
  const answer = await server.ask("block", {
    run: run.run,
    role: "decoder",
    layer: 0,
    head: 0,
    row,
    rows: 1,
    key,
    keys: 1,
  });
  const bytes = Buffer.from(await answer.arrayBuffer());
  return bytes.readFloatLE(4 + bytes.readUInt32LE(0));
}

// Every value that the bar of refining shows.
function record_progress(page) {
  return page.evaluate(() => {
    window.progress_reports = [];
    const look = () => {
      const value = document.querySelector(
        "[data-test=refining] progress",
      )?.value;
      if (value !== undefined && value !== window.progress_reports.at(-1))
        window.progress_reports.push(value);
      requestAnimationFrame(look);
    };
    look();
  });
}

async function opened(folder, text, seconds) {
  const file = join(WORK, "long.txt");
  writeFileSync(file, text);
  const server = await serve([
    "--model",
    folder,
    "--untrained",
    "--seed",
    "1",
    "--file",
    file,
  ]);
  const page = await watched_page(browser, server.url);
  // When the run's last byte was read, and when there were pictures: by the page's own clock.
  await page.addInitScript(() => {
    const look = () => {
      if (!window.ran && window.attend?.ready) window.ran = performance.now();
      if (
        !window.pictured &&
        document.querySelector("[data-test=thumb] canvas")
      )
        window.pictured = performance.now();
      else requestAnimationFrame(look);
    };
    look();
  });
  await page.goto(server.url);
  await until(
    () => page.evaluate(() => !!window.pictured),
    "the first picture",
    seconds,
  );
  const run = await run_of(
    server,
    await page.evaluate(() => window.attend.state.case),
  );
  const shown = await page.evaluate(() => window.pictured - window.ran);
  return { server, page, run, shown };
}

// Whatever the page holds: numbers and objects, and the pictures that it counts itself.
async function page_memory(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  await session.send("Performance.enable");
  const { metrics } = await session.send("Performance.getMetrics");
  await session.detach();
  const heap = metrics.find((m) => m.name === "JSHeapUsedSize").value;
  const counted = await page.evaluate(
    () =>
      window.attend.memory() +
      [...document.querySelectorAll("canvas")].reduce(
        (sum, c) => sum + 4 * c.width * c.height,
        0,
      ),
  );
  return heap + counted;
}

async function renderer_memory() {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  const all = processInfo
    .filter((p) => p.type === "renderer" && existsSync(`/proc/${p.id}/status`))
    .map((p) => memory_of(p.id, "RssAnon"));
  await session.detach();
  return Math.max(...all);
}

// Drags the matrix to and fro for about two seconds.
async function pan(page) {
  const box = await test(page, "matrix").boundingBox();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  await page.mouse.move(x, y);
  await page.mouse.down();
  const end = Date.now() + 2000;
  for (let i = 0; Date.now() < end; i++) {
    await page.mouse.move(x + 160 * Math.sin(i / 9), y + 120 * Math.cos(i / 7));
  }
  await page.mouse.up();
  return page.evaluate(() => window.attend.frames());
}

const zoom = async (page, times, key = "+") => {
  await test(page, "matrix").focus();
  for (let i = 0; i < times; i++) await page.keyboard.press(key);
};

const level = (page) => page.evaluate(() => window.attend.tiles().level);
const tiles_asked = (page) =>
  page.asked.filter((a) => a.name === "tile").map((a) => a.body);

// Everything in sight has come: no more is asked for.
async function at_rest(page) {
  let before = -1;
  await until(
    async () => {
      const now = page.asked.length;
      const still = now === before;
      before = now;
      await page.waitForTimeout(250);
      return still;
    },
    "the tiles in sight",
    60,
  );
}

// What is not seen is not asked for.
function few_tiles(page, all, what) {
  const asked = tiles_asked(page).map((t) => JSON.stringify(t));
  must(
    asked.length > 0 && asked.length < all,
    `${what}: ${asked.length} tiles were asked for, of ${all}`,
  );
  return asked.length;
}

function bounded_server(server, run, config, tokens) {
  const used = memory_of(server.pid, "VmHWM");
  const bound = run.bytes + weight_bytes(config) + SERVER_REST;
  const whole =
    tokens * tokens * config.num_attention_heads * config.num_hidden_layers * 4;
  const say = (n) => (n / MB).toFixed(0) + " MB";
  must(
    used < bound,
    `the server used ${say(used)}, more than ${say(bound)}: recorded ${say(run.bytes)}`,
  );
  return `server ${say(used)} of at most ${say(bound)} (all weights would be ${say(whole)})`;
}

async function bounded_page(page) {
  const used = await page_memory(page);
  must(used < PAGE_MOST, `the page keeps ${used} bytes`);
  return `page ${(used / MB).toFixed(0)} MB (its process ${((await renderer_memory()) / MB).toFixed(0)} MB)`;
}

function long_text(name, config, folder_words, text) {
  check(`4,096 tokens, ${name}`, async () => {
    const folder = made_model(name.split(" ")[0], config, folder_words);
    const { server, page, run, shown } = await opened(folder, text, 60);
    const role = run.roles[0];
    same(role.rows, 4096, "tokens");
    await test(page, "pattern-broad").waitFor({ timeout: 60000 });
    await open_view(page, "matrix");
    await at_rest(page);
    const far = await level(page);
    must(far >= 2, `the whole matrix is seen at level ${far}`);
    await zoom(page, 4);
    await at_rest(page);
    const rates = [await pan(page)];
    await zoom(page, 4);
    await at_rest(page);
    rates.push(await pan(page));
    same(await level(page), 0, "the level once single tokens are seen");
    await at_rest(page);
    const asked = few_tiles(
      page,
      256 + 64 + 16 + 4 + 1,
      "of a matrix of 4,096",
    );
    const memory = [
      await bounded_page(page),
      bounded_server(server, run, config, 4096),
    ];
    for (const view of ["head", "neuron", "flow", "embeddings"])
      await open_view(page, view);
    memory.push(
      "after more views: " + (await bounded_page(page)),
      bounded_server(server, run, config, 4096),
    );
    no_faults(page);
    await page.context().close();
    server.stop();
    return [
      `run ${run.seconds.toFixed(1)} s`,
      `first picture ${shown.toFixed(0)} ms after it`,
      `panning at ${rates.map((r) => r.toFixed(0)).join(" and ")} frames a second`,
      `${asked} tiles`,
      ...memory,
    ].join(", ");
  });
}

long_text("stories size", llama(288, 6, 6, 6), null, words(4096, String));
long_text(
  "MiniLM size",
  BERT,
  WORDS,
  words(4094, (n) => "w" + n),
); // and [CLS], [SEP]

check("100,000 tokens of one head, by tiles", async () => {
  const config = llama(32, 1, 2, 1);
  const { server, page, run, shown } = await opened(
    made_model("far", config),
    words(100000, String),
    150,
  );
  same(run.roles[0].rows, 100000, "tokens");
  await open_view(page, "matrix");
  await at_rest(page);
  must((await level(page)) >= 7, "the whole matrix is not seen from afar");
  same(await test(page, "sampled").count(), 1, "notes that rows were sampled");
  const rate = await pan(page);

  // Nearer, to the last level that is still a sample.
  await until(async () => {
    await zoom(page, 1);
    await at_rest(page);
    return (await test(page, "sampled").count()) === 0;
  }, "a level at which all rows are looked at");
  await zoom(page, 1, "-");
  await at_rest(page);
  const before = tiles_asked(page).length;
  const begun = Date.now();
  await record_progress(page);
  await test(page, "refine").click();
  await test(page, "refining").waitFor();
  await until(
    async () => (await test(page, "refining").count()) === 0,
    "the exact tiles",
    100,
  );
  await until(
    async () => (await test(page, "sampled").count()) === 0,
    "a matrix without samples",
  );
  const exact = tiles_asked(page)
    .slice(before)
    .filter((t) => t.exact);
  must(exact.length > 0, "no exact tile was asked for");
  const reports = await page.evaluate(() => window.progress_reports.length);
  must(reports > 2, `progress was reported ${reports} times`);
  const refined =
    `${exact.length} tiles of level ${exact[0].level} made exact in ` +
    `${((Date.now() - begun) / 1000).toFixed(1)} s, ${reports} progress reports`;

  await until(async () => {
    await zoom(page, 2);
    return (await level(page)) === 0;
  }, "single tokens");
  await zoom(page, 8);
  await at_rest(page);
  const box = await test(page, "matrix").boundingBox();
  await page.mouse.move(box.x + 110, box.y + box.height - 30);
  const cell = await until(
    () =>
      page.evaluate(() => {
        const { row, key, number } =
          document.querySelector("[data-test=cell]")?.dataset ?? {};
        return (
          number && {
            row: Number(row),
            key: Number(key),
            number: Number(number),
          }
        );
      }),
    "the weight of a cell",
  );
  same(
    cell.number,
    await weight_of(server, run, cell),
    `the weight at ${cell.row}, ${cell.key}`,
  );
  const total = Array.from(
    { length: 10 },
    (_, l) => Math.ceil(100000 / 256 / 2 ** l) ** 2,
  ).reduce((a, b) => a + b);
  const asked = few_tiles(page, total / 100, "of a matrix of 100,000");
  const memory = [
    await bounded_page(page),
    bounded_server(server, run, config, 100000),
  ];
  no_faults(page);
  server.stop();
  return [
    `run ${run.seconds.toFixed(1)} s`,
    `first picture ${shown.toFixed(0)} ms after it`,
    `panning at ${rate.toFixed(0)} frames a second`,
    refined,
    `${asked} of ${total} tiles`,
    ...memory,
  ].join(", ");
});

await run_checks(async () => {
  await browser.close();
  return stop_servers();
});
