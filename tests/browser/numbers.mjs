// The numbers in the page are those of `attend view --json` of the same model and text.

import {
  check,
  must,
  near,
  run_checks,
  same,
  same_floats,
  until,
} from "./harness.mjs";
import {
  no_faults,
  number_of,
  open_at,
  open_browser,
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
} from "./program.mjs";

const browser = await open_browser();

// with_page(kind, state, body): body has the page at this state and its --json.
function with_page(name, kind, state, body, more = []) {
  check(name, async () => {
    kind.server ??= await serve(kind.args);
    const page = await watched_page(browser, kind.server.url);
    await open_at(page, kind.server.url, { ...text_of(kind), ...state });
    const args = Object.entries(state).flatMap(([n, v]) =>
      n.startsWith("other.") ? [] : ["--" + n, String(v)],
    );
    const json = numbers([...kind.args, ...args, ...more]);
    const note = await body(page, json.answers, json.run);
    no_faults(page);
    await page.context().close();
    return note;
  });
}

function text_of(kind) {
  const [, , text, second] = kind.args;
  return second ? { text, second } : { text };
}

// Numbers of a name in the order of their keys.
async function by_key(page, name) {
  const all = await shown_numbers(page, `[data-test="${name}"]`);
  return all.sort((a, b) => a.key - b.key).map((n) => n.number);
}

// Points at n places of a map; each reading says which cell it is of.
async function readings(page, map, cell, n = 6) {
  const box = await test(page, map).boundingBox();
  const out = [];
  for (let i = 0; i < n; i++) {
    await page.mouse.move(box.x + 110 + (i % 3) * 90, box.y + 90 + i * 60);
    await page.waitForTimeout(60);
    if (await test(page, cell).count())
      out.push(await test(page, cell).evaluate((e) => ({ ...e.dataset })));
  }
  must(
    out.length >= 3,
    `only ${out.length} of ${n} places of the map tell a cell`,
  );
  return out.map((d) => ({
    row: Number(d.row),
    key: Number(d.key),
    number: Number(d.number),
    a: Number(d.a),
    b: Number(d.b),
  }));
}

// ---- head, matrix, neuron --------------------------------------------------------------------

for (const [name, kind, role] of [
  ["decoder", DECODER, "decoder"],
  ["pair", PAIR, "encoder"],
  ["cross", BOTH, "cross"],
]) {
  with_page(
    `head: a row's weights, ${name}`,
    kind,
    { view: "head", role, layer: 1, head: 2 },
    async (page, { block }, run) => {
      const tokens = test(page, "token-row");
      const { causal, real_keys } = run.roles.find((r) => r.role === role);
      for (const row of [0, 2, (await tokens.count()) - 1]) {
        await tokens.nth(row).hover();
        same_floats(
          await by_key(page, "weight"),
          block.weights[row],
          `weights of row ${row}`,
        );
        await until(
          async () =>
            (await test(page, "row-table").getAttribute("data-row")) ===
            String(row),
          "the table of the row",
        );
        const listed = await shown_numbers(page, "[data-test=top-weight]");
        const seen = causal ? row + 1 : real_keys; // masked keys are not listed
        const want = block.weights[row]
          .slice(0, seen)
          .sort((a, b) => b - a)
          .slice(0, 10);
        same_floats(
          listed.map((n) => n.number),
          want,
          `the table of row ${row}`,
        );
      }
      await test(page, "token-key").nth(1).hover();
      const column = await shown_numbers(page, "[data-test=weight]");
      same_floats(
        column.map((n) => n.number),
        block.weights.map((w) => w[1]),
        "weights of key 1",
      );
    },
  );

  with_page(
    `matrix: pointed at, ${name}`,
    kind,
    { view: "matrix", role, layer: 1, head: 2 },
    async (page, { block }) => {
      const cells = await readings(page, "matrix", "cell");
      const visible = cells.filter((c) => block.weights[c.row][c.key] !== 0);
      must(visible.length > 0, "every cell under the pointer is masked");
      same_floats(
        visible.map((c) => c.number),
        visible.map((c) => block.weights[c.row][c.key]),
        "cells",
      );
    },
  );

  with_page(
    `neuron: products, weights, result, ${name}`,
    kind,
    { view: "neuron", role, layer: 1, head: 2, token: 3 },
    async (page, { vectors }) => {
      const {
        q: [q],
        k,
        weights: [weights],
        out: [out],
        scale,
      } = vectors;
      const keys = (await shown_numbers(page, "[data-test=weight]")).map((n) =>
        Number(n.key),
      );
      must(keys.length >= 4, `only ${keys.length} keys have a weight`);
      same_floats(
        await by_key(page, "weight"),
        keys.map((i) => weights[i]),
        "weights",
      );
      const dots = await by_key(page, "dot");
      const scaled = await by_key(page, "scaled");
      keys.forEach((i, at) => {
        const dot = k[i].reduce((sum, x, d) => sum + x * q[d], 0);
        near(dots[at], dot, 1e-6, `q.k of key ${i}`);
        near(scaled[at], dot * scale, 1e-6, `scaled q.k of key ${i}`);
      });
      for (const [strip, values] of [
        ["strip-q", q],
        ["strip-out", out],
      ]) {
        const box = await test(page, strip).boundingBox();
        for (const dim of [0, values.length >> 1, values.length - 1]) {
          await page.mouse.move(
            box.x + ((dim + 0.5) / values.length) * box.width,
            box.y + box.height / 2,
          );
          await until(
            async () =>
              (await test(page, "reading").innerText()).includes(
                `dimension ${dim}:`,
              ),
            `dimension ${dim}`,
          );
          same_floats(
            [await number_of(page, "reading")],
            [values[dim]],
            `${strip}, dimension ${dim}`,
          );
        }
      }
    },
  );
}

