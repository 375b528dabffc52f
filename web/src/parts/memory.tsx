import { useState } from "preact/hooks";
import { count, seconds } from "../format";
import { memory, type Trace } from "../trace";
import { Notice } from "./common";

const WORDS: Record<string, string> = {
  add: "added", nothing: "nothing added", compress: "compressed", drop: "dropped", recall: "recalled",
};

/** The shared memory over time: every change, and what the memory held after it. */
export function Memory(props: { trace: Trace }) {
  const states = memory(props.trace.events);
  const [chosen, setChosen] = useState<number | null>(null);
  if (!states.length) return <div class="scroll"><Notice>This episode kept no shared memory.</Notice></div>;
  const at = Math.min(chosen ?? states.length - 1, states.length - 1);
  const state = states[at]!;
  const most = Math.max(...states.map((one) => one.entries.length), 1);
  const recall = state.action === "recall";
  return (
    <div class="scroll memory">
      <div class="changes" role="group" aria-label="Changes of the memory">
        {states.map((one, i) => (
          <button key={one.event.seq} class={i === at ? "selected" : ""} aria-pressed={i === at} onClick={() => setChosen(i)}>
            <span class="fill" style={{ height: `${12 + (one.entries.length / most) * 44}px` }} />
            <b>{one.entries.length}</b>
            <small>{WORDS[one.action] ?? one.action}</small>
          </button>
        ))}
      </div>
      <h3>
        {WORDS[state.action] ?? state.action} after {seconds(state.event.time)}
        <small>
          {count(state.entries.length)} {state.entries.length === 1 ? "entry" : "entries"}
          {state.tokens != null && ` · ${count(state.tokens)} tokens`}
        </small>
      </h3>
      {recall && <p class="expected">Recalled for: {state.event.data?.task}</p>}
      <ol class="entries">
        {state.entries.map((entry, i) => (
          <li key={i} class={state.fresh.has(entry) ? "fresh" : ""}>
            {entry}
            {state.fresh.has(entry) && <span class={`chip ${recall ? "busy" : "good"}`}>{recall ? "recalled" : "new"}</span>}
          </li>
        ))}
        {state.gone.map((entry, i) => <li key={`gone${i}`} class="gone"><del>{entry}</del> <span class="chip warn">gone</span></li>)}
      </ol>
    </div>
  );
}
