// The receptive field of one token's output through the layers.

import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { ask_json, run, useScene } from "./asking";
import { Caption } from "./caption";
import { PlaceBar, Problem, rove, Switch, Waiting } from "./controls";
import { FlowTable } from "./flow_table";
import { Formula, Mn, Mo, Sup } from "./math";
import { count_text, percent_text } from "./numbers";
import { head_colour, ink_css } from "./palette";
import { ArgmaxFlow, RolloutFlow, Role, Run, Way } from "./protocol";
import { go, place_in, state, theme } from "./state";
import { row_labels, is_special, TokenLabel, token_text } from "./token_label";
import { useWidth } from "./width";

const HEIGHT = 420; // pixels of all layers, if their rows are neither too low nor too high
const NARROWEST = 20; // pixels a token, as long as tokens are written
const WRITTEN = 160; // longer texts have no room for their tokens
const SVG_MARKS = 2500;

export interface FlowScene {
  run: Run;
  role: Role;
  token: number;
  way: Way;
  // Row 0 is the output of the last layer, the last row the input.
  nodes: [number, number][][]; // token, share (1 for argmax)
  edges: [number, number, number, number, number][]; // row, from, to, head, share
  rest: number[];
}

function scene_of(
  answer: ArgmaxFlow | RolloutFlow,
  facts: Pick<FlowScene, "run" | "role" | "token" | "way">,
): FlowScene {
  if ("edges" in answer) {
    const last = answer.layers.length - 2;
    return {
      ...facts,
      rest: [],
      nodes: answer.layers.map((layer) =>
        layer.map((i): [number, number] => [i, 1]),
      ),
      edges: answer.edges.map(([layer, from, to, head]) => [
        last - layer,
        from,
        to,
        head,
        1,
      ]),
    };
  }
  const last = answer.layers.length - 2;
  return {
    ...facts,
    nodes: answer.layers,
    rest: answer.rest,
    // The largest last, over the others.
    edges: [...answer.links]
      .reverse()
      .map(([layer, from, to, share]) => [last - layer, from, to, -1, share]),
  };
}

function useFlowScene() {
  const r = run.value;
  // Through the layers of one side; for cross-attention, of the decoder.
  const role = state.value.role === "cross" ? "decoder" : state.value.role;
  const at = r && place_in(r, { ...state.value, role });
  const token = at ? (at.token >= 0 ? at.token : at.row_side.real - 1) : 0;
  const way = state.value.way;
  const key = r && at ? [r.run, at.role.role, token, way].join() : null;
  return useScene(key, async (signal) =>
    scene_of(
      await ask_json<ArgmaxFlow | RolloutFlow>(
        "flow",
        { run: r!.run, role: at!.role.role, token, way },
        signal,
      ),
      { run: r!, role: at!.role, token, way },
    ),
  );
}

interface Drawing {
  scene: FlowScene;
  step: number;
  width: number;
  height: number;
  label: string;
}

const row_pixels = (layers: number) => Math.max(40, Math.min(72, HEIGHT / layers));
const y_of = (scene: FlowScene, row: number) =>
  16 + row * row_pixels(scene.nodes.length - 1);

// Of a rollout, the wider and more solid a link the larger its share.
function edge_look(way: Way, head: number, share: number) {
  if (way === "rollout")
    return {
      stroke: "var(--blue)",
      "stroke-width": edge_width(share),
      "stroke-opacity": edge_opacity(share),
    };
  return {
    stroke: head < 0 ? "var(--faint)" : head_colour(head, theme.value),
    "stroke-width": 1.3,
    "stroke-opacity": 0.55,
    "stroke-dasharray": head < 0 ? "2 3" : undefined,
  };
}

const edge_width = (share: number) => 0.7 + 6 * share;
const edge_opacity = (share: number) =>
  Math.min(0.9, 0.08 + 0.85 * Math.sqrt(share));

function radius(share: number, way: Way): number {
  return way === "argmax" ? 4 : 2 + 10 * Math.sqrt(share);
}

