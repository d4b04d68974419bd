// The program is all there is: its page is small and inside it, no file stands beside it.

import { copyFileSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { check, must, run_checks, same } from "./harness.mjs";
import {
  no_faults,
  open_browser,
  open_view,
  ready,
  watched_page,
} from "./browser.mjs";
import { ATTEND, DECODER, serve, stop_servers, WORK } from "./program.mjs";

const MOST = 150000; // bytes, in gzip

check("the page's files are under 150,000 bytes in gzip", async () => {
  const server = await serve(DECODER.args);
  const read = async (path) =>
    Buffer.from(await (await fetch(server.url + path)).arrayBuffer());
  const html = await read("");
  const names = [
    ...html.toString().matchAll(/(?:src|href)="(?!data:)([^"]+)"/g),
  ].map((m) => m[1]);
  must(names.length >= 2, `the page names ${names.length} files: ${names}`);
  const sizes = [["page.html", gzipSync(html).length]];
  for (const name of names)
    sizes.push([name, gzipSync(await read(name)).length]);
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

await run_checks(stop_servers);
