import { count, seconds } from "../format";
import { cumulative, type Trace } from "../trace";
import type { Usage } from "../types";

const COLUMNS: [keyof Usage, string][] = [
  ["prompt_tokens", "read"],
  ["cached_tokens", "of it cached"],
  ["completion_tokens", "written"],
  ["model_calls", "calls"],
  ["searches", "searches"],
  ["tool_calls", "tools"],
  ["seconds", "time"],
  ["cost", "cost"],
];

const show = (usage: Usage, key: keyof Usage): string => {
  const value = usage[key] ?? 0;
  if (key === "seconds") return seconds(value);
  if (key === "cost") return value ? value.toFixed(4) : "–";
  return value ? count(value) : "–";
};

/** What each context cost, by itself and with all below it. */
export function Costs(props: { trace: Trace; usage?: Usage; selected: string; onSelect: (id: string) => void }) {
  const columns = COLUMNS.filter(([key]) => props.trace.order.some((context) => context.usage[key]) || props.usage?.[key]);
  return (
    <div class="table bare" tabIndex={0} role="region" aria-label="Costs by context">
      <table>
        <thead>
          <tr><th scope="col">tokens, calls and time</th>{columns.map(([key, name]) => <th key={key} scope="col" class="number">{name}</th>)}</tr>
        </thead>
        <tbody>
          {props.trace.order.map((context) => {
            const all = cumulative(context);
            return (
              <tr key={context.id} class={props.selected === context.id ? "selected" : ""}>
                <th scope="row" style={{ paddingLeft: `${1 + context.depth * 1.1}rem` }}>
                  <button class="text-link" onClick={() => props.onSelect(context.id)}>{context.role} {context.id}</button>
                </th>
                {columns.map(([key]) => (
                  <td key={key} class="number">
                    {show(context.usage, key)}
                    {context.children.length > 0 && key !== "seconds" && show(all, key) !== show(context.usage, key) && (
                      <small title="with all below it">{show(all, key)} in all</small>
                    )}
                  </td>
                ))}
              </tr>
            );
          })}
          {props.usage && (
            <tr class="sum">
              <th scope="row">the episode</th>
              {columns.map(([key]) => <td key={key} class="number">{show(props.usage!, key)}</td>)}
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}
