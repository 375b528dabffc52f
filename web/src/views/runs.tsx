import { useEffect, useState } from "preact/hooks";
import { get } from "../api";
import { count, plural, when } from "../format";
import { Curves, grouped } from "../parts/chart";
import { Ending, Notice, Select, useLoaded } from "../parts/common";
import { ResultTable } from "../parts/table";
import { link } from "../router";
import type { Curves as Points, Page, Run } from "../types";

const PAGE = 50;
const POLL = 3000;
const ALIVE = 60;
/** Seconds without a new point after which a run counts as over. */

const toggled = (all: string[], one: string): string[] => (all.includes(one) ? all.filter((x) => x !== one) : [...all, one]);

function kind(run: Run): string {
  if (run.settings?.recipe) return "training";
  return run.settings?.kind === "server" ? "asked here" : "evaluation";
}

export function Runs() {
  const { data, error } = useLoaded(() => get<{ runs: Run[] }>("/api/runs"), []);
  const [chosen, setChosen] = useState<string[]>([]);
  if (error) return <Notice error={error} />;
  if (!data) return <Notice>Loading…</Notice>;
  if (!data.runs.length) return <Notice>No runs yet. <code>subquest eval</code> makes one; so does asking a question.</Notice>;
  return (
    <div class="page">
      <div class="find">
        <h1>Runs</h1>
        <Together chosen={chosen} what="runs" href={link(["compare"], { runs: chosen.join(",") })} />
      </div>
      <ul class="list pick">
        {data.runs.map((run) => (
          <li key={run.name}>
            {!run.error && data.runs.length > 1 && (
              <Tick label={`Compare ${run.name}`} on={chosen.includes(run.name)} onChange={() => setChosen(toggled(chosen, run.name))} />
            )}
            <a href={link(["runs", run.name])}>
              <b>{run.name}</b>
              <span class="facts">
                {run.error ? <span class="chip bad">{run.error}</span> : <span>{plural(run.episodes, "episode")}</span>}
                {run.interrupted ? <span class="chip warn">{count(run.interrupted)} interrupted</span> : null}
                {!run.error && <span class="chip">{kind(run)}</span>}
                <small>{when(run.created)}</small>
              </span>
            </a>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Tick(props: { label: string; on: boolean; onChange: () => void }) {
  return <label class="tick-box"><input type="checkbox" aria-label={props.label} checked={props.on} onChange={props.onChange} /><span /></label>;
}

function Together(props: { chosen: string[]; what: string; href: string }) {
  if (!props.chosen.length) return null;
  if (props.chosen.length === 1) return <small>tick another to compare</small>;
  return <a class="primary" href={props.href}>Compare {props.chosen.length} {props.what}</a>;
}

/** A run's curves, which grow while the run goes on. */
function useCurves(place: string, first: Points | undefined): { curves: Points; grown: number; episodes: number } {
  const [state, setState] = useState({ curves: first ?? {}, grown: 0, episodes: -1 });
  useEffect(() => {
    let curves = first ?? {};
    setState({ curves, grown: 0, episodes: -1 });
    const timer = setInterval(async () => {
      if (document.hidden) return;
      const last = Math.max(-1, ...Object.values(curves).map((points) => points[points.length - 1]?.[0] ?? -1));
      const fresh = await get<{ curves: Points; episodes: number }>(`${place}/curves?after=${last}`).catch(() => null);
      if (!fresh) return;
      const gained = Object.keys(fresh.curves).length > 0;
      if (gained) {
        curves = { ...curves };
        for (const [name, points] of Object.entries(fresh.curves)) curves[name] = [...(curves[name] ?? []), ...points];
      }
      setState((known) => ({ curves, grown: gained ? Date.now() : known.grown, episodes: fresh.episodes }));
    }, POLL);
    return () => clearInterval(timer);
  }, [place, first]);
  return state;
}

export function RunView(props: { run: string }) {
  const place = `/api/runs/${encodeURIComponent(props.run)}`;
  const [text, setText] = useState("");
  const [system, setSystem] = useState("");
  const [ending, setEnding] = useState("");
  const [offset, setOffset] = useState(0);
  const [chosen, setChosen] = useState<string[]>([]);
  const about = useLoaded(() => get<Run>(place), [props.run]);
  const live = useCurves(place, about.data?.curves);
  const wanted = new URLSearchParams({ limit: String(PAGE), offset: String(offset), text, system, ending });
  const page = useLoaded(() => get<Page>(`${place}/episodes?${wanted}`), [props.run, text, system, ending, offset, live.episodes]);
  if (about.error) return <Notice error={about.error}><a href="#/runs">All runs</a></Notice>;
  if (!about.data) return <Notice>Loading…</Notice>;
  const run = about.data;
  const systems = [...new Set(Object.values(run.table ?? {}).flatMap((rows) => Object.keys(rows)))];
  const names = Object.keys(live.curves);
  const first = (change: () => void) => {
    change();
    setOffset(0);
  };
  return (
    <div class="page wide">
      <nav class="crumbs" aria-label="Where you are"><a href="#/runs">Runs</a></nav>
      <h1>{run.name}</h1>
      <p class="facts">
        <span class="chip">{kind(run)}</span>
        <span>{plural(live.episodes >= 0 ? live.episodes : run.episodes, "episode")}</span>
        {run.interrupted ? <span class="chip warn">{count(run.interrupted)} interrupted</span> : null}
        {live.grown > 0 && Date.now() - live.grown < ALIVE * 1000 && <span class="chip busy"><span class="dot pulsing" /> live</span>}
        <small>begun {when(run.created)}</small>
      </p>
      {Object.entries(run.table ?? {}).map(([dataset, rows]) => <ResultTable key={dataset} dataset={dataset} rows={rows} />)}
      {grouped(names).map(([group, found]) => (
        <section key={group}>
          <h2>{group}</h2>
          <Curves names={found} series={(name) => [{ name: run.name, points: live.curves[name]! }]} />
        </section>
      ))}
      <section>
        <div class="find">
          <h2>Episodes</h2>
          <span class="row">
            {systems.length > 1 && <Select label="System" value={system} options={["", ...systems]} onChange={(value) => first(() => setSystem(value))} />}
            <Select label="Ending" value={ending} options={["", "answered", "forced", "abstained", "failed", "cancelled", "interrupted"]} onChange={(value) => first(() => setEnding(value))} />
            <input
              type="search"
              aria-label="Search questions and answers"
              placeholder="Search questions and answers"
              value={text}
              onInput={(e) => {
                const value = e.currentTarget.value;
                first(() => setText(value));
              }}
            />
            <Together chosen={chosen} what="episodes" href={link(["compare"], { e: chosen.map((id) => `${props.run}/${id}`).join(",") })} />
          </span>
        </div>
        {page.error && <Notice error={page.error} />}
        {page.data && <Episodes run={props.run} page={page.data} chosen={chosen} onChoose={(id) => setChosen(toggled(chosen, id))} />}
        {page.data && page.data.total > PAGE && (
          <p class="facts">
            <button class="quiet" disabled={offset === 0} onClick={() => setOffset(offset - PAGE)}>Newer</button>
            <small>{offset + 1} to {Math.min(offset + PAGE, page.data.total)} of {count(page.data.total)}</small>
            <button class="quiet" disabled={offset + PAGE >= page.data.total} onClick={() => setOffset(offset + PAGE)}>Older</button>
          </p>
        )}
      </section>
    </div>
  );
}

function Episodes(props: { run: string; page: Page; chosen: string[]; onChoose: (id: string) => void }) {
  const { page } = props;
  if (!page.episodes.length && !page.interrupted.length) return <Notice>No episodes here.</Notice>;
  return (
    <ul class="list pick">
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
          <Tick label={`Compare: ${one.question}`} on={props.chosen.includes(one.id)} onChange={() => props.onChoose(one.id)} />
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
