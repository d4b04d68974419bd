// What the model expects at a pinned token: the word that fits a masked model's
// place, or what comes after it in a text that goes on.

import { useSignal } from "@preact/signals";
import { ask_json, source, useScene } from "./asking";
import { Problem } from "./controls";
import { percent_text } from "./numbers";
import { Candidate, Role, Run } from "./protocol";
import { TokenLabel } from "./token_label";

export function CandidatesHere({
  run,
  role,
  token,
}: {
  run: Run;
  role: Role;
  token: number;
}) {
  const open = useSignal(false);
  const predicts =
    role.row_side === "decoder" ? run.model.writes : run.model.fills;
  const key =
    open.value && predicts ? [run.run, role.row_side, token].join() : null;
  const { value, error } = useScene(key, async (signal) => ({
    key,
    ...(await ask_json<{ candidates: Candidate[] }>(
      "candidates",
      { run: run.run, side: role.row_side, position: token, top: 10 },
      signal,
    )),
  }));
  if (!predicts || !source.live) return null;
  return (
    <div class="candidates-here">
      <button
        type="button"
        class="quiet"
        aria-expanded={open.value}
        data-test="candidates-open"
        onClick={() => (open.value = !open.value)}
      >
        {run.model.fills && role.row_side === "encoder"
          ? "What fits here?"
          : "What comes next?"}
      </button>
      <Problem text={open.value ? error : ""} />
      {open.value && value?.key === key && (
        <table class="bars" data-test="candidates">
          <tbody>
            {value!.candidates.map((c) => (
              <tr key={c.id}>
                <td>
                  <TokenLabel token={c.label} />
                </td>
                <td class="number" data-test="candidate" data-number={c.p}>
                  {percent_text(c.p)}
                </td>
                <td class="bar-cell">
                  <span class="bar-fill" style={{ width: `${c.p * 100}%` }} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}
