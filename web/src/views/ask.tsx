import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { follow, get, post } from "../api";
import { count, plural, seconds, when } from "../format";
import { Answer, Sections } from "../parts/answer";
import { Boundary, Chip, Ending, Notice, Select, useLoaded, useOnce } from "../parts/common";
import { Plan } from "../parts/plan";
import { Unstored } from "../parts/storage";
import { go, link } from "../router";
import { fold, plus, tokens } from "../trace";
import type { About, Episode, Event, Page, Status } from "../types";
import { ACCEPTED, upload } from "../upload";

/** Ask a question and watch the answer come together. `id` is the question being looked at. */
export function Ask(props: { about: About; id?: string; onChange: () => void }) {
  const { about } = props;
  const [question, setQuestion] = useState("");
  const [system, setSystem] = useState(about.systems[0] ?? "");
  const [model, setModel] = useState(about.models[0] ?? "");
  const [index, setIndex] = useState(about.indexes[0] ?? "");
  const [style, setStyle] = useState("short");
  const [error, setError] = useState<Error>();
  const [uploading, setUploading] = useState("");
  const box = useRef<HTMLTextAreaElement>(null);
  const once = useOnce();
  useEffect(() => box.current?.focus(), []);

  async function ask() {
    if (!question.trim()) return box.current?.focus();
    setError(undefined);
    try {
      const job = await post<{ id: string }>("/api/ask", { question, system, model, index, style });
      setQuestion("");
      go(["ask", job.id]);
    } catch (failed) {
      setError(failed as Error);
    }
  }

  async function attach(files: File[]) {
    if (!files.length) return;
    setError(undefined);
    setUploading(`Reading ${files.length === 1 ? files[0]!.name : `${files.length} files`}…`);
    try {
      const { indexes: taken } = await get<About>("/api/about"); // another tab may have made one since
      const target = indexName(files, taken);
      const { added, problems } = await upload(target, files);
      props.onChange();
      setIndex(target);
      setUploading([`${plural(added, "passage")} read into the index ${target}.`, ...problems].join(" "));
    } catch (failed) {
      setUploading("");
      setError(failed as Error);
    }
  }

  const indexes = index && !about.indexes.includes(index) ? [...about.indexes, index] : about.indexes;
  if (!about.asks)
    return <Notice>This server shows stored runs. Start <code>subquest serve</code> to ask questions.</Notice>;
  return (
    <div class="page">
      {!props.id && <h1 class="hidden">Ask a question</h1>}
      <form
        class={`composer ${props.id ? "small" : ""}`}
        onSubmit={(e) => {
          e.preventDefault();
          void once(ask);
        }}
      >
        <label class="hidden" for="question">Question</label>
        <textarea
          id="question"
          ref={box}
          rows={props.id ? 1 : 2}
          placeholder={props.id ? "Ask something else…" : "Ask something that takes more than one step…"}
          value={question}
          onInput={(e) => setQuestion(e.currentTarget.value)}
          onKeyDown={(e) => {
            if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
              e.preventDefault();
              void once(ask);
            }
          }}
        />
        <div class="row">
          <Select label="System" value={system} options={about.systems} onChange={setSystem} />
          {about.models.length > 1 && <Select label="Model" value={model} options={about.models} onChange={setModel} />}
          {indexes.length > 0 && <Select label="Index" value={index} options={indexes} onChange={setIndex} />}
          <Select label="Answer" value={style} options={["short", "sentence", "report"]} onChange={setStyle} />
          {!about.read_only && (
            <label class="quiet">
              Add files
              <input class="hidden" type="file" multiple accept={ACCEPTED} aria-label="Add files to a new index" onChange={(e) => void attach([...(e.currentTarget.files ?? [])])} />
            </label>
          )}
          <span class="grow" />
          <button class="primary" type="submit">Ask</button>
        </div>
        {uploading && <small class="told" role="status">{uploading}</small>}
      </form>
      {error && <Notice error={error} />}
      {props.id ? <Boundary key={props.id}><Watch id={props.id} /></Boundary> : <Before about={about} />}
    </div>
  );
}

