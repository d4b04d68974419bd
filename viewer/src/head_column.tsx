// A column of tokens in the head view: hover, arrow keys and pinning.

import { HeadScene } from "./head_scene";
import { is_masked } from "./masks";
import { weight_text } from "./numbers";
import { head_colour } from "./palette";
import { go, theme } from "./state";
import { is_special, row_labels, TokenLabel } from "./token_label";

export interface Focus {
  side: "row" | "key";
  index: number;
}

export function Column(props: {
  scene: HeadScene;
  side: "row" | "key";
  focus: Focus | null;
  pinned: Focus | null;
  look: (f: Focus | null) => void;
}) {
  const { scene, side, focus } = props;
  const { range, role } = scene;
  const text = scene.run.sides[side === "row" ? role.row_side : role.key_side]!;
  const labels = side === "row" ? row_labels(scene.run, role) : text.labels;
  const first = side === "row" ? range.row : range.key;
  const count = side === "row" ? range.rows : range.keys;
  // Tab enters the column at the pinned token, if it is visible.
  const marked = props.pinned?.side === side ? props.pinned.index : -1;
  const entry = marked >= first && marked < first + count ? marked : first;
  const pin = (index: number) => {
    const again = props.pinned?.side === side && props.pinned.index === index;
    go(
      side === "row"
        ? { token: again ? -1 : index, key: -1 }
        : { key: again ? -1 : index, token: -1 },
    );
  };
  return (
    <div
      class={"tokens " + side}
      role="group"
      aria-label={side === "row" ? "Queries" : "Keys"}
      onKeyDown={walk}
    >
      {Array.from({ length: count }, (_, i) => {
        const index = first + i;
        const mine = focus?.side === side && focus.index === index;
        const pinned =
          props.pinned?.side === side && props.pinned.index === index;
        return (
          <button
            key={index}
            type="button"
            tabIndex={index === entry ? 0 : -1}
            class={
              "token-row" +
              (mine ? " on" : "") +
              (pinned ? " pinned" : "") +
              (index >= text.real ? " padding" : "")
            }
            aria-pressed={pinned}
            data-rove
            data-test={"token-" + side}
            data-index={index}
            onPointerEnter={(e) =>
              e.pointerType !== "touch" && props.look({ side, index })
            }
            onPointerLeave={() => props.look(null)}
            onFocus={() => props.look({ side, index })}
            onBlur={() => props.look(null)}
            onClick={() => pin(index)}
          >
            <Numbers scene={scene} side={side} index={index} focus={focus} />
            <span class="index">{index}</span>
            <TokenLabel
              token={labels[index]}
              special={labels === text.labels && is_special(text, index)}
            />
          </button>
        );
      })}
    </div>
  );
}

// Up and down within a column, left and right across.
function walk(event: KeyboardEvent): void {
  const box = event.currentTarget as HTMLElement;
  const items = [...box.querySelectorAll<HTMLElement>("[data-rove]")];
  const at = items.indexOf(document.activeElement as HTMLElement);
  const over = box.parentElement!.querySelector<HTMLElement>(
    event.key === "ArrowRight" ? ".tokens.key" : ".tokens.row",
  );
  const next =
    event.key === "ArrowUp"
      ? items[at - 1]
      : event.key === "ArrowDown"
        ? items[at + 1]
        : event.key === "ArrowRight" || event.key === "ArrowLeft"
          ? over?.querySelectorAll<HTMLElement>("[data-rove]")[at]
          : undefined;
  if (!next) return;
  event.preventDefault();
  next.focus();
}

function Numbers({
  scene,
  side,
  index,
  focus,
}: {
  scene: HeadScene;
  side: "row" | "key";
  index: number;
  focus: Focus | null;
}) {
  // Their space is reserved when there are none, so that no token moves under the pointer.
  if (!focus || focus.side === side) return <span class="numbers" />;
  const row = side === "key" ? focus.index : index;
  const key = side === "key" ? index : focus.index;
  return (
    <span class="numbers">
      {scene.heads.map((h) => {
        const w = h.at(row, key);
        const masked = is_masked(scene.role, row, key);
        return (
          <span
            key={h.head}
            class="number"
            title={masked ? `hidden: ${masked}` : undefined}
            data-test="weight"
            data-row={row}
            data-key={key}
            data-head={h.head}
            data-number={w}
            style={{
              "--chip": head_colour(h.head, theme.value),
              "--much": `${Math.round(Math.abs(w) * 35)}%`,
            }}
          >
            {masked ? "–" : weight_text(w)}
          </span>
        );
      })}
    </span>
  );
}
