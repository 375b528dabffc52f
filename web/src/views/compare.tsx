import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get } from "../api";
import { count, figure, seconds } from "../format";
import { Curves, grouped } from "../parts/chart";
import { Ending, Notice, useLoaded } from "../parts/common";
import { ResultTable } from "../parts/table";
import { link } from "../router";
import { common, fold, steps, tokens, type Step } from "../trace";
import type { Comparison, Episode } from "../types";
import { placeOf } from "./trace";

/** Two episodes or more beside each other, each `RUN/ID`: figures first, then what each did, step by step. */
export function CompareEpisodes(props: { episodes: string[] }) {
  const key = props.episodes.join(",");
  const [found, setFound] = useState<Episode[]>();
  const [error, setError] = useState<Error>();
  useEffect(() => {
    setFound(undefined);
    Promise.all(
      props.episodes.map((one) => {
        const at = one.lastIndexOf("/");
        return get<Episode>(placeOf(one.slice(0, at), one.slice(at + 1)));
      }),
    ).then(setFound, setError);
  }, [key]);
  if (error) return <Notice error={error} />;
  if (props.episodes.length < 2) return <Notice>Choose two episodes or more: tick them in a <a href="#/runs">run</a>.</Notice>;
  if (!found) return <Notice>Loading…</Notice>;
  return <SideBySide episodes={found} />;
}

/** Figures that stand in a row of their own already, and advantages of contexts below the first. */
const SHOWN = /^(advantage\/.*\.|(cached|completion|prompt)_tokens|(tokens|peak|calls)_|seconds|searches|model_calls|cost$|peak)/;
const NAMES: Record<string, string> = { documents: "found", limit: "limit", error: "error" };

