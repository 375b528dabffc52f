import { useState } from "preact/hooks";
import { figure } from "../format";

/** Columns that come first, then those of the price; of the others those are left out that are nothing for everybody. */
const FIRST = ["n", "em", "f1", "cem", "judge"];
const PRICE = ["prompt_tokens", "completion_tokens", "searches", "seconds", "cost"];

type Cell = Record<string, number | null>;

/** Results with their intervals: a row a system or a run, a column a metric. */
export function ResultTable(props: { dataset: string; rows: Record<string, Cell> }) {
  const [all, setAll] = useState(false);
  const rows = Object.entries(props.rows);
  const found = [...new Set(rows.flatMap(([, cell]) => Object.keys(cell)))].filter((n) => !/_(low|high)$/.test(n));
  const told = found.filter((name) => FIRST.includes(name) || rows.some(([, cell]) => cell[name]));
  const intervals = told.filter((name) => rows.some(([, cell]) => cell[`${name}_low`] != null));
  const main = [...new Set([...FIRST, ...intervals, ...PRICE])].filter((name) => told.includes(name));
  const others = told.filter((name) => !main.includes(name));
  const names = all ? [...main, ...others] : main;
  return (
    <div class="table" tabIndex={0} role="region" aria-label={`Results on ${props.dataset || "questions"}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">{props.dataset || "questions"}</th>
            {names.map((name) => <th key={name} scope="col" class="number">{name.replaceAll("_", " ")}</th>)}
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, cell]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {names.map((metric) => (
                <td key={metric} class="number">
                  {figure(cell[metric])}
                  {cell[`${metric}_low`] != null && <small>{figure(cell[`${metric}_low`])} to {figure(cell[`${metric}_high`])}</small>}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {others.length > 0 && (
        <button class="text-link more" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? "Fewer columns" : `${others.length} more ${others.length === 1 ? "column" : "columns"}`}
        </button>
      )}
    </div>
  );
}
