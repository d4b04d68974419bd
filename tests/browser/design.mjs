// The page of `attend design`: from disk, without a program, with the program's numbers.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { check, must, near, run_checks, same } from "./harness.mjs";
import {
  axe_faults,
  no_faults,
  open_browser,
  shown_numbers,
  test,
  watched_page,
} from "./browser.mjs";
import { ATTEND, stop_servers, WORK } from "./program.mjs";

const browser = await open_browser();

function write_one(name, design, more = []) {
  const path = join(WORK, name);
  const args = ["design", design, "--learn", "--out", path, ...more];
  execFileSync(ATTEND, args, { cwd: WORK, stdio: "pipe" });
  return path;
}

const numbers_in = async (page, name) =>
  (await shown_numbers(page, `[data-test="${name}"] [data-number]`)).map(
    (n) => n.number,
  );

async function compare(page, design) {
  let compared = 0;
  for (const side of ["designed", "learned"]) {
    if (!design[side]) continue;
    const run = design[side].run;
    for (let h = 0; h < design.heads.length; h++) {
      const got = await numbers_in(page, `${side}-${h}-attention`);
      const want = run.attention[h];
      same(got.length, want.length, `${design.name}: cells of head ${h}`);
      got.forEach((x, i) =>
        near(x, want[i], 2e-5, `${design.name}: ${side} head ${h}, cell ${i}`),
      );
      compared += got.length;
    }
    const logits = await numbers_in(page, `${side}-readout-logits`);
    logits.forEach((x, i) =>
      near(x, run.logits[i], 1e-4, `${design.name}: ${side} logit ${i}`),
    );
    compared += logits.length;
  }
  return compared;
}

for (const name of ["content", "position", "previous", "sort"]) {
  check(`the page's numbers are the program's: ${name}`, async () => {
    const path = write_one(`${name}.html`, name);
    const data = JSON.parse(
      readFileSync(write_one(`${name}.json`, name), "utf8"),
    );
    const url = pathToFileURL(path).href;
    const page = await watched_page(browser, url);
    await page.goto(url);
    await test(page, "design-maps").waitFor();
    const compared = await compare(page, data.designs[0]);
    same(await test(page, "designed-0-Km").count(), 1, "designed Km");
    same(await test(page, "learned-0-output").count(), 1, "learned output");
    no_faults(page);
    same(
      page.requests.filter((r) => !/^(data|blob):/.test(r)),
      [url],
      "requests",
    );
    await page.context().close();
    return `${compared} numbers compared`;
  });
}

check("inputs are answered, sharpness counts, designs are chosen", async () => {
  const [path, numbers] = ["all.html", "all.json"].map((n) => join(WORK, n));
  for (const out of [path, numbers])
    execFileSync(ATTEND, ["design", "--all", "--out", out], { stdio: "pipe" });
  const url = pathToFileURL(path).href;
  const page = await watched_page(browser, url);
  await page.goto(url);
  for (const design of JSON.parse(readFileSync(numbers, "utf8")).designs) {
    await test(page, "design-choice").selectOption({ label: design.name });
    await compare(page, design);
  }
  await test(page, "design-choice").selectOption({ label: "induction" });
  await test(page, "design-input").fill("ABCAB");
  const answers = () =>
    page
      .locator("[data-test=answers-designed] td")
      .allTextContents()
      .then((all) => all.slice(1).join(" "));
  same(await answers(), "none none none B C", "what follows ABCAB");
  await test(page, "design-input").fill("ABCABD");
  must(
    (await test(page, "design-problem").innerText()).includes("“D”"),
    "the letter that is none is not named",
  );
  await test(page, "design-choice").selectOption({ label: "content" });
  await test(page, "design-input").fill("AAAB");
  same(
    await page.locator("[data-test=answers-designed] td").allTextContents(),
    ["A", "A", "A", "B"],
    "the identity",
  );
  await test(page, "design-argmax").uncheck();
  await test(page, "design-sharpness").fill("0"); // 2^0 < ln 3
  same(
    await page.locator("[data-test=answers-designed] td").allTextContents(),
    ["A", "A", "A", "A"],
    "softmax that is not sharp enough",
  );
  await page.locator("[data-test=designed-0-Km] tbody td").first().hover();
  same(
    await test(page, "design-pointed").innerText(),
    "Km[A, A] = 1.0000",
    "the description of a cell",
  );
  no_faults(page);
  const where = page.url();
  await page.goto("about:blank");
  await page.goto(where);
  same(await test(page, "design-input").inputValue(), "AAAB", "the link's input");
  await page.context().close();
});

for (const colorScheme of ["light", "dark"])
  check(`axe-core finds nothing serious: design, ${colorScheme}`, async () => {
    const url = pathToFileURL(write_one("axe.html", "previous")).href;
    const page = await watched_page(browser, url, { colorScheme });
    await page.goto(url);
    await test(page, "design-argmax").uncheck();
    same(await axe_faults(page), [], "faults");
    no_faults(page);
    await page.context().close();
  });

await run_checks(async () => {
  await browser.close();
  return stop_servers();
});
