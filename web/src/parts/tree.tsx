import { count, seconds } from "../format";
import { cumulative, tokens, type Trace } from "../trace";

/** The tree of contexts, with a lane each that shows when it was at work. */
export function Tree(props: { trace: Trace; over: boolean; selected: string; onSelect: (id: string) => void }) {
  const { trace } = props;
  const total = Math.max(trace.duration, 1e-6);
  return (
    <nav class="tree" aria-label="Contexts">
      {trace.order.map((context) => {
        const end = context.closed ?? trace.duration;
        const left = (context.opened / total) * 100;
        const width = Math.max(0.8, ((end - context.opened) / total) * 100);
        const own = tokens(context.usage);
        const all = tokens(cumulative(context));
        const working = context.closed === null && !props.over;
        return (
          <button
            key={context.id}
            class={`branch role-${context.role} ${props.selected === context.id ? "selected" : ""}`}
            aria-current={props.selected === context.id}
            style={{ paddingLeft: `${14 + context.depth * 18}px` }}
            onClick={() => props.onSelect(context.id)}
          >
            <span class="name">
              <b>{context.role || "context"}</b> <code>{context.id}</code>
              {working && <span class="dot" title="working" />}
              {context.troubles > 0 && <span class="chip warn" title="errors, retries and limits">{context.troubles}</span>}
              {context.forced && <span class="chip warn">forced</span>}
            </span>
            <span class="task">{context.task}</span>
            <span class="lane" aria-hidden="true">
              <span style={{ left: `${left}%`, width: `${Math.min(width, 100 - left)}%` }} />
            </span>
            <small title="tokens of its own, and with all below it">
              {count(own)} tokens{all !== own && ` (${count(all)} with its sub-tasks)`} · {seconds(end - context.opened)}
            </small>
          </button>
        );
      })}
    </nav>
  );
}
