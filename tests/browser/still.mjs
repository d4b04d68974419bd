// The page as one file: opened from disk it asks for nothing and shows the live page's numbers.

import { execFileSync } from "node:child_process";
import { pathToFileURL } from "node:url";
import { check, must, run_checks, same, until } from "./harness.mjs";
import {
  address,
  no_faults,
  open_at,
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
  PAIR,
  serve,
  stop_servers,
  WORK,
  write_page,
} from "./program.mjs";

const browser = await open_browser();
const KINDS = {
  "a decoder": DECODER,
  "a pair": PAIR,
  "an encoder-decoder": BOTH,
};

// Places whose numbers both pages must agree in; what kinds have in common, once.
function states_of(kind) {
  const role = kind.roles.at(-1);
  const each = [
    { view: "head", role, layer: 1, head: 2, heads: "0,2", token: 3 },
    { view: "neuron", role, layer: 1, head: 1, token: 2 },
    { view: "compare", role, layer: 1, head: 2, token: 3, key: 2 },
  ];
  if (kind === PAIR) return each;
  return [
    ...each,
    { view: "model", role, sort: "first" },
    { view: "matrix", role, layer: 1, head: 3, token: 2, key: 1 },
    { view: "flow", role, token: 3 },
    { view: "flow", role, token: 3, way: "argmax" },
    { view: "embeddings", role, layer: 1, token: 2, key: 1 },
  ];
}

// The numbers that both pages show once they are idle: equal, or reported as different.
async function agreed_numbers(live, still, where) {
  let before = "";
  let pair;
  await until(
    async () => {
      pair = await Promise.all([shown_numbers(live), shown_numbers(still)]);
      const now = JSON.stringify(pair);
      const rests = now === before && pair[0].length > 0;
      before = now;
      return rests && JSON.stringify(pair[0]) === JSON.stringify(pair[1]);
    },
    "",
    10,
  ).catch(() => same(pair[1], pair[0], `numbers at ${where}`));
  must(pair[0].length > 0, `no numbers at ${where}`);
  return pair[0].length;
}

for (const [name, kind] of Object.entries(KINDS)) {
  check(`a page from disk has the live page's numbers: ${name}`, async () => {
    const url = pathToFileURL(write_page(`still ${name}.html`, kind.args)).href;
    const server = await serve(kind.args);
    const live = await watched_page(browser, server.url);
    const still = await watched_page(browser, url);
    let compared = 0;
    for (const state of states_of(kind)) {
      const where = address(state);
      still.requests.length = 0;
      await Promise.all([
        open_at(live, server.url, state),
        open_at(still, url, state),
      ]);
      compared += await agreed_numbers(live, still, where);
      const others = still.requests.filter(
        (r) => r.split("#")[0] !== url && !/^(data|blob|about):/.test(r),
      );
      same(others, [], `requests at ${where}`);
    }
    same(still.asked, [], "questions to a program");
    no_faults(live);
    no_faults(still);
    await live.context().close();
    await still.context().close();
    server.stop();
    return `${compared} numbers compared`;
  });
}

check("every view of a page from disk opens by its tab", async () => {
  const url = pathToFileURL(write_page("tabs.html", DECODER.args)).href;
  const page = await watched_page(browser, url);
  await page.goto(url);
  await ready(page);
  for (const view of VIEWS) {
    if (view === "generate" && !(await test(page, "tab-generate").count()))
      continue;
    await open_view(page, view);
  }
  const command = await test(page, "command").innerText();
  const run = execFileSync(
    "bash",
    ["-c", `attend() { "$ATTEND" "$@"; }; ${command} --json`],
    { cwd: WORK, maxBuffer: 1 << 26 },
  );
  const kept = await page.evaluate(() =>
    Object.keys(JSON.parse(document.getElementById("still").textContent).runs),
  );
  must(
    kept.includes(JSON.parse(run).run.run),
    `another text is run by: ${command}`,
  );
  same(await test(page, "text").count(), 0, "places to edit a text");
  no_faults(page);
  same(
    page.requests.filter((r) => !r.startsWith("data:")),
    [url],
    "requests",
  );
});

check("data missing from a page on disk is reported in a sentence", async () => {
  const url = pathToFileURL(write_page("short.html", DECODER.args)).href;
  const page = await watched_page(browser, url);
  await page.goto(url + address({ view: "compare", form: "poly(p=3)" }));
  await ready(page);
  await test(page, "problem").first().waitFor();
  must(
    (await test(page, "problem").first().innerText()).includes("attend view"),
    "the sentence does not name the remedy",
  );
  no_faults(page);
});

await run_checks(async () => {
  await browser.close();
  return stop_servers();
});
