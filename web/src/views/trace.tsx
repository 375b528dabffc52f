import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { follow, get } from "../api";
import { count, figure, seconds } from "../format";
import { Answer } from "../parts/answer";
import { Chip, Ending, Notice } from "../parts/common";
import { ContextStory } from "../parts/story";
import { ContextText } from "../parts/text";
import { Tree } from "../parts/tree";
import { Virtual } from "../parts/virtual";
import { go, link } from "../router";
import { fold, headline, tokens, type Trace } from "../trace";
import type { Episode, Event } from "../types";

const TABS = ["story", "context", "events"] as const;
type Tab = (typeof TABS)[number];

/** Any episode, live or stored; `given` is one that came with the page itself. */
export function TraceView(props: { run: string; id: string; query: URLSearchParams; given?: Episode }) {
  const [episode, setEpisode] = useState<Episode | undefined>(props.given);
  const [extra, setExtra] = useState<Event[]>([]);
  const [error, setError] = useState<Error>();
  const base = props.run === "asked" ? "/api/episodes" : `/api/runs/${encodeURIComponent(props.run)}/episodes`;
  const place = `${base}/${encodeURIComponent(props.id)}`;
  useEffect(() => {
    if (props.given) return;
    const stop = new AbortController();
    setEpisode(undefined);
    setExtra([]);
    const load = async () => {
      const found = await get<Episode>(place);
      setEpisode(found);
      if (found.status !== "running" && found.status !== "queued") return;
      const after = found.events?.length ? found.events[found.events.length - 1]!.seq : -1;
      await follow(`${place}/events?after=${after}`, (e) => setExtra((known) => [...known, ...e]), stop.signal);
      setEpisode(await get<Episode>(place));
      setExtra([]);
    };
    load().catch((failed) => stop.signal.aborted || setError(failed));
    return () => stop.abort();
  }, [props.run, props.id]);
  const trace = useMemo(() => fold([...(episode?.events ?? []), ...extra], episode), [episode, extra]);
  if (error) return <Notice error={error} />;
  if (!episode) return <Notice>Loading…</Notice>;
  return <Loaded {...props} episode={episode} trace={trace} />;
}

