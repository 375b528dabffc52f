import { figure } from "../format";

const W = 260;
const H = 84;

/** One number of a run over its steps. */
export function Curve(props: { name: string; points: [number, number][] }) {
  const { points } = props;
  const xs = points.map((p) => p[0]);
  const ys = points.map((p) => p[1]).filter(Number.isFinite);
  const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const x = (v: number) => 2 + ((v - x0) / (x1 - x0 || 1)) * (W - 4);
  const y = (v: number) => H - 4 - ((v - y0) / (y1 - y0 || 1)) * (H - 8);
  const line = points.filter((p) => Number.isFinite(p[1])).map((p) => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`);
  return (
    <figure class="curve">
      <figcaption>{props.name} <b>{figure(points[points.length - 1]?.[1])}</b></figcaption>
      <svg viewBox={`0 0 ${W} ${H}`} role="img" aria-label={`${props.name} from ${figure(points[0]?.[1])} to ${figure(points[points.length - 1]?.[1])}`}>
        <polyline points={line.join(" ")} />
      </svg>
      <small><span>{figure(y0)} – {figure(y1)}</span><span>step {x0} – {x1}</span></small>
    </figure>
  );
}