function Drawn({ scene, step, width, height, label }: Drawing) {
  const X = (i: number) => (i + 0.5) * step;
  return (
    <svg
      width={width}
      height={height}
      role="img"
      aria-label={label}
      data-test="flow"
    >
      {scene.edges.map(([row, from, to, head, share], i) => (
        <line
          key={i}
          x1={X(from)}
          x2={X(to)}
          y1={y_of(scene, row)}
          y2={y_of(scene, row + 1)}
          data-test="flow-edge"
          data-row={row}
          data-from={from}
          data-to={to}
          data-number={share}
          {...edge_look(scene.way, head, share)}
        />
      ))}
      {scene.nodes.map((layer, row) =>
        layer.map(([i, share]) => (
          <circle
            key={row * 1e6 + i}
            cx={X(i)}
            cy={y_of(scene, row)}
            r={radius(share, scene.way)}
            data-test="flow-node"
            data-row={row}
            data-index={i}
            data-number={share}
            fill={node_colour(share, scene.way)}
            class="flow-node"
          >
            <title>
              {`${token_text(row_labels(scene.run, scene.role)[i])} (${i})` +
                (scene.way === "rollout" ? `: ${percent_text(share)}` : "")}
            </title>
          </circle>
        )),
      )}
    </svg>
  );
}

function node_colour(share: number, way: Way): string {
  return ink_css(way === "argmax" ? 0.5 : 0.15 + 0.85 * Math.min(1, share), {
    theme: theme.value,
    signed: false,
    top: 1,
    scale: "root",
  });
}

function Painted({ scene, step, width, height, label }: Drawing) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const paper = theme.value;
  useLayoutEffect(() => {
    const c = canvas.current!;
    c.width = width;
    c.height = height;
    const context = c.getContext("2d")!;
    const X = (i: number) => (i + 0.5) * step;
    const faint = getComputedStyle(c).getPropertyValue("--faint");
    const blue = getComputedStyle(c).getPropertyValue("--blue");
    const shares = scene.way === "rollout";
    for (const [row, from, to, head, share] of scene.edges) {
      context.globalAlpha = shares ? edge_opacity(share) : 0.25;
      context.lineWidth = shares ? edge_width(share) : 1;
      context.strokeStyle = shares
        ? blue
        : head < 0
          ? faint
          : head_colour(head, paper);
      context.beginPath();
      context.moveTo(X(from), y_of(scene, row));
      context.lineTo(X(to), y_of(scene, row + 1));
      context.stroke();
    }
    context.globalAlpha = 1;
    scene.nodes.forEach((layer, row) =>
      layer.forEach(([i, share]) => {
        context.fillStyle = node_colour(share, scene.way);
        context.beginPath();
        context.arc(
          X(i),
          y_of(scene, row),
          Math.min(radius(share, scene.way), 5),
          0,
          7,
        );
        context.fill();
      }),
    );
  }, [scene, step, width, height, paper]);
  return (
    <canvas
      ref={canvas}
      role="img"
      aria-label={label}
      data-test="flow-canvas"
    />
  );
}

function TokenRow({ scene, step }: { scene: FlowScene; step: number }) {
  const side = scene.run.sides[scene.role.row_side]!;
  const longest = Math.max(...side.labels.map((t) => t.length));
  const flat = longest * 8.5 + 6 <= step;
  const reached = new Set(scene.nodes[scene.nodes.length - 1].map((n) => n[0]));
  return (
    <div
      class={flat ? "flow-tokens flat" : "flow-tokens"}
      role="group"
      aria-label="Choose the token whose output is traced"
      onKeyDown={(e) => rove(e, side.tokens.length)}
    >
      {side.labels.map((t, i) => (
        <button
          key={i}
          type="button"
          data-rove
          tabIndex={i === scene.token ? 0 : -1}
          title={`Token ${i}`}
          class={
            "flow-token" +
            (i === scene.token ? " chosen" : reached.has(i) ? "" : " unreached")
          }
          aria-pressed={i === scene.token}
          data-test="flow-token"
          data-index={i}
          style={{ width: step + "px" }}
          onClick={() => go({ token: i })}
        >
          <TokenLabel token={t} special={is_special(side, i)} />
        </button>
      ))}
    </div>
  );
}

function words_of(scene: FlowScene): string {
  const { role, token } = scene;
  const layers = scene.nodes.length - 1;
  const reached = scene.nodes[layers].length;
  const visible = role.causal ? token + 1 : role.real_keys;
  if (scene.way === "rollout") {
    return (
      `Rollout traces the mean of all heads, with half of the weight on the residual in each layer: ` +
      `${count_text(reached)} input tokens have a share.` +
      (scene.rest[layers] > 0.0005
        ? ` ${percent_text(scene.rest[layers])} is on other tokens.`
        : "")
    );
  }
  return (
    `Following each head's strongest link, ${layers} layers of ${role.heads} heads reach ` +
    `${count_text(reached)} of ${count_text(visible)} visible tokens.`
  );
}

