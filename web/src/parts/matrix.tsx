import { useState } from "preact/hooks";
import { get } from "../api";
import { count } from "../format";
import { link } from "../router";
import type { Cell, Matrix as MatrixPage } from "../types";
import { PARTS } from "./answer";
import { Notice, Select, useLoaded } from "./common";

const PAGE = 50;
const FILTERS = { "": "All", wrong: "Wrong", differs: "Systems differ" } as const;
type Filter = keyof typeof FILTERS;

const SIGNS: Record<Cell["verdict"], [string, string]> = {
  right: ["good", "✓"], wrong: ["bad", "✗"], failed: ["warn", "!"], unscored: ["", "–"],
};

/** An evaluation: a row a question, a column a system; a cell opens the trace. */
export function Matrix(props: { run: string; grown: number }) {
  const [only, setOnly] = useState<Filter>("");
  const [dataset, setDataset] = useState("");
  const [text, setText] = useState("");
  const [offset, setOffset] = useState(0);
  const query = new URLSearchParams({ only, dataset, text, offset: String(offset), limit: String(PAGE) });
  const { data, error } = useLoaded(
    () => get<MatrixPage>(`/api/runs/${encodeURIComponent(props.run)}/questions?${query}`),
    [props.run, only, dataset, text, offset, props.grown],
  );
  if (error) return <Notice error={error} />;
  if (!data) return null;
  const first = (change: () => void) => {
    change();
    setOffset(0);
  };
  const filters = (Object.keys(FILTERS) as Filter[]).filter((name) => name !== "differs" || data.systems.length > 1);
  return (
    <section>
      <div class="find">
        <h2>Questions</h2>
        <span class="row">
          <span class="switch" role="group" aria-label="Which questions">
            {filters.map((name) => (
              <button key={name} aria-pressed={only === name} onClick={() => first(() => setOnly(name))}>{FILTERS[name]} <i>{count(data.counts[name])}</i></button>
            ))}
          </span>
          {data.datasets.length > 1 && <Select label="Data" value={dataset} options={["", ...data.datasets]} onChange={(value) => first(() => setDataset(value))} />}
          <input
            type="search"
            aria-label="Search questions"
            placeholder="Search questions"
            value={text}
            onInput={(e) => {
              const value = e.currentTarget.value;
              first(() => setText(value));
            }}
          />
        </span>
      </div>
      {data.rows.length === 0 ? (
        <Notice>{only === "wrong" && !text ? "No wrong answers here." : only === "differs" && !text ? "The systems agree on all of these questions." : "No question matches."}</Notice>
      ) : (
        <table class="stacked matrix">
          <caption class="hidden">Answers by question and system</caption>
          <thead>
            <tr>
              <th scope="col">Question</th>
              {data.systems.map((system) => <th key={system} scope="col">{system}</th>)}
            </tr>
          </thead>
          <tbody>
            {data.rows.map((row) => (
              <tr key={`${row.dataset}/${row.id}`}>
                <th scope="row">
                  {row.question}
                  {row.expected.length > 0 && <small>expected {row.expected.join(" or ")}</small>}
                </th>
                {data.systems.map((system) => <td key={system} data-label={system}><Answered run={props.run} system={system} cell={row.cells[system]} /></td>)}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {data.total > PAGE && (
        <p class="facts pages">
          <button class="quiet" disabled={offset === 0} onClick={() => setOffset(offset - PAGE)}>Previous</button>
          <small>{count(offset + 1)} to {count(Math.min(offset + PAGE, data.total))} of {count(data.total)}</small>
          <button class="quiet" disabled={offset + PAGE >= data.total} onClick={() => setOffset(offset + PAGE)}>Next</button>
        </p>
      )}
    </section>
  );
}

function Answered(props: { run: string; system: string; cell?: Cell }) {
  const { cell } = props;
  if (!cell) return <small>not asked</small>;
  const [tone, sign] = SIGNS[cell.verdict];
  return (
    <a class="verdict" href={link(["runs", props.run, cell.episode])}>
      <span class={`chip ${tone}`}><span aria-hidden="true">{sign}</span> {cell.verdict}</span>
      {cell.unsupported && <span class="chip warn">unsupported</span>}
      {cell.parts && <span class="chip" title={PARTS}>parts supported</span>}
      <span class="said">{cell.answer || "no answer"}</span>
    </a>
  );
}
