import { seconds } from "../format";
import type { Context, Trace } from "../trace";

const LEFT = 116;
const ROW = 26;
const WIDTH = 960;

interface Lane {
  role: string;
  rows: Context[][];
}

/** Contexts of a role that overlap in time go to rows of their own. */
function lanes(trace: Trace): Lane[] {
  const byRole = new Map<string, Context[][]>();
  for (const context of [...trace.order].sort((a, b) => a.opened - b.opened)) {
    const rows = byRole.get(context.role) ?? [];
    byRole.set(context.role, rows);
    const free = rows.find((row) => end(row[row.length - 1]!, trace) <= context.opened + 1e-9);
    if (free) free.push(context);
    else rows.push([context]);
  }
  return [...byRole].map(([role, rows]) => ({ role: role || "context", rows }));
}

const end = (context: Context, trace: Trace) => context.closed ?? trace.duration;

/** Who was at work when: a lane a role, a bar a context, with its model calls, searches and troubles in it. */
export function Lanes(props: { trace: Trace; selected: string; onSelect: (id: string) => void }) {
  const { trace } = props;
  const total = Math.max(trace.duration, 1e-6);
  const x = (time: number) => LEFT + (Math.min(time, total) / total) * (WIDTH - LEFT - 8);
  const found = lanes(trace);
  let top = 32;
  const height = top + found.reduce((sum, lane) => sum + lane.rows.length * ROW + 10, 0);
  return (
    <div class="scroll">
      <div class="lanes" tabIndex={0} role="region" aria-label="Timeline">
        <svg viewBox={`0 0 ${WIDTH} ${height}`} style={{ minWidth: "42rem" }} role="group" aria-label="Contexts over time by role">
          {[0, 0.25, 0.5, 0.75, 1].map((part) => (
            <g key={part} class="tick">
              <line x1={x(part * total)} x2={x(part * total)} y1={24} y2={height} />
              <text x={x(part * total)} y={14} text-anchor={part === 0 ? "start" : part === 1 ? "end" : "middle"}>{seconds(part * total)}</text>
            </g>
          ))}
          {found.map((lane, place) => {
            const y = top;
            top += lane.rows.length * ROW + 10;
            return (
              <g key={lane.role} class={`lane-of tone-${place % 5}`}>
                <text class="name" x={0} y={y + 16}>{lane.role}</text>
                {lane.rows.map((row, at) => row.map((context) => (
                  <Bar key={context.id} context={context} y={y + at * ROW} x={x} end={end(context, trace)} selected={props.selected === context.id} onSelect={props.onSelect} />
                )))}
              </g>
            );
          })}
        </svg>
      </div>
      <p class="legend">
        <span><i class="key model" /> model at work</span>
        <span><i class="key search" /> search</span>
        <span><i class="key trouble" /> error, retry or limit</span>
      </p>
    </div>
  );
}

function Bar(props: { context: Context; y: number; x: (time: number) => number; end: number; selected: boolean; onSelect: (id: string) => void }) {
  const { context, y, x } = props;
  const left = x(context.opened);
  const width = Math.max(3, x(props.end) - left);
  const about = `${context.role} ${context.id}: ${context.task}, ${seconds(props.end - context.opened)}`;
  return (
    <g
      class={`bar-of ${props.selected ? "selected" : ""}`}
      role="button"
      tabIndex={0}
      aria-label={about}
      onClick={() => props.onSelect(context.id)}
      onKeyDown={(e) => (e.key === "Enter" || e.key === " ") && (e.preventDefault(), props.onSelect(context.id))}
    >
      <title>{about}</title>
      <rect class="whole" x={left} y={y} width={width} height={ROW - 4} rx={4} />
      {context.events.map((event) => {
        if (event.kind === "turn") {
          const from = x(Math.max(context.opened, event.time - (event.data?.usage?.seconds ?? 0)));
          return <rect key={event.seq} class="model" x={from} y={y + 3} width={Math.max(1.5, x(event.time) - from)} height={ROW - 10} rx={2} />;
        }
        if (event.kind === "search") return <circle key={event.seq} class="search" cx={x(event.time)} cy={y + (ROW - 4) / 2} r={3.5} />;
        if (["error", "retry", "limit"].includes(event.kind))
          return <path key={event.seq} class="trouble" d={`M${x(event.time)} ${y + 5}l5.5 10h-11z`} />;
        return null;
      })}
    </g>
  );
}