// ---- model: what heads do ----------------------------------------------------------------------

with_page(
  "model: scores of every pattern",
  DECODER,
  { view: "model" },
  async (page, { patterns }) => {
    let compared = 0;
    for (const [i, name] of patterns.names.entries()) {
      const want = patterns.scores.flat().map((head) => head[i]);
      const chip = test(page, "pattern-" + name);
      if (want.every((s) => s === null)) {
        same(await chip.count(), 0, `chips of ${name}, which does not apply`);
        continue;
      }
      await chip.click();
      const shown = await shown_numbers(
        page,
        "[data-test=thumbs] [data-test=thumb]",
      );
      same(
        shown.map((n) => n.number),
        want,
        `scores of ${name}`,
      );
      const first = await shown_numbers(
        page,
        "[data-test=ranked] [data-test=thumb]",
      );
      same(first[0].number, Math.max(...want), `the best head by ${name}`);
      await chip.click();
      compared++;
    }
    const labels = await test(page, "thumb-label").allTextContents();
    same(
      labels.map((t) => t.trim()),
      patterns.does
        .flat()
        .map((d) => (d ? patterns.labels[patterns.names.indexOf(d)] : "")),
      "the patterns of heads",
    );
    must(compared >= 5, `only ${compared} patterns were there to compare`);
  },
);

// ---- flow ----------------------------------------------------------------------------------------

with_page(
  "flow: shares by rollout",
  DECODER,
  { view: "flow", token: 7 },
  async (page, { flow }) => {
    const nodes = await shown_numbers(page, "[data-test=flow-node]");
    const want = flow.layers.flatMap((layer, row) =>
      layer.map(([i, share]) => [row, i, share]),
    );
    same(
      nodes.map((n) => [Number(n.row), Number(n.index), n.number]),
      want,
      "nodes",
    );
    near(
      flow.layers.at(-1).reduce((sum, [, share]) => sum + share, 0),
      1,
      1e-4,
      "the sum of the input's shares",
    );
    const links = await shown_numbers(page, "[data-test=flow-edge]");
    same(
      links.map((n) => [Number(n.from), Number(n.to), n.number]),
      flow.links.map(([, from, to, share]) => [from, to, share]).reverse(),
      "links",
    );
    // What the links of a layer bring to a token is its share, but for the lightest.
    for (const [row, layer] of flow.layers.slice(1).entries())
      for (const [i, share] of layer) {
        const brought = flow.links
          .filter(([l, , to]) => l === flow.layers.length - 2 - row && to === i)
          .reduce((sum, link) => sum + link[3], 0);
        must(
          brought <= share + 1e-5 && brought >= share - 0.002 * layer.length,
          `row ${row + 1}, token ${i}: its links bring ${brought} of ${share}`,
        );
      }
  },
);

