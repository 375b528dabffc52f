import { useEffect, useState } from "preact/hooks";
import { get } from "../api";
import { count, figure, plural, when } from "../format";
import { Curves, decisive, grouped } from "../parts/chart";
import { Ending, Notice, Select, useLoaded } from "../parts/common";
import { Matrix } from "../parts/matrix";
import { RunStatus } from "../parts/run-status";
import { ResultTable } from "../parts/table";
import { Tick, Together, toggled } from "../parts/tick";
import { link } from "../router";
import type { Curves as Points, Page, Run } from "../types";

const PAGE = 50;
const POLL = 3000;
const ALIVE = 60;
/** Seconds without a new point after which a run counts as over. */

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

const KINDS = { evaluation: "evaluation", training: "training", asked: "asked here" };

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
  const [main, others] = decisive(Object.keys(live.curves));
  const drawn = (name: string) => [{ name: run.name, points: live.curves[name]! }];
  const first = (change: () => void) => {
    change();
    setOffset(0);
  };
  return (
    <div class="page wide">
      <nav class="crumbs" aria-label="Where you are"><a href="#/runs">Runs</a></nav>
      <h1>{run.name}</h1>
      <p class="facts">
        <RunStatus run={run} />
        <span class="chip">{KINDS[run.kind ?? "evaluation"]}</span>
        {!!run.step && <span>step {count(run.step)}{run.steps ? ` of ${count(run.steps)}` : ""}</span>}
        {run.kind === "training" && run.score && <span>{run.score.metric.replace("_", " ")} {figure(run.score.value)}</span>}
        <span>{plural(live.episodes >= 0 ? live.episodes : run.episodes, "episode")}</span>
        {run.interrupted ? <span class="chip warn">{count(run.interrupted)} interrupted</span> : null}
        {live.grown > 0 && Date.now() - live.grown < ALIVE * 1000 && <span class="chip busy"><span class="dot pulsing" /> live</span>}
        <small>begun {when(run.created)}</small>
      </p>
      {Object.entries(run.table ?? {}).map(([dataset, rows]) => <ResultTable key={dataset} dataset={dataset} rows={rows} />)}
      {main.length > 0 && (
        <section class="decisive">
          <h2>{main.some((name) => name.startsWith("dev")) ? (main.some((name) => name === "reward") ? "Reward and dev score" : "Dev score") : "Reward"}</h2>
          <Curves names={main} series={drawn} />
        </section>
      )}
      {grouped(others).map(([group, found]) => (
        <section key={group}>
          <h2>{group}</h2>
          <Curves names={found} series={drawn} />
        </section>
      ))}
      {run.kind === "training" && !main.length && !others.length && <Notice>No figures yet: curves appear here after the first step.</Notice>}
      {run.kind === "evaluation" && !!run.episodes && <Matrix run={props.run} grown={live.episodes} />}
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
  if (!page.episodes.length && !page.interrupted.length) return <Notice>No episodes here. Choose another filter, or wait for the first one to end.</Notice>;
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
