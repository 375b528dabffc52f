import { useEffect, useMemo, useState } from "preact/hooks";
import { follow, get, post } from "../api";
import { count, plural, seconds } from "../format";
import { go, link } from "../router";
import { failuresOf, fold, plus, tokens } from "../trace";
import type { Episode, Event, Status } from "../types";
import { Answer, Sections } from "./answer";
import { Chip, Ending, Notice, useOnce } from "./common";
import { Notes, notesOf, useClock, Writing } from "./live";
import { Plan } from "./plan";
import { Unstored } from "./storage";

/** One answer as it comes together. `narrow` stands beside others, `past` is an earlier turn of a conversation. */
export function Watch(props: { id: string; narrow?: boolean; past?: boolean; onOver?: () => void }) {
  const [events, setEvents] = useState<Event[]>([]);
  const [texts, setTexts] = useState<Record<string, string>>({});
  const [episode, setEpisode] = useState<Episode>();
  const [status, setStatus] = useState<Status>("queued");
  const [error, setError] = useState<Error>();
  const [round, setRound] = useState(0);
  const once = useOnce();
  const place = `/api/episodes/${encodeURIComponent(props.id)}`;
  useEffect(() => {
    const stop = new AbortController();
    setEvents([]);
    setTexts({});
    const load = () => get<Episode>(place).then((found) => stop.signal.aborted || setEpisode(found));
    void load().catch(() => undefined);
    follow(`${place}/events?text=true`, (fresh) => {
      setStatus("running");
      setEvents((known) => [...known, ...fresh]);
      const ended = new Set(fresh.filter((event) => ["turn", "retry", "close"].includes(event.kind)).map((event) => event.trajectory));
      setTexts((known) => (ended.size ? Object.fromEntries(Object.entries(known).filter(([id]) => !ended.has(id))) : known));
    }, stop.signal, (pieces) =>
      setTexts((known) => {
        const all = { ...known };
        for (const piece of pieces) all[piece.trajectory] = (piece.first ? "" : (all[piece.trajectory] ?? "")) + piece.text;
        return all;
      }),
    )
      .then((ended) => {
        setStatus(ended);
        setTexts({});
        props.onOver?.();
        return load();
      })
      .catch((failed) => {
        if (stop.signal.aborted) return;
        setError(failed);
        props.onOver?.();
      });
    return () => stop.abort();
  }, [props.id, round]);
  const trace = useMemo(() => fold(events, episode), [events, episode]);
  const notes = useMemo(() => notesOf(trace), [trace]);
  const over = status !== "queued" && status !== "running";
  const clock = useClock(!over && events.length > 0, Math.max(trace.duration, over ? 0 : (episode?.seconds ?? 0)));
  const usage = trace.order.reduce((sum, context) => plus(sum, context.usage), trace.usage);

  async function again(how: "again" | "resume") {
    try {
      go(["ask", (await post<{ id: string }>(`${place}/${how}`)).id]);
    } catch (failed) {
      setError(failed as Error);
    }
  }

  async function stop() {
    try {
      await post(`${place}/cancel`);
    } catch (failed) {
      setError(failed as Error);
    }
  }

  /** The server is back: follow the episode again. */
  function resume() {
    setError(undefined);
    setRound((n) => n + 1);
  }

  if (error && !episode && !events.length) return <Notice error={error} onBack={resume} />;
  const last = events[events.length - 1];
  return (
    <article class={`watch ${props.narrow ? "narrow" : ""}`} aria-busy={!over} aria-label={props.narrow ? (episode?.system ?? "") : undefined}>
      {props.narrow && <h2 class="who">{episode?.system}</h2>}
      <div class="facts">
        <Ending ending={over ? (episode?.stop_reason ?? status) : status} />
        {!props.narrow && episode?.system && <Chip label="system">{episode.system}</Chip>}
        <Chip label="time">{seconds(clock)}</Chip>
        <Chip label="tokens">{count(tokens(usage))}</Chip>
        <Chip label="searches">{count(usage.searches)}</Chip>
        <span class="grow" />
        {!over && <button class="quiet" onClick={() => void stop()}>Stop</button>}
        {status === "interrupted" && <button class="quiet strong" onClick={() => void once(() => again("resume"))}>Go on</button>}
        {over && <button class="quiet" onClick={() => void once(() => again("again"))}>Ask again</button>}
        <a class="quiet button" href={link(["runs", "asked", props.id])}>Open trace</a>
      </div>
      {error && <Notice error={error} onBack={resume} />}
      {!over && last?.kind === "retry" && <Trouble text={`${last.data?.message ?? ""}. Trying again…`} model={last.data?.where === "engine"} />}
      {!over && <Sections texts={events.filter((event) => event.kind === "section").map((event) => event.data?.text ?? "")} />}
      {status === "unstored" && <Unstored />}
      {over && (
        <Answer
          answer={episode?.answer ?? trace.answer ?? ""}
          report={episode?.report}
          download={`${place}/report`}
          evidence={episode?.evidence ?? []}
          likely={episode?.likely}
          supported={episode?.supported}
          parts={episode?.parts_supported}
          forced={episode?.forced}
          ending={episode?.stop_reason ?? status}
          trace={trace}
          index={episode?.question.meta?.index ?? ""}
        />
      )}
      {failuresOf(episode).map(({ text, where }) => (
        <Trouble key={text} text={text} model={where === "engine"} kind="error" />
      ))}
      {!over && <Writing trace={trace} texts={texts} />}
      {notes.length > 0 &&
        (over ? (
          <details class="fold"><summary>{plural(notes.length, "note")}</summary><Notes notes={notes} /></details>
        ) : (
          <section aria-label="Notes"><h2 class="label">Notes so far</h2><Notes notes={notes} /></section>
        ))}
      {trace.roots.length === 0 ? (
        !error && !over && <Notice>{status === "queued" ? "Waiting for its turn…" : "Starting…"}</Notice>
      ) : props.narrow ? null : props.past ? (
        <details class="fold"><summary>Plan</summary><Plan trace={trace} over={over} onSelect={(id) => go(["runs", "asked", props.id], { c: id })} /></details>
      ) : (
        <Plan trace={trace} over={over} onSelect={(id) => go(["runs", "asked", props.id], { c: id })} />
      )}
    </article>
  );
}

/** What went wrong; where it was the model, the form to change it is one click away. */
function Trouble(props: { text: string; model: boolean; kind?: "error" }) {
  return (
    <Notice kind={props.kind}>
      {props.text} {props.model && <a class="quiet button" href="#/model">Change the model</a>}
    </Notice>
  );
}
