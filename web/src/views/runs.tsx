import { useState } from "preact/hooks";
import { get } from "../api";
import { count, figure, plural, when } from "../format";
import { Notice, Select, useLoaded } from "../parts/common";
import { RunStatus } from "../parts/run-status";
import { Tick, Together, toggled } from "../parts/tick";
import { link } from "../router";
import type { Run } from "../types";

type Column = "name" | "kind" | "data" | "model" | "score" | "status" | "created";

const TITLES: Record<Column, string> = {
  name: "Run", kind: "Kind", data: "Data", model: "Model", score: "Score", status: "Status", created: "Begun",
};
const KINDS: Record<string, string> = { evaluation: "evaluation", training: "training", asked: "asked here" };

/** What a column is sorted by; runs that have nothing there come last. */
const KEYS: Record<Column, (run: Run) => string | number | null> = {
  name: (run) => run.name.toLowerCase(),
  kind: (run) => KINDS[run.kind ?? ""] ?? null,
  data: (run) => run.data?.join(", ").toLowerCase() || null,
  model: (run) => run.models?.join(", ").toLowerCase() || null,
  score: (run) => run.score?.value ?? null,
  status: (run) => run.status ?? null,
  created: (run) => run.created,
};

function sorted(runs: Run[], column: Column, down: boolean): Run[] {
  const key = KEYS[column];
  return [...runs].sort((a, b) => {
    const x = key(a), y = key(b);
    if (x == null || y == null) return Number(x == null) - Number(y == null);
    return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
  });
}

export function Runs() {
  const { data, error } = useLoaded(() => get<{ runs: Run[] }>("/api/runs"), []);
  const [chosen, setChosen] = useState<string[]>([]);
  const [column, setColumn] = useState<Column>("created");
  const [down, setDown] = useState(true);
  const [kind, setKind] = useState("");
  if (error) return <Notice error={error} />;
  if (!data) return <Notice>Loading…</Notice>;
  if (!data.runs.length)
    return (
      <>
        <h1 class="hidden">Runs</h1>
        <Notice>
          <span>
            No runs yet. <a href="#/ask">Ask a question</a>, evaluate a system with <code>subquest eval</code>, or train a model with{" "}
            <code>subquest train</code>: what they store in the runs folder is listed here.
          </span>
        </Notice>
      </>
    );
  const kinds = [...new Set(data.runs.map((run) => run.kind ?? ""))].filter(Boolean);
  const runs = sorted(data.runs.filter((run) => !kind || run.kind === kind), column, down);
  const sort = (name: Column) => {
    setDown(name === column ? !down : name === "created" || name === "score");
    setColumn(name);
  };
  return (
    <div class="page wide">
      <div class="find">
        <h1>Runs</h1>
        <span class="row">
          {kinds.length > 1 && <Select label="Kind" value={kind} options={["", ...kinds]} onChange={setKind} />}
          <Together chosen={chosen} what="runs" href={link(["compare"], { runs: chosen.join(",") })} />
        </span>
      </div>
      <table class="stacked runs">
        <caption class="hidden">Runs; a column's title sorts by it</caption>
        <thead>
          <tr>
            <th scope="col"><span class="hidden">Compare</span></th>
            {(Object.keys(TITLES) as Column[]).map((name) => (
              <th key={name} scope="col" class={name === "score" ? "number" : ""} aria-sort={name === column ? (down ? "descending" : "ascending") : "none"}>
                <button onClick={() => sort(name)}>{TITLES[name]}<span class="arrow" aria-hidden="true">{name === column ? (down ? "↓" : "↑") : ""}</span></button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <Row key={run.name} run={run} ticked={chosen.includes(run.name)} onTick={data.runs.length > 1 ? () => setChosen(toggled(chosen, run.name)) : undefined} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row(props: { run: Run; ticked: boolean; onTick?: () => void }) {
  const { run } = props;
  return (
    <tr>
      <td class="tick-cell">{!run.error && props.onTick && <Tick label={`Compare ${run.name}`} on={props.ticked} onChange={props.onTick} />}</td>
      <th scope="row">
        <a href={link(["runs", run.name])}>{run.name}</a>
        {!run.error && <small>{plural(run.episodes, "episode")}{run.systems?.length ? ` · ${run.systems.join(", ")}` : ""}</small>}
      </th>
      {run.error ? (
        <td colSpan={5} class="broken"><span class="chip bad">cannot be read</span> <small>{run.error}</small></td>
      ) : (
        <>
          <td>{KINDS[run.kind ?? ""]}</td>
          <td>{run.data?.join(", ")}</td>
          <td>{run.models?.filter(Boolean).join(", ")}</td>
          <td class="number score"><Score run={run} /></td>
          <td><RunStatus run={run} /></td>
        </>
      )}
      <td>{when(run.created)}</td>
    </tr>
  );
}

/** The decisive figure with its interval, and what it is: "0.625 (0.250 to 0.875), em of coda". */
function Score(props: { run: Run }) {
  const { score, systems, step, steps } = props.run;
  if (!score) return null;
  const whose = score.system && (systems?.length ?? 0) > 1 ? ` of ${score.system}` : "";
  const how = score.low != null ? `${figure(score.low)} to ${figure(score.high)}` : step ? `step ${count(step)}${steps ? ` of ${count(steps)}` : ""}` : "";
  return (
    <>
      <b>{figure(score.value)}</b> <i>{score.metric.replace("_", " ")}{whose}</i>
      {how && <small>{how}</small>}
    </>
  );
}