// As a string: an attribute that is false is left out.
const PLAIN = { stretchy: "false" } as object;

// Of k heads in n layers.
function Bound({ scene }: { scene: FlowScene }) {
  const { heads } = scene.role;
  const layers = scene.nodes.length - 1;
  const bound = (heads + 1) ** layers;
  return (
    <>
      {" "}
      At most{" "}
      <Formula say="k plus 1 to the n">
        <Sup
          base={
            <>
              <mo {...PLAIN}>(</mo>
              <mi>k</mi>
              <mo>+</mo>
              <mn>1</mn>
              <mo {...PLAIN}>)</mo>
            </>
          }
          high={<mi>n</mi>}
        />
        <Mo>=</Mo>
        <Sup base={<mn>{heads + 1}</mn>} high={<mn>{layers}</mn>} />
        {bound <= 1e6 && (
          <>
            <Mo>=</Mo>
            <Mn>{count_text(bound)}</Mn>
          </>
        )}
      </Formula>{" "}
      are possible for k heads in n layers.
    </>
  );
}

export function FlowView() {
  const { value: scene, error } = useFlowScene();
  const { box, width } = useWidth(800);
  const written = !!scene && scene.role.rows <= WRITTEN;
  const step = scene
    ? Math.min(
        72,
        Math.max(written ? NARROWEST : 0, (width - 70) / scene.role.rows),
      )
    : 1;
  const drawing = useMemo(
    () =>
      scene && {
        scene,
        step,
        width: Math.ceil(step * scene.role.rows),
        height: y_of(scene, scene.nodes.length - 1) + 16,
        label: words_of(scene),
      },
    [scene, step],
  );
  const marks = scene
    ? scene.edges.length + scene.nodes.reduce((n, l) => n + l.length, 0)
    : 0;
  const top = scene ? scene.nodes.length - 1 : 0;
  return (
    <div class="view flow-view">
      <PlaceBar head={false} layer={false} cross={false}>
        <Switch
          label="Follow"
          name="way"
          value={state.value.way}
          options={[
            { value: "rollout", label: "rollout" },
            { value: "argmax", label: "strongest links" },
          ]}
          choose={(way) => go({ way })}
        />
        {scene && !written && (
          <div class="field">
            <label for="flow-token">Token</label>
            <input
              id="flow-token"
              type="number"
              min={0}
              max={scene.role.rows - 1}
              value={scene.token}
              data-test="flow-token-number"
              onChange={(e) =>
                go({
                  token: Math.max(
                    0,
                    Math.min(
                      scene.role.rows - 1,
                      Number(e.currentTarget.value) || 0,
                    ),
                  ),
                })
              }
            />
          </div>
        )}
      </PlaceBar>
      <Problem text={error} />
      {!scene && !error && <Waiting />}
      <div ref={box}>
        {scene && drawing && (
          <>
            <p data-test="flow-words">
              {drawing.label}
              {scene.way === "argmax" && <Bound scene={scene} />}
            </p>
            <div
              class="scroll-x flow-scroll"
              tabIndex={0}
              role="region"
              aria-label="Receptive field"
            >
              <div class="flow-box">
                <div class="flow-layers" aria-hidden="true">
                  {scene.nodes.map((_, row) => (
                    <span key={row} style={{ top: y_of(scene, row) - 10 + "px" }}>
                      {row === top
                        ? "input"
                        : row === 0
                          ? "output"
                          : `layer ${top - row - 1}`}
                    </span>
                  ))}
                </div>
                <div>
                  {marks > SVG_MARKS ? (
                    <Painted {...drawing} />
                  ) : (
                    <Drawn {...drawing} />
                  )}
                  {written && <TokenRow scene={scene} step={step} />}
                </div>
              </div>
            </div>
            <Caption
              name={"flow." + scene.way}
              facts={{
                attention: scene.role.words,
                query: token_text(
                  row_labels(scene.run, scene.role)[scene.token],
                ),
              }}
            />
            <FlowTable scene={scene} />
          </>
        )}
      </div>
    </div>
  );
}
