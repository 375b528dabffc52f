import { figure } from "../format";

/** Columns that come first; of the others those are left out that are nothing for everybody. */
const FIRST = ["n", "em", "f1", "cem", "judge"];

type Cell = Record<string, number | null>;

/** Results with their intervals: a row a system or a run, a column a metric. */
export function ResultTable(props: { dataset: string; rows: Record<string, Cell> }) {
  const rows = Object.entries(props.rows);
  const found = [...new Set(rows.flatMap(([, cell]) => Object.keys(cell)))].filter((n) => !/_(low|high)$/.test(n));
  const told = found.filter((name) => FIRST.includes(name) || rows.some(([, cell]) => cell[name]));
  const names = [...FIRST.filter((name) => told.includes(name)), ...told.filter((name) => !FIRST.includes(name))];
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
    </div>
  );
}
