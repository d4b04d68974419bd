// Thumbnails of all heads of two models, layers at the same relative depth in one row.

import { ask_binary, useScene } from "./asking";
import { BesideScene, place_beside } from "./beside_scene";
import { Problem, rove } from "./controls";
import { Answer } from "./decode";
import { Heat } from "./heat";
import { weight_text } from "./numbers";
import { Inks } from "./palette";
import { Place, Role, Run, Summary } from "./protocol";
import { go, state, theme } from "./state";

const SIZE = 48;

interface Half {
  run: Run;
  summary: Summary;
  thumbs: Answer;
}

async function ask_half(
  run: Run,
  summary: Summary,
  signal: AbortSignal,
): Promise<Half> {
  const request = { run: run.run, role: summary.role, size: SIZE };
  return { run, summary, thumbs: await ask_binary("thumbs", request, signal) };
}

// Rows [first, first + span) of the grid in which a layer of that side stands.
function rows_of(depth: [number, number][], side: 0 | 1, layer: number) {
  const first = depth.findIndex((d) => d[side] === layer);
  return { first, span: depth.filter((d) => d[side] === layer).length };
}

function Thumb({
  half,
  layer,
  head,
  chosen,
  choose,
}: {
  half: Half;
  layer: number;
  head: number;
  chosen: boolean;
  choose: () => void;
}) {
  const [, heads, height, width] = half.thumbs.parts.cells.shape;
  const index = layer * heads + head;
  const all = half.thumbs.parts.cells.data as Uint8Array;
  const inks: Inks = { theme: theme.value, signed: false, top: 255, scale: "root" };
  const most = half.thumbs.parts.most.data[index];
  const words = `${half.run.model.name}, layer ${layer}, head ${head}, largest weight ${weight_text(most)}`;
  return (
    <button
      type="button"
      class={chosen ? "thumb chosen" : "thumb"}
      title={words}
      aria-label={words}
      aria-pressed={chosen}
      data-rove
      data-test="beside-thumb"
      data-model={half.run.model.id}
      data-layer={layer}
      data-head={head}
      tabIndex={chosen ? 0 : -1}
      onClick={choose}
    >
      <Heat
        values={all.subarray(index * height * width, (index + 1) * height * width)}
        rows={height}
        columns={width}
        inks={inks}
        label=""
        ratio={1}
      />
    </button>
  );
}

function Layers({
  half,
  side,
  depth,
  chosen,
  choose,
}: {
  half: Half;
  side: 0 | 1;
  depth: [number, number][];
  chosen: Place;
  choose: (layer: number, head: number) => void;
}) {
  const { layers, heads } = half.summary;
  return (
    <>
      {Array.from({ length: layers }, (_, l) => {
        const { first, span } = rows_of(depth, side, l);
        return (
          <div
            key={l}
            class="beside-layer"
            style={{
              gridColumn: side + 1,
              gridRow: `${first + 2} / span ${span}`,
              gridTemplateColumns: `22px repeat(${heads}, minmax(0, 56px))`,
            }}
          >
            <span class="axis layer-axis">{l}</span>
            {Array.from({ length: heads }, (_, h) => (
              <Thumb
                key={h}
                half={half}
                layer={l}
                head={h}
                chosen={chosen.layer === l && chosen.head === h}
                choose={() => choose(l, h)}
              />
            ))}
          </div>
        );
      })}
    </>
  );
}

export function BesideHeads({
  scene,
  role,
  place,
  names,
}: {
  scene: BesideScene;
  role: Role;
  place: Place;
  names: string[];
}) {
  const { run, other, beside } = scene;
  const key = [run.run, other.run, beside.first.role, beside.second.role].join();
  const { value, error } = useScene(key, async (signal) => ({
    first: await ask_half(run, beside.first, signal),
    second: await ask_half(other, beside.second, signal),
  }));
  const second = place_beside(state.value, role, place, other).place;
  return (
    <section>
      <h2>All heads, layers by relative depth</h2>
      <p class="faint hint">
        Layers in one row are at the same share of the depth. Each map is scaled
        to its own largest weight. A press chooses the head for the maps above.
      </p>
      <Problem text={error} />
      {value && (
        <div
          class="beside-heads"
          data-test="beside-heads"
          role="group"
          aria-label="Heads of both"
          onKeyDown={(e) => rove(e, beside.first.heads)}
        >
          {names.map((name, i) => (
            <span key={i} class="axis" style={{ gridColumn: i + 1, gridRow: 1 }}>
              {name}: layer, then heads
            </span>
          ))}
          <Layers
            half={value.first}
            side={0}
            depth={beside.depth}
            chosen={place}
            choose={(layer, head) => go({ layer, head, heads: [] })}
          />
          <Layers
            half={value.second}
            side={1}
            depth={beside.depth}
            chosen={second}
            choose={(layer, head) =>
              go({ other_layer: layer, other_head: head })
            }
          />
        </div>
      )}
    </section>
  );
}
