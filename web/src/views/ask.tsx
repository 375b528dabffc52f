import { useEffect, useState } from "preact/hooks";
import { get } from "../api";
import { plural, when } from "../format";
import { Boundary, Ending, Notice, useLoaded } from "../parts/common";
import { Composer } from "../parts/composer";
import { Watch } from "../parts/watch";
import { link } from "../router";
import type { About, Page, Thread } from "../types";

/** Ask a question and watch the answer come together. `id` is the question being looked at, with its conversation. */
export function Ask(props: { about: About; id?: string; onChange: () => void }) {
  if (!props.about.asks)
    return (
      <>
        <h1 class="hidden">Ask a question</h1>
        <Notice>This server shows stored runs. Start <code>subquest serve</code> to ask questions.</Notice>
      </>
    );
  if (props.id) return <Conversation about={props.about} id={props.id} onChange={props.onChange} />;
  return (
    <div class="page">
      <h1 class="hidden">Ask a question</h1>
      <Composer about={props.about} onChange={props.onChange} />
      <Before about={props.about} />
    </div>
  );
}

/** All turns, each with one answer or several side by side, and the box for the next question. */
function Conversation(props: { about: About; id: string; onChange: () => void }) {
  const { data, error } = useLoaded(() => get<Thread>(`/api/episodes/${encodeURIComponent(props.id)}/thread`), [props.id]);
  const [over, setOver] = useState<Record<string, true>>({});
  const turns = data?.turns ?? [];
  const last = turns[turns.length - 1];
  const wide = turns.some((turn) => turn.episodes.length > 1);
  const shown = turns.findIndex((turn) => turn.episodes.some((one) => one.id === props.id));
  useEffect(() => {
    if (shown > 0) document.getElementById(`turn-${shown}`)?.scrollIntoView();
  }, [props.id, shown]);
  if (error) return <div class="page"><Notice error={error} /><Composer about={props.about} onChange={props.onChange} /></div>;
  if (!data) return null;
  return (
    <div class={`page thread ${wide ? "wide" : ""}`}>
      {turns.map((turn, i) => {
        const Heading = i ? "h2" : "h1";
        const several = turn.episodes.length > 1;
        return (
          <section key={turn.episodes[0]!.id} id={`turn-${i}`} class="exchange" aria-label={`Turn ${i + 1}`}>
            <Heading class="asked"><a href={link(["ask", turn.episodes[0]!.id])}>{turn.asked}</a></Heading>
            <div class={several ? "columns" : ""}>
              {turn.episodes.map((one) => (
                <Boundary key={one.id}><Watch id={one.id} narrow={several} past={turn !== last} onOver={() => setOver((known) => ({ ...known, [one.id]: true }))} /></Boundary>
              ))}
            </div>
            {several && (
              <a class="quiet button" href={link(["compare"], { e: turn.episodes.map((one) => `asked/${one.id}`).join(",") })}>Compare step by step</a>
            )}
          </section>
        );
      })}
      <Composer about={props.about} after={last} waiting={!last?.episodes.every((one) => over[one.id])} onChange={props.onChange} />
    </div>
  );
}

function Before(props: { about: About }) {
  const { data, error } = useLoaded(() => get<Page>("/api/episodes?limit=20"), []);
  if (error) return <Notice error={error} />;
  if (!data) return null;
  const rows = [...(data.live ?? []), ...data.interrupted].filter((one) => !one.question.meta?.beside);
  const ended = data.episodes.filter((one) => !one.beside).slice(0, 12);
  if (!rows.length && !ended.length) return <Welcome about={props.about} />;
  return (
    <section>
      <h2>Asked before</h2>
      <ul class="list">
        {rows.map((one) => (
          <li key={one.id}>
            <a href={link(["ask", one.id])}>
              <b>{one.question.meta?.asked ?? one.question.question}</b>
              <span class="facts"><Ending ending={one.status} /></span>
            </a>
          </li>
        ))}
        {ended.map((one) => (
          <li key={one.id}>
            <a href={link(["ask", one.id])}>
              <b>{one.question}</b>
              <span class="facts">
                <span class="said">{one.answer || (one.stop_reason === "abstained" ? "unknown" : "no answer")}</span>
                {!["answered", "abstained"].includes(one.stop_reason) && <Ending ending={one.stop_reason} forced={one.forced} />}
                <small>{one.follows ? "follow-up · " : ""}{one.system} · {when(one.added)}</small>
              </span>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Welcome(props: { about: About }) {
  const { indexes, models } = props.about;
  return (
    <section>
      <h2>How it works</h2>
      <ol class="welcome">
        {models.length === 0 && (
          <li><b>Set a model</b> <span>There is none yet: give the address of yours under <a href="#/model">Model</a>.</span></li>
        )}
        <li>
          <b>Bring documents</b>
          {indexes.length > 0
            ? <span>{plural(indexes.length, "index")} {indexes.length === 1 ? "is" : "are"} ready. Files that you add become another.</span>
            : <span>There are none yet: add files or a folder above, or fill an index under <a href="#/indexes">Indexes</a>.</span>}
        </li>
        <li><b>Ask</b> <span>Works best for questions that no single passage answers: each part is searched for on its own.</span></li>
        <li><b>Watch and check</b> <span>Notes appear as they are written. Every quotation under the answer opens in its document.</span></li>
      </ol>
    </section>
  );
}