/** A name for an index of these files that no index has yet. */
function indexName(files: File[], taken: string[]): string {
  const stem = files[0]!.name.replace(/\.[^.]*$/, "").replace(/[^A-Za-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 40) || "files";
  const name = files.length > 1 ? `${stem}-and-${files.length - 1}-more` : stem;
  let free = name;
  for (let n = 2; taken.includes(free); n++) free = `${name}-${n}`;
  return free;
}

function Watch(props: { id: string }) {
  const [events, setEvents] = useState<Event[]>([]);
  const [episode, setEpisode] = useState<Episode>();
  const [status, setStatus] = useState<Status>("queued");
  const [error, setError] = useState<Error>();
  const once = useOnce();
  const place = `/api/episodes/${encodeURIComponent(props.id)}`;
  useEffect(() => {
    const stop = new AbortController();
    const load = () => get<Episode>(place).then(setEpisode);
    void load().catch(() => undefined);
    follow(`${place}/events`, (fresh) => {
      setStatus("running");
      setEvents((known) => [...known, ...fresh]);
    }, stop.signal)
      .then((ended) => {
        setStatus(ended);
        return load();
      })
      .catch((failed) => stop.signal.aborted || setError(failed));
    return () => stop.abort();
  }, [props.id]);
  const trace = useMemo(() => fold(events, episode), [events, episode]);
  const over = status !== "queued" && status !== "running";
  const usage = trace.order.reduce((sum, context) => plus(sum, context.usage), trace.usage);
  const question = episode?.question.question ?? events[0]?.data?.question ?? "";

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

  if (error && !episode && !events.length) return <Notice error={error} />;
  return (
    <article class="watch" aria-busy={!over}>
      <header>
        {episode?.question.meta?.follows && (
          <nav class="crumbs"><a href={link(["ask", episode.question.meta.follows])}>follows an earlier question</a></nav>
        )}
        <h1>{episode?.question.meta?.asked ?? question}</h1>
        <div class="facts">
          <Ending ending={over ? (episode?.stop_reason ?? status) : status} />
          <Chip label="time">{seconds(trace.duration)}</Chip>
          <Chip label="tokens">{count(tokens(usage))}</Chip>
          <Chip label="searches">{count(usage.searches)}</Chip>
          <span class="grow" />
          {!over && <button class="quiet" onClick={() => void stop()}>Stop</button>}
          {status === "interrupted" && <button class="quiet strong" onClick={() => void once(() => again("resume"))}>Go on</button>}
          {over && <button class="quiet" onClick={() => void once(() => again("again"))}>Ask again</button>}
          <a class="quiet button" href={link(["runs", "asked", props.id])}>Open trace</a>
        </div>
      </header>
      {error && <Notice error={error} />}
      {!over && <Sections texts={events.filter((event) => event.kind === "section").map((event) => event.data?.text ?? "")} />}
      {status === "unstored" && <Unstored />}
      {over && (
        <Answer
          answer={episode?.answer ?? trace.answer ?? ""}
          report={episode?.report}
          download={`${place}/report`}
          evidence={episode?.evidence ?? []}
          confidence={episode?.confidence}
          supported={episode?.supported}
          forced={episode?.forced}
          ending={episode?.stop_reason ?? status}
          trace={trace}
          index={episode?.question.meta?.index ?? ""}
        />
      )}
      {(episode?.errors ?? []).map((failure, i) => (
        <Notice key={i} kind="error">{failure.where}: {failure.message}</Notice>
      ))}
      {trace.roots.length > 0 ? (
        <Plan trace={trace} over={over} onSelect={(id) => go(["runs", "asked", props.id], { c: id })} />
      ) : (
        !error && !over && <Notice>{status === "queued" ? "Waiting for its turn…" : "Starting…"}</Notice>
      )}
      {over && <FollowUp id={props.id} meta={episode?.question.meta ?? {}} />}
    </article>
  );
}

/** The next question, asked of the same system, which is told what was said before. */
function FollowUp(props: { id: string; meta: Record<string, any> }) {
  const [question, setQuestion] = useState("");
  const [error, setError] = useState<Error>();
  const once = useOnce();
  async function ask() {
    if (!question.trim()) return;
    const { system = "", model = "", index = "", style = "" } = props.meta;
    try {
      const job = await post<{ id: string }>("/api/ask", { question, system, model, index, style, follows: props.id });
      go(["ask", job.id]);
    } catch (failed) {
      setError(failed as Error);
    }
  }
  return (
    <>
      <form class="composer follow" onSubmit={(e) => { e.preventDefault(); void once(ask); }}>
        <div class="row">
          <input class="grow" aria-label="Follow-up question" placeholder="Ask a follow-up" value={question} onInput={(e) => setQuestion(e.currentTarget.value)} />
          <button class="quiet" type="submit" disabled={!question.trim()}>Follow up</button>
        </div>
      </form>
      {error && <Notice error={error} />}
    </>
  );
}

function Before(props: { about: About }) {
  const { data, error } = useLoaded(() => get<Page>("/api/episodes?limit=12"), []);
  if (error) return <Notice error={error} />;
  if (!data) return null;
  const rows = [...(data.live ?? []), ...data.interrupted];
  if (!rows.length && !data.episodes.length)
    return (
      <section>
        <h2>How it goes</h2>
        <ol class="welcome">
          <li>
            <b>Bring documents</b>
            {props.about.indexes.length > 0
              ? <span>There are some: {count(props.about.indexes.length)} {props.about.indexes.length === 1 ? "index" : "indexes"} to choose from. Files you add become another.</span>
              : <span>There are none yet: add files above, or fill an index under <a href="#/indexes">Indexes</a>.</span>}
          </li>
          <li><b>Ask</b> <span>Best what no single passage answers: the question is taken apart, and each part is searched for.</span></li>
          <li><b>Watch, and check</b> <span>The plan fills in as it is worked on. Every quotation under the answer opens in its document.</span></li>
        </ol>
      </section>
    );
  return (
    <section>
      <h2>Asked before</h2>
      <ul class="list">
        {rows.map((one) => (
          <li key={one.id}>
            <a href={link(["ask", one.id])}>
              <b>{one.question.question}</b>
              <span class="facts"><Ending ending={one.status} /></span>
            </a>
          </li>
        ))}
        {data.episodes.map((one) => (
          <li key={one.id}>
            <a href={link(["ask", one.id])}>
              <b>{one.question}</b>
              <span class="facts">
                <span class="said">{one.answer || "no answer"}</span>
                {one.stop_reason !== "answered" && <Ending ending={one.stop_reason} forced={one.forced} />}
                <small>{one.system} · {when(one.added)}</small>
              </span>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}
