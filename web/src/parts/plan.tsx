import type { Context, Trace } from "../trace";

const WIDTH = 236;
const GAP_X = 44;
const HEIGHT = 100;
const GAP_Y = 14;

interface Node {
  context: Context;
  x: number;
  y: number;
  parent?: Node;
}

/** Contexts in columns by depth; a parent stands in the middle of its children. */
function layout(trace: Trace): { nodes: Node[]; width: number; height: number } {
  const nodes: Node[] = [];
  let row = 0;
  const place = (context: Context, parent?: Node): Node => {
    const node: Node = { context, x: context.depth * (WIDTH + GAP_X), y: 0, parent };
    nodes.push(node);
    const children = context.children.map((child) => place(child, node));
    if (children.length) node.y = (children[0]!.y + children[children.length - 1]!.y) / 2;
    else node.y = row++ * (HEIGHT + GAP_Y);
    return node;
  };
  trace.roots.forEach((root) => place(root));
  const depth = Math.max(0, ...nodes.map((n) => n.context.depth));
  return { nodes, width: (depth + 1) * (WIDTH + GAP_X) - GAP_X, height: Math.max(1, row) * (HEIGHT + GAP_Y) };
}

/** The plan as it fills in: each box a context with its task, and, once it is there, its result. */
export function Plan(props: { trace: Trace; over: boolean; selected?: string; onSelect: (id: string) => void }) {
  const { nodes, width, height } = layout(props.trace);
  return (
    <div class="plan" role="group" aria-label="Plan">
      <div class="canvas" style={{ width: `${width}px`, height: `${height}px` }}>
        <svg width={width} height={height} aria-hidden="true">
          {nodes.map(({ parent, context, x, y }) => {
            if (!parent) return null;
            const x0 = parent.x + WIDTH;
            const y0 = parent.y + HEIGHT / 2;
            const y1 = y + HEIGHT / 2;
            const mid = (x0 + x) / 2;
            return <path key={context.id} d={`M${x0} ${y0}C${mid} ${y0} ${mid} ${y1} ${x} ${y1}`} />;
          })}
        </svg>
        {nodes.map(({ context, x, y }) => {
          const working = context.closed === null && !props.over;
          const state = working ? "working" : context.troubles ? "troubled" : "done";
          const latest = context.events.findLast((e) => e.kind === "search");
          return (
            <button
              key={context.id}
              class={`node ${state} ${props.selected === context.id ? "selected" : ""}`}
              style={{ left: `${x}px`, top: `${y}px`, width: `${WIDTH}px`, height: `${HEIGHT}px` }}
              title={context.task}
              onClick={() => props.onSelect(context.id)}
            >
              <span class="role">
                <span class="dot" aria-hidden="true" />
                {context.role || "context"} {context.id}
                <em>{working ? "working" : context.stopReason === "answered" ? "" : context.stopReason}</em>
              </span>
              <span class="task">{context.task}</span>
              <span class="result">
                {context.result || (latest && working ? `searching: ${latest.data?.queries?.[0] ?? ""}` : "")}
              </span>
            </button>
          );
        })}
      </div>
    </div>
  );
}
