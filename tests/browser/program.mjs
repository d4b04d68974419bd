// The program: as a server, as a writer of numbers and pages, and models to run it on.

import { execFileSync, spawn } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { fail } from "./harness.mjs";

const here = dirname(fileURLToPath(import.meta.url));
export const { ATTEND, WORK } = process.env;
const golden = resolve(here, "../golden/models");

// A model that ships with the program.
export const shipped = (name) => resolve(here, "../../models", name);

export const DECODER = {
  args: [
    "--model",
    join(golden, "stories260K"),
    "Once upon a time, there was a little cat and a dog.",
  ],
  roles: ["decoder"],
};
export const PAIR = {
  args: [
    "--model",
    model_with_words("bert"),
    "the cat sat on the mat",
    "a dog sat, sitting",
  ],
  roles: ["encoder"],
};
export const BOTH = {
  args: ["--model", join(golden, "t5"), "5 17 40 96 3 17 40", "7 8 9 8 9"],
  roles: ["encoder", "decoder", "cross"],
};

const servers = new Set();
const ended = [];

// A question of a server, as its page asks it.
function ask(url, name, body) {
  const token = new URL(url).searchParams.get("token");
  return fetch(new URL("api/" + name, url), {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Authorization: "Bearer " + token,
    },
    body: JSON.stringify(body),
  });
}

// serve(["--model", ..]) -> {url, pid, ask, stop}. Ending before stop() is a
// fault, which stop_servers() tells.
export function serve(args, { program = ATTEND, cwd = WORK } = {}) {
  const child = spawn(program, ["view", ...args], {
    cwd,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const stop = () => {
    servers.delete(child);
    child.kill("SIGTERM");
  };
  servers.add(child);
  return new Promise((done, refuse) => {
    let out = "";
    let complaint = "";
    child.stderr.on("data", (text) => (complaint += text));
    child.on("exit", (code, signal) => {
      const what = `attend view ${args.join(" ").slice(0, 200)} ends with ${signal ?? code}: ${complaint}`;
      if (servers.delete(child)) ended.push(what);
      refuse(new Error(what));
    });
    child.stdout.on("data", (text) => {
      out += text;
      const url = /(http:\/\/\S+)\n/.exec(out)?.[1];
      if (url)
        done({ url, pid: child.pid, ask: ask.bind(null, url), stop });
    });
  });
}

export function stop_servers() {
  for (const child of servers) child.kill("SIGTERM");
  servers.clear();
  return ended;
}

// numbers(["--view", ..]) -> what --json says
export function numbers(args) {
  const text = execFileSync(ATTEND, ["view", "--json", ...args], {
    cwd: WORK,
    maxBuffer: 1 << 28,
  });
  return JSON.parse(text);
}

export function write_page(name, args) {
  const path = join(WORK, name);
  execFileSync(ATTEND, ["view", "--out", path, ...args], {
    cwd: WORK,
    stdio: "pipe",
  });
  return path;
}

// ---- models --------------------------------------------------------------------------------

export function made_model(name, config, words = null) {
  const folder = join(WORK, name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  if (words) writeFileSync(join(folder, "vocab.txt"), words.join("\n") + "\n");
  return folder;
}

// A golden model with words of its own: they come without.
function model_with_words(name) {
  const folder = join(WORK, name);
  if (existsSync(folder)) return folder;
  const from = join(golden, name);
  const words = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "a",
    "cat",
    "dog",
    "sat",
    "on",
    "mat",
    "##s",
    "##ting",
    "sit",
    ".",
    ",",
  ];
  while (words.length < 211) words.push("w" + words.length);
  made_model(name, JSON.parse(readFileSync(join(from, "config.json"))), words);
  copyFileSync(
    join(from, "model.safetensors"),
    join(folder, "model.safetensors"),
  );
  return folder;
}

// What a few seconds of training leave: steps 0, 10, .. 40 of a small model.
export function made_training(name) {
  const words = join(WORK, name + ".txt");
  const lines = Array.from(
    { length: 120 },
    (_, i) =>
      `The ${i % 2 ? "cat" : "dog"} saw the ${i % 3 ? "ball" : "tree"}.\n`,
  );
  writeFileSync(words, lines.join(""));
  const out = join(WORK, name);
  const how =
    "--layers 2 --heads 4 --width 32 --length 32 --batch 4 --steps 40 " +
    "--save-every 10 --valid-share 0.2";
  const tokenizer = join(golden, "stories260K");
  execFileSync(
    ATTEND,
    ["train", "--data", words, "--out", out, "--tokenizer", tokenizer].concat(
      how.split(" "),
    ),
    { cwd: WORK, stdio: "pipe" },
  );
  return out;
}

// From /proc, in bytes: VmHWM of a server, RssAnon of a page.
export function memory_of(pid, what) {
  const line = new RegExp(`^${what}:\\s+(\\d+) kB`, "m").exec(
    readFileSync(`/proc/${pid}/status`, "utf8"),
  );
  return line
    ? Number(line[1]) * 1024
    : fail(`process ${pid} does not say its ${what}`);
}