function SideBySide(props: { episodes: Episode[] }) {
  const { episodes } = props;
  const [all, setAll] = useState(false);
  const traces = episodes.map((episode) => fold(episode.events ?? [], episode));
  const lists = traces.map(steps);
  const same = common(lists);
  const [whole, setWhole] = useState(false);
  const one = new Set(episodes.map((episode) => episode.question.question)).size === 1;
  const terms = [...new Set(episodes.flatMap((e) => Object.keys({ ...e.scores, ...e.rewards })))].filter((name) => !SHOWN.test(name));
  const runs = new Set(episodes.map((e) => e.run)).size > 1;
  const rows: [string, (e: Episode, i: number) => ComponentChildren][] = [
    ["ended", (e) => <Ending ending={e.stop_reason ?? e.status} forced={e.forced} />],
    ["contexts", (_, i) => count(traces[i]!.order.length)],
    ["model calls", (e) => count(e.usage?.model_calls)],
    ["searches", (e) => count(e.usage?.searches)],
    ["tokens", (e) => count(tokens(e.usage))],
    ["time", (e) => seconds(e.usage?.seconds)],
    ...terms.map((term): [string, (e: Episode) => string] => [term === "total" ? "reward" : term.replaceAll("_", " ").replace(/^advantage.*/, "advantage"), (e) => figure({ ...e.scores, ...e.rewards }[term])]),
  ];
  const cells = rows.map(([name, say]) => {
    const shown = episodes.map(say);
    const words = shown.map((s) => (typeof s === "object" ? JSON.stringify((s as any).props) : String(s)));
    return { name, shown, differs: new Set(words).size > 1 };
  });
  const different = cells.filter((cell) => cell.differs);
  return (
    <div class="trace">
      <header class="top">
        <nav class="crumbs" aria-label="Where you are"><a href="#/runs">Runs</a> / side by side</nav>
        <h1>{one ? (episodes[0]!.question.meta?.asked ?? episodes[0]!.question.question) : `${episodes.length} episodes`}</h1>
        {one && episodes[0]!.question.answers?.length ? <p class="expected">Expected: {episodes[0]!.question.answers!.join(" or ")}</p> : null}
      </header>
      <div class="table" tabIndex={0} role="region" aria-label="Figures of each">
        <table class="facing">
          <thead>
            <tr>
              <td />
              {episodes.map((e) => (
                <th key={e.id} scope="col">
                  <a href={link(["runs", e.run ?? "asked", e.id])}>{runs ? e.run : e.system}</a>
                  <small>{runs ? `${e.system} on ${e.model}` : e.model}</small>
                  {!one && <span class="task">{e.question.question}</span>}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            <tr><th scope="row">answer</th>{episodes.map((e) => <td key={e.id}><b class="said">{e.answer || "none"}</b></td>)}</tr>
            {(whole ? cells : different).map(({ name, shown, differs }) => (
              <tr key={name} class={differs ? "" : "alike"}><th scope="row">{name}</th>{shown.map((value, i) => <td key={i}>{value}</td>)}</tr>
            ))}
          </tbody>
        </table>
        {different.length < cells.length && (
          <button class="text-link more" aria-expanded={whole} onClick={() => setWhole(!whole)}>
            {whole ? "Only what differs" : `${count(cells.length - different.length)} figures are the same`}
          </button>
        )}
      </div>
      <section>
        <div class="find">
          <h2>Step by step</h2>
          <span class="facts">
            <small>{same ? `the first ${count(same)} steps are the same` : "they differ from the first step on"}</small>
            {same > 2 && <button class="quiet" onClick={() => setAll(!all)}>{all ? "Fold them" : "Show them"}</button>}
          </span>
        </div>
        <div class="facing-steps" tabIndex={0} role="region" aria-label="Steps of each" style={{ gridTemplateColumns: `repeat(${episodes.length}, minmax(15rem, 1fr))` }}>
          {lists.map((list, i) => (
            <ol key={episodes[i]!.id} aria-label={`Steps of ${episodes[i]!.system}`} start={all ? 1 : same + 1}>
              {list.slice(all ? 0 : same).map((step, at) => (
                <StepCard key={at} step={step} same={all && at < same} href={link(["runs", episodes[i]!.run ?? "asked", episodes[i]!.id], { c: step.context })} />
              ))}
              {list.length === same && !all && <li class="step"><p>ends here</p></li>}
            </ol>
          ))}
        </div>
      </section>
    </div>
  );
}

function StepCard(props: { step: Step; same: boolean; href: string }) {
  const { step } = props;
  return (
    <li class={`step ${step.kind} ${props.same ? "same" : ""}`} style={{ marginLeft: `${step.depth * 0.9}rem` }}>
      <a href={props.href}><b>{NAMES[step.kind] ?? step.kind}</b> <code>{step.context}</code></a>
      <p>{step.text || "–"}</p>
    </li>
  );
}

/** Runs beside each other. */
export function CompareRuns(props: { runs: string[] }) {
  const { data, error } = useLoaded(() => get<Comparison>(`/api/compare?runs=${encodeURIComponent(props.runs.join(","))}`), [props.runs.join()]);
  if (error) return <Notice error={error} />;
  if (!data) return <Notice>Comparing…</Notice>;
  const names = [...new Set(Object.values(data.curves).flatMap((curves) => Object.keys(curves)))];
  return (
    <div class="page wide">
      <nav class="crumbs" aria-label="Where you are"><a href="#/runs">Runs</a> / compared</nav>
      <h1>{props.runs.join(", ")}</h1>
      {Object.entries(data.table).map(([dataset, sides]) => <ResultTable key={dataset} dataset={dataset} rows={sides} />)}
      {data.paired.length > 0 && <Paired tests={data.paired} />}
      {names.length > 0 && (
        <section>
          <h2>Curves</h2>
          <p class="legend">{Object.keys(data.curves).map((run, i) => <span key={run}><i class={`key line-${i % 5}`} /> {run}</span>)}</p>
          {grouped(names).map(([group, found]) => (
            <div key={group}>
              <h3>{group}</h3>
              <Curves names={found} series={(name) => Object.entries(data.curves).map(([run, curves]) => ({ name: run, points: curves[name] ?? [] }))} />
            </div>
          ))}
        </section>
      )}
      {data.differences.length > 0 && (
        <section>
          <h2>Where they differ</h2>
          <ul class="list">
            {data.differences.map((one) => (
              <li key={one.dataset + one.question}>
                <a href={link(["compare"], { e: Object.values(one.sides).map((s) => `${s.run}/${s.episode}`).join(",") })}>
                  <b>{one.question}</b>
                  <span class="facts">
                    {Object.entries(one.sides).map(([side, s]) => (
                      <span key={side} class={`chip ${s.em ? "good" : "bad"}`}>{side} {s.em ? "right" : "wrong"}</span>
                    ))}
                  </span>
                </a>
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}

const p = (value: number | null): string => (value == null ? "–" : value < 0.001 ? "< 0.001" : value.toFixed(3));

function Paired(props: { tests: Comparison["paired"] }) {
  return (
    <section>
      <h2>Paired tests</h2>
      <div class="table" tabIndex={0} role="region" aria-label="Paired tests">
        <table>
          <thead>
            <tr>
              <th scope="col">on the questions both answered</th><th scope="col">metric</th>
              {["n", "difference", "bootstrap p", "McNemar p"].map((name) => <th key={name} scope="col" class="number">{name}</th>)}
              <th scope="col">so it is</th>
            </tr>
          </thead>
          <tbody>
            {props.tests.map((test, i) => (
              <tr key={i}>
                <th scope="row">{test.a}<small>against {test.b}{test.dataset && `, ${test.dataset}`}</small></th>
                <td>{test.metric}</td>
                <td class="number">{count(test.n)}</td>
                <td class="number">{(test.difference > 0 ? "+" : "") + figure(test.difference)}<small>{figure(test.low)} to {figure(test.high)}</small></td>
                <td class="number">{p(test.p)}</td>
                <td class="number">{p(test.mcnemar)}</td>
                <td>{test.p < 0.05 ? <span class={`chip ${test.difference > 0 ? "good" : "bad"}`}>{test.difference > 0 ? "better" : "worse"}</span> : <span class="chip">could be chance</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
