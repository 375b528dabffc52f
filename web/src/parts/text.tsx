import { count } from "../format";
import type { Context } from "../trace";
import type { Segment } from "../types";
import { Notice, Tagged } from "./common";

const NAMES = { prompt: "was told", agent: "wrote", env: "was shown" };

/** Exactly what the model in this context saw and wrote, stretch by stretch. */
export function ContextText(props: { context: Context }) {
  const { context } = props;
  const stored = context.trajectory?.segments;
  const segments: Segment[] = stored ?? fromEvents(context);
  return (
    <div class="scroll">
      {!stored && (
        <Notice>
          The exact context is stored when an episode has ended. Until then: its prompt and what it wrote.
        </Notice>
      )}
      {segments.map((segment, i) => (
        <section key={i} class={`segment ${segment.kind}`}>
          <h3>
            {NAMES[segment.kind]}
            <small>
              {segment.role && `${segment.role} · `}
              {segment.tokens ? `${count(segment.tokens)} tokens` : `${count(segment.text.length)} characters`}
            </small>
          </h3>
          <pre><Tagged text={segment.text} /></pre>
        </section>
      ))}
      {(context.trajectory?.format_errors ?? []).map((problem, i) => (
        <Notice key={i} kind="error">Format: {problem}</Notice>
      ))}
    </div>
  );
}

function fromEvents(context: Context): Segment[] {
  const prompt: Segment[] = context.prompt.map((m) => ({ kind: "prompt", text: m.content, role: m.role }));
  const turns = context.events.filter((e) => e.kind === "turn");
  return [...prompt, ...turns.map((e): Segment => ({ kind: "agent", text: e.data?.text ?? "" }))];
}
