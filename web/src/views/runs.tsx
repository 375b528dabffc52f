import { useState } from "preact/hooks";
import { get } from "../api";
import { count, figure, when } from "../format";
import { Ending, Notice, useLoaded } from "../parts/common";
import { Curve } from "../parts/curve";
import { link } from "../router";
import type { Page, Run } from "../types";

const PAGE = 50;

export function Runs() {
  const { data, error } = useLoaded(() => get<{ runs: Run[] }>("/api/runs"), []);
  if (error) return <Notice error={error} />;
  if (!data) return <Notice>Loading…</Notice>;
  if (!data.runs.length) return <Notice>No runs yet. <code>subquest eval</code> makes one; so does asking a question.</Notice>;
  return (
    <div class="page">
      <h1>Runs</h1>
      <ul class="list">
        {data.runs.map((run) => (
          <li key={run.name}>
            <a href={link(["runs", run.name])}>
              <b>{run.name}</b>
              <span class="facts">
                {run.error ? <span class="chip bad">{run.error}</span> : <span>{count(run.episodes)} episodes</span>}
                {run.interrupted ? <span class="chip warn">{count(run.interrupted)} interrupted</span> : null}
                <small>{when(run.created)}</small>
              </span>
            </a>
          </li>
        ))}
      </ul>
    </div>
  );
}

export function RunView(props: { run: string }) {
  const place = `/api/runs/${encodeURIComponent(props.run)}`;
  const [text, setText] = useState("");
  const [offset, setOffset] = useState(0);
  const about = useLoaded(() => get<Run>(place), [props.run]);
  const wanted = new URLSearchParams({ limit: String(PAGE), offset: String(offset), text });
  const page = useLoaded(() => get<Page>(`${place}/episodes?${wanted}`), [props.run, text, offset]);
  if (about.error) return <Notice error={about.error} />;
  if (!about.data) return <Notice>Loading…</Notice>;
  const run = about.data;
  return (
    <div class="page wide">
      <nav class="crumbs" aria-label="Where you are"><a href="#/runs">Runs</a></nav>
      <h1>{run.name}</h1>
      <p class="facts">
        <span>{count(run.episodes)} episodes</span>
        {run.interrupted ? <span class="chip warn">{count(run.interrupted)} interrupted</span> : null}
        <small>begun {when(run.created)}</small>
      </p>
      {Object.entries(run.table ?? {}).map(([dataset, systems]) => (
        <Table key={dataset} dataset={dataset} systems={systems} />
      ))}
      {Object.keys(run.curves ?? {}).length > 0 && (
        <section class="curves">
          {Object.entries(run.curves!).map(([name, points]) => <Curve key={name} name={name} points={points} />)}
        </section>
      )}
      <div class="find">
        <h2>Episodes</h2>
        <input
          type="search"
          aria-label="Search questions and answers"
          placeholder="Search questions and answers"
          value={text}
          onInput={(e) => {
            setText(e.currentTarget.value);
            setOffset(0);
          }}
        />
      </div>
      {page.error && <Notice error={page.error} />}
      {page.data && <Episodes run={props.run} page={page.data} />}
      {page.data && page.data.total > PAGE && (
        <p class="facts">
          <button class="quiet" disabled={offset === 0} onClick={() => setOffset(offset - PAGE)}>Newer</button>
          <small>{offset + 1} to {Math.min(offset + PAGE, page.data.total)} of {count(page.data.total)}</small>
          <button class="quiet" disabled={offset + PAGE >= page.data.total} onClick={() => setOffset(offset + PAGE)}>Older</button>
        </p>
      )}
    </div>
  );
}

function Episodes(props: { run: string; page: Page }) {
  const { page } = props;
  if (!page.episodes.length && !page.interrupted.length) return <Notice>No episodes here.</Notice>;
  return (
    <ul class="list">
      {page.interrupted.map((one) => (
        <li key={one.id}>
          <a href={link(["runs", props.run, one.id])}>
            <b>{one.question.question || one.id}</b>
            <span class="facts"><Ending ending="interrupted" /></span>
          </a>
        </li>
      ))}
      {page.episodes.map((one) => (
        <li key={one.id}>
          <a href={link(["runs", props.run, one.id])}>
            <b>{one.question}</b>
            <span class="facts">
              <span class="said">{one.answer || "no answer"}</span>
              {one.scores.em != null && <span class={`chip ${one.scores.em ? "good" : "bad"}`}>{one.scores.em ? "right" : "wrong"}</span>}
              {one.expected.length > 0 && !one.scores.em && <small>expected {one.expected[0]}</small>}
              {one.stop_reason !== "answered" && <Ending ending={one.stop_reason} forced={one.forced} />}
              <small>{one.system}</small>
            </span>
          </a>
        </li>
      ))}
    </ul>
  );
}

function Table(props: { dataset: string; systems: Record<string, Record<string, number | null>> }) {
  const rows = Object.entries(props.systems);
  const names = [...new Set(rows.flatMap(([, cell]) => Object.keys(cell)))].filter((n) => !/_(low|high)$/.test(n));
  return (
    <div class="table" tabIndex={0} role="region" aria-label={`Results on ${props.dataset || "questions"}`}>
      <table>
        <thead>
          <tr><th>{props.dataset || "questions"}</th>{names.map((name) => <th key={name} class="number">{name.replaceAll("_", " ")}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map(([system, cell]) => (
            <tr key={system}>
              <th scope="row">{system}</th>
              {names.map((name) => (
                <td key={name} class="number">
                  {figure(cell[name])}
                  {cell[`${name}_low`] != null && <small>{figure(cell[`${name}_low`])} – {figure(cell[`${name}_high`])}</small>}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