with_page(
  "flow: strongest links",
  PAIR,
  { view: "flow", way: "argmax", token: 2 },
  async (page, { flow }, run) => {
    const nodes = await shown_numbers(page, "[data-test=flow-node]");
    same(
      nodes.map((n) => [Number(n.row), Number(n.index)]),
      flow.layers.flatMap((l, row) => l.map((i) => [row, i])),
      "nodes",
    );
    same(await test(page, "flow-edge").count(), flow.edges.length, "edges");
    same(
      (await shown_numbers(page, "[data-test=flow-count]")).map(
        (n) => n.number,
      ),
      flow.layers.slice(1).map((l) => l.length),
      "counts",
    );
    must(
      flow.layers.at(-1).length <=
        (run.roles[0].heads + 1) ** run.roles[0].layers,
      "more tokens than (k+1)^n are reached",
    );
  },
);

// ---- compare ---------------------------------------------------------------------------------------

async function same_comparison(page, { compare, block }) {
  same(
    (await shown_numbers(page, "[data-test=distance-cell]")).map(
      (n) => n.number,
    ),
    compare.distance.flat(),
    "distances",
  );
  const facts = {
    distance: "distance",
    entropy: "entropy",
    "other-entropy": "other_entropy",
    "output-error": "output_error",
  };
  for (const [name, member] of Object.entries(facts)) {
    if (!compare[member]) continue;
    same(await number_of(page, name), compare[member][1][2], name);
  }
  const cells = await readings(page, "map-a", "compare-cell", 4);
  same_floats(
    cells.map((c) => c.a),
    cells.map((c) => block.weights[c.row][c.key]),
    "the first map's weights",
  );
  for (const c of cells)
    near(c.number, c.a - c.b, 1e-6, `the difference at ${c.row}, ${c.key}`);
}

with_page(
  "compare: another form",
  DECODER,
  { view: "compare", layer: 1, head: 2, form: "favor(m=64)" },
  same_comparison,
);

with_page(
  "compare: an untrained model",
  DECODER,
  {
    view: "compare",
    layer: 1,
    head: 2,
    "other.text": DECODER.args[2],
    "other.untrained": "true",
  },
  async (page, answers) => {
    await same_comparison(page, answers);
    same(
      (await shown_numbers(page, "[data-test=hidden-error] [data-number]")).map(
        (n) => n.number,
      ),
      answers.compare.hidden_error ?? [],
      "errors of the hidden states",
    );
  },
  ["--against", "untrained"],
);

// ---- embeddings, generate ----------------------------------------------------------------------------

with_page(
  "embeddings: cosines, lengths, positions",
  DECODER,
  { view: "embeddings", layer: 2 },
  async (page, { embeddings, positions }) => {
    const cells = await readings(page, "cosines", "cosine");
    same_floats(
      cells.map((c) => c.number),
      cells.map((c) => embeddings.cosine[c.row][c.key]),
      "cosines",
    );
    same_floats(
      [await number_of(page, "norm")],
      [embeddings.norm[cells.at(-1).row]],
      "the length of the vector",
    );
    same(
      await number_of(page, "shift-error"),
      positions.shift_error,
      "the error of p(t+1) = M p(t)",
    );
  },
);

with_page(
  "generate: candidates and memory",
  DECODER,
  { view: "generate", new: 5 },
  async (page, _, run) => {
    await test(page, "new").fill("5");
    await test(page, "new").press("Tab");
    await test(page, "run").click();
    await until(
      async () => (await test(page, "looked-mean").count()) > 0,
      "attention of the step",
    );
    const { steps } = run;
    same(steps.length, 5, "steps of --json");
    same(
      (await shown_numbers(page, "[data-test=written-token]")).map(
        (n) => n.number,
      ),
      steps.map((s) => s.p),
      "probabilities",
    );
    for (const at of [4, 0]) {
      await test(page, "written-token").nth(at).click();
      same(
        (await shown_numbers(page, "[data-test=candidate]")).map(
          (n) => n.number,
        ),
        steps[at].candidates.map((c) => c.p),
        `candidates of step ${at}`,
      );
      same(
        await number_of(page, "cache-bytes"),
        steps[at].cache_bytes,
        `bytes kept at step ${at}`,
      );
    }
  },
);

await run_checks(async () => {
  await browser.close();
  return stop_servers();
});