function Loaded(props: { run: string; id: string; query: URLSearchParams; episode: Episode; trace: Trace; given?: Episode }) {
  const { episode, trace, query } = props;
  const over = episode.status !== "running" && episode.status !== "queued";
  const chosen = query.get("c") ?? trace.roots[0]?.id ?? "";
  const tab = (TABS as readonly string[]).includes(query.get("tab") ?? "") ? (query.get("tab") as Tab) : "story";
  const event = query.get("e") ?? "";
  const context = trace.contexts.get(chosen);
  const search = useRef<HTMLInputElement>(null);
  const show = (changed: Record<string, string>, replace = true) =>
    go(["runs", props.run, props.id], { c: chosen, tab: tab === "story" ? "" : tab, e: event, ...changed }, replace);

  useEffect(() => {
    const press = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || (e.target as HTMLElement).closest("input, textarea, select")) return;
      const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[e.key];
      const number = ["1", "2", "3"].indexOf(e.key);
      if (step && (e.key.length === 1 || !(e.target as HTMLElement).closest(".virtual, .pane"))) {
        const at = trace.order.findIndex((c) => c.id === chosen);
        const next = trace.order[Math.min(trace.order.length - 1, Math.max(0, at + step))];
        if (next) show({ c: next.id, e: "" });
      } else if (number >= 0) show({ tab: TABS[number]! });
      else if (e.key === "/") {
        show({ tab: "events" });
        setTimeout(() => search.current?.focus());
      } else return;
      e.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });

  return (
    <div class="trace">
      <header class="top">
        {!props.given && (
          <nav class="crumbs" aria-label="Where you are">
            <a href="#/runs">Runs</a> / <a href={link(["runs", props.run])}>{props.run}</a>
          </nav>
        )}
        <h1>{episode.question.question}</h1>
        <div class="facts">
          <Ending ending={over ? (episode.stop_reason ?? episode.status) : episode.status} forced={episode.forced} />
          <Chip label="system">{episode.system}</Chip>
          <Chip label="model">{episode.model}</Chip>
          <Chip label="time">{seconds(episode.usage?.seconds ?? trace.duration)}</Chip>
          <Chip label="tokens">{count(tokens(episode.usage))}</Chip>
          <Chip label="calls">{count(episode.usage?.model_calls)}</Chip>
          <Chip label="searches">{count(episode.usage?.searches)}</Chip>
          {episode.usage?.cost ? <Chip label="cost">{episode.usage.cost.toFixed(4)}</Chip> : null}
          {Object.entries({ ...episode.scores, ...episode.rewards }).map(([name, value]) => (
            <Chip key={name} label={name}>{figure(value)}</Chip>
          ))}
        </div>
        {over && (
          <Answer
            answer={episode.answer ?? ""}
            evidence={episode.evidence ?? []}
            confidence={episode.confidence}
            forced={episode.forced}
            ending={episode.stop_reason ?? episode.status}
            trace={trace}
          />
        )}
        {episode.question.answers?.length ? (
          <p class="expected">Expected: {episode.question.answers.join(" or ")}</p>
        ) : null}
      </header>
      <div class="split">
        <Tree trace={trace} over={over} selected={chosen} onSelect={(id) => show({ c: id, e: "" }, false)} />
        <section class="pane" aria-label="What happened">
          <div class="tabs" role="tablist">
            {TABS.map((name, i) => (
              <button
                key={name}
                role="tab"
                aria-selected={tab === name}
                title={`key ${i + 1}`}
                onClick={() => show({ tab: name === "story" ? "" : name })}
              >
                {{ story: "Story", context: "What it saw and wrote", events: `All ${count(trace.events.length)} events` }[name]}
              </button>
            ))}
          </div>
          {tab === "events" ? (
            <Events trace={trace} selected={event} box={search} onSelect={(seq) => show({ e: seq })} />
          ) : !context ? (
            <Notice>No context was opened.</Notice>
          ) : tab === "context" ? (
            <ContextText context={context} />
          ) : (
            <ContextStory
              context={context}
              trace={trace}
              evidence={episode.evidence ?? []}
              onSelect={(id) => show({ c: id }, false)}
            />
          )}
        </section>
      </div>
      <footer class="keys">
        <kbd>j</kbd> <kbd>k</kbd> next and previous context · <kbd>1</kbd> <kbd>2</kbd> <kbd>3</kbd> tabs · <kbd>/</kbd> search events
      </footer>
    </div>
  );
}

function Events(props: {
  trace: Trace;
  selected: string;
  box: { current: HTMLInputElement | null };
  onSelect: (seq: string) => void;
}) {
  const [wanted, setWanted] = useState("");
  const found = useMemo(() => {
    const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return props.trace.events;
    return props.trace.events.filter((event) => {
      const text = JSON.stringify(event).toLowerCase();
      return words.every((word) => text.includes(word));
    });
  }, [props.trace, wanted]);
  const at = found.findIndex((event) => String(event.seq) === props.selected);
  const chosen = found[at];
  return (
    <div class="events">
      <div class="find">
        <input
          ref={props.box}
          type="search"
          aria-label="Search events"
          placeholder="Search events"
          value={wanted}
          onInput={(e) => setWanted(e.currentTarget.value)}
        />
        <small>{count(found.length)} of {count(props.trace.events.length)}</small>
      </div>
      <Virtual
        items={found}
        selected={at}
        label="Events"
        render={(event) => (
          <button
            class={`event ${event.kind} ${String(event.seq) === props.selected ? "selected" : ""}`}
            onClick={() => props.onSelect(String(event.seq))}
          >
            <small>{event.seq}</small>
            <small>{event.time.toFixed(2)}</small>
            <code>{event.trajectory || "–"}</code>
            <b>{event.kind}</b>
            <span>{headline(event)}</span>
          </button>
        )}
      />
      {chosen && <pre class="data" aria-label={`Event ${chosen.seq}`}>{JSON.stringify(chosen, null, 2)}</pre>}
    </div>
  );
}
