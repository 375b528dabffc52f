import { useState } from "preact/hooks";
import { figure } from "../format";
import { Chip } from "./common";

const W = 300;
const H = 110;
const X = 4;
const Y = 6;

export interface Series {
  name: string;
  points: [number, number][];
}

/** Curves of a group: those that move are drawn, of the others the number is told. */
export function Curves(props: { names: string[]; series: (name: string) => Series[] }) {
  const values = (name: string) => props.series(name).flatMap((one) => one.points.map((p) => p[1])).filter(Number.isFinite);
  const moving = props.names.filter((name) => new Set(values(name)).size > 1);
  const still = props.names.filter((name) => !moving.includes(name) && values(name).length);
  return (
    <>
      {moving.length > 0 && <div class="curves">{moving.map((name) => <Chart key={name} name={name} series={props.series(name)} />)}</div>}
      {still.length > 0 && (
        <p class="facts still">
          <small>Not moving</small>
          {still.map((name) => <Chip key={name} label={name}>{figure(values(name)[0])}</Chip>)}
        </p>
      )}
    </>
  );
}

/** Numbers of one or more runs over their steps; the pointer reads them off. */
function Chart(props: { name: string; series: Series[] }) {
  const [at, setAt] = useState<number | null>(null);
  const series = props.series.map((one) => ({ ...one, points: one.points.filter((p) => Number.isFinite(p[1])) })).filter((one) => one.points.length);
  if (!series.length) return null;
  const every = series.flatMap((one) => one.points);
  const xs = every.map((p) => p[0]);
  const ys = every.map((p) => p[1]);
  const [x0, x1, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const pad = (high - low || Math.abs(high) || 1) * 0.06;
  const [y0, y1] = [low - pad, high + pad];
  const x = (v: number) => X + ((v - x0) / (x1 - x0 || 1)) * (W - 2 * X);
  const y = (v: number) => H - Y - ((v - y0) / (y1 - y0 || 1)) * (H - 2 * Y);
  const shown = at == null ? x1 : at;
  const near = (points: [number, number][]) =>
    points.reduce((best, p) => (Math.abs(p[0] - shown) < Math.abs(best[0] - shown) ? p : best), points[0]!);
  return (
    <figure class="curve">
      <figcaption>
        {props.name}
        <span class="values">
          {series.map((one, i) => <b key={one.name} class={`line-${i % 5}`} title={one.name}>{figure(near(one.points)[1])}</b>)}
        </span>
      </figcaption>
      <svg
        viewBox={`0 0 ${W} ${H}`}
        role="img"
        aria-label={`${props.name}: ${series.map((one) => `${one.name} from ${figure(one.points[0]![1])} to ${figure(one.points[one.points.length - 1]![1])}`).join(", ")}`}
        onPointerMove={(e) => {
          const box = e.currentTarget.getBoundingClientRect();
          const part = Math.min(1, Math.max(0, ((e.clientX - box.left) / box.width) * W - X) / (W - 2 * X));
          setAt(x0 + part * (x1 - x0));
        }}
        onPointerLeave={() => setAt(null)}
      >
        <line class="axis" x1={X} x2={W - X} y1={H - Y} y2={H - Y} />
        {low < 0 && high > 0 && <line class="zero" x1={X} x2={W - X} y1={y(0)} y2={y(0)} />}
        {series.map((one, i) => (
          <g key={one.name} class={`line-${i % 5}`}>
            {one.points.length > 1 && <polyline points={one.points.map((p) => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(" ")} />}
            <circle cx={x(near(one.points)[0])} cy={y(near(one.points)[1])} r={3} />
          </g>
        ))}
      </svg>
      <small><span>{figure(low)} to {figure(high)}</span><span>step {at == null ? `${x0} to ${x1}` : near(series[0]!.points)[0]}</span></small>
    </figure>
  );
}

const DECISIVE = ["reward", "dev_em", "dev_f1", "dev_judge", "dev_reward", "dev_loss"];

/** The curves that say whether a model learns, reward first, and the others. */
export function decisive(names: string[]): [string[], string[]] {
  return [DECISIVE.filter((name) => names.includes(name)), names.filter((name) => !DECISIVE.includes(name))];
}

const GROUPS: [string, RegExp][] = [
  ["Reward", /^reward/],
  ["Answers", /^(dev|em$|f1$|forced|failed|cem)/],
  ["Policy", /(loss|kl|entropy|ratio|clip|gradient|mismatch|learning_rate|packed)/],
  ["Time", /seconds/],
];

/** Names of curves in groups, in an order that tells a healthy run from a sick one at a glance. */
export function grouped(names: string[]): [string, string[]][] {
  const out = new Map<string, string[]>([...GROUPS.map(([name]) => [name, []] as [string, string[]]), ["Rollouts", []]]);
  for (const name of names) out.get(GROUPS.find(([, pattern]) => pattern.test(name))?.[0] ?? "Rollouts")!.push(name);
  out.get("Policy")!.sort((a, b) => Number(/loss/.test(b)) - Number(/loss/.test(a)));
  const order = ["Reward", "Answers", "Policy", "Rollouts", "Time"];
  return order.map((name) => [name, out.get(name)!] as [string, string[]]).filter(([, found]) => found.length);
}
