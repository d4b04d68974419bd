// The program is all there is: its page is small and inside it, no file stands beside it.

import { copyFileSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { check, must, run_checks, same, until } from "./harness.mjs";
import {
  drawn,
  no_faults,
  open_browser,
  open_view,
  ready,
  test,
  watched_page,
} from "./browser.mjs";
import { ATTEND, DECODER, serve, stop_servers, WORK } from "./program.mjs";

const MOST = 150000; // bytes, in gzip

check("the page's files are under 150,000 bytes in gzip", async () => {
  const server = await serve(DECODER.args);
  const read = async (url) =>
    Buffer.from(await (await fetch(url)).arrayBuffer());
  const html = await read(server.url);
  const names = [
    ...html.toString().matchAll(/(?:src|href)="(?!data:)([^"]+)"/g),
  ].map((m) => m[1]);
  must(names.length >= 2, `the page names ${names.length} files: ${names}`);
  const sizes = [["page.html", gzipSync(html).length]];
  for (const name of names)
    sizes.push([
      name,
      gzipSync(await read(new URL(name, server.url))).length,
    ]);
  server.stop();
  const sum = sizes.reduce((a, [, n]) => a + n, 0);
  must(sum < MOST, `${sum} bytes: ${sizes.join(", ")}`);
  return `${sum} bytes: ${sizes.map(([n, b]) => n + " " + b).join(", ")}`;
});

check("the program serves its page from an empty folder", async () => {
  const folder = join(WORK, "alone");
  const empty = join(WORK, "empty");
  mkdirSync(folder);
  mkdirSync(empty);
  copyFileSync(ATTEND, join(folder, "attend"));
  const server = await serve(DECODER.args, {
    program: join(folder, "attend"),
    cwd: empty,
  });
  const browser = await open_browser();
  const page = await watched_page(browser, server.url);
  await page.goto(server.url);
  await ready(page);
  await open_view(page, "matrix");
  no_faults(page);
  await browser.close();
  server.stop();
  same(
    [readdirSync(folder), readdirSync(empty)],
    [["attend"], []],
    "files beside the program and where it ran",
  );
});

check("a copied link opens its view by its token alone", async () => {
  const server = await serve(DECODER.args);
  const browser = await open_browser();
  const page = await watched_page(browser, server.url, {
    permissions: ["clipboard-read", "clipboard-write"],
  });
  await page.goto(server.url);
  await ready(page);
  await open_view(page, "matrix");
  await test(page, "save-menu").locator("summary").click();
  await test(page, "copy-link").click();
  const link = await until(
    () => page.evaluate(() => navigator.clipboard.readText()),
    "the link",
  );
  no_faults(page);
  const again = await watched_page(browser, server.url);
  await again.goto(link);
  await ready(again);
  await drawn(again, "matrix");
  const questions = again.requests.filter((url) => url.includes("/api/"));
  must(questions.length > 0, "nothing was asked");
  same(
    questions.filter((url) => url.includes("token")),
    [],
    "questions with the token in their address",
  );
  no_faults(again);
  const stripped = new URL(link);
  stripped.search = "";
  const refused = await again.goto(stripped.href);
  same(refused.status(), 403, "the status of a link without its token");
  must(
    (await refused.text()).includes("open the whole address"),
    "no remedy is named",
  );
  await browser.close();
  server.stop();
});

await run_checks(stop_servers);
