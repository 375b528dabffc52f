import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { follow, get, save } from "../api";
import { count, figure, seconds } from "../format";
import { Answer } from "../parts/answer";
import { Boundary, Chip, Ending, Notice, useLoaded } from "../parts/common";
import { Costs } from "../parts/costs";
import { Lanes } from "../parts/lanes";
import { Memory } from "../parts/memory";
import { Unstored } from "../parts/storage";
import { ContextStory } from "../parts/story";
import { ContextText } from "../parts/text";
import { Tokens } from "../parts/tokens";
import { Tree } from "../parts/tree";
import { Virtual } from "../parts/virtual";
import { go, link } from "../router";
import { failuresOf, fold, headline, tokens, type Trace } from "../trace";
import type { Episode, Event, Sibling } from "../types";

const TABS = ["story", "context", "tokens", "time", "memory", "costs", "events"] as const;
type Tab = (typeof TABS)[number];
const TITLES: Record<Tab, string> = {
  story: "Story", context: "Saw and wrote", tokens: "Tokens", time: "Timeline", memory: "Memory", costs: "Costs", events: "Events",
};

/** Scores beside the question; the others are in the comparison. */
const SCORES = new Set(["em", "f1", "cem", "judge"]);

/** The address of an episode in the API. */
export const placeOf = (run: string, id: string): string =>
  `${run === "asked" ? "/api/episodes" : `/api/runs/${encodeURIComponent(run)}/episodes`}/${encodeURIComponent(id)}`;

/** Any episode, live or stored; `given` is one that came with the page itself. */
export function TraceView(props: { run: string; id: string; query: URLSearchParams; given?: Episode }) {
  const [episode, setEpisode] = useState<Episode | undefined>(props.given);
  const [extra, setExtra] = useState<Event[]>([]);
  const [error, setError] = useState<Error>();
  const place = placeOf(props.run, props.id);
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
  if (error) return <Notice error={error}><a href="#/runs">All runs</a></Notice>;
  if (!episode) return <Notice>Loading…</Notice>;
  return <Loaded {...props} episode={episode} trace={trace} />;
}

function Loaded(props: { run: string; id: string; query: URLSearchParams; episode: Episode; trace: Trace; given?: Episode }) {
  const { episode, trace, query } = props;
  const over = episode.status !== "running" && episode.status !== "queued";
  const stored = over && episode.status !== "unstored";
  const chosen = query.get("c") ?? trace.roots[0]?.id ?? "";
  const hasMemory = trace.events.some((e) => e.kind === "memory");
  const tabs = TABS.filter((name) => (name !== "memory" || hasMemory) && (name !== "tokens" || (stored && !props.given)));
  const tab = (tabs as readonly string[]).includes(query.get("tab") ?? "") ? (query.get("tab") as Tab) : "story";
  const event = query.get("e") ?? "";
  const context = trace.contexts.get(chosen);
  const search = useRef<HTMLInputElement>(null);
  const show = (changed: Record<string, string>, replace = true) =>
    go(["runs", props.run, props.id], { c: chosen, tab: tab === "story" ? "" : tab, e: event, ...changed }, replace);

  useEffect(() => {
    const press = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || (e.target as HTMLElement).closest("input, textarea, select")) return;
      const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[e.key];
      const number = /^[1-9]$/.test(e.key) && Number(e.key) <= tabs.length ? Number(e.key) - 1 : -1;
      if (step && (e.key.length === 1 || !(e.target as HTMLElement).closest(".virtual, .pane"))) {
        const at = trace.order.findIndex((c) => c.id === chosen);
        const next = trace.order[Math.min(trace.order.length - 1, Math.max(0, at + step))];
        if (next) show({ c: next.id, e: "" });
      } else if (number >= 0) show({ tab: tabs[number] === "story" ? "" : tabs[number]! });
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
        <h1>{episode.question.meta?.asked ?? episode.question.question}</h1>
        <div class="facts">
          <Ending ending={over ? (episode.stop_reason ?? episode.status) : episode.status} forced={episode.forced} />
          <Chip label="system">{episode.system}</Chip>
          <Chip label="model">{episode.model}</Chip>
          <Chip label="time">{seconds(episode.usage?.seconds ?? trace.duration)}</Chip>
          <Chip label="tokens">{count(tokens(episode.usage))}</Chip>
          <Chip label="calls">{count(episode.usage?.model_calls)}</Chip>
          <Chip label="searches">{count(episode.usage?.searches)}</Chip>
          {episode.usage?.cost ? <Chip label="cost">{episode.usage.cost.toFixed(4)}</Chip> : null}
          {Object.entries(episode.scores ?? {}).filter(([name]) => SCORES.has(name)).map(([name, value]) => (
            <Chip key={name} label={name}>{figure(value)}</Chip>
          ))}
          {episode.rewards?.total != null && <Chip label="reward">{figure(episode.rewards.total)}</Chip>}
          <span class="grow" />
          {props.run === "asked" && !props.given && (
            <a class="quiet" href={link(["ask", props.id])}>{episode.status === "interrupted" ? "Go on in Ask" : "Open in Ask"}</a>
          )}
          {over && !props.given && (
            <button class="quiet" onClick={() => void save(`${placeOf(props.run, props.id)}/html`, `trace-${props.id}.html`)}>Save as a file</button>
          )}
        </div>
        {episode.status === "unstored" && <Unstored />}
        {over && (
          <Answer
            answer={episode.answer ?? ""}
            evidence={episode.evidence ?? []}
            confidence={episode.confidence}
            likely={episode.likely}
            supported={episode.supported}
            parts={episode.parts_supported}
            forced={episode.forced}
            ending={episode.stop_reason ?? episode.status}
            trace={trace}
            index={props.given ? undefined : (episode.question.meta?.index ?? "")}
            folded
          />
        )}
        {episode.question.answers?.length ? (
          <p class="expected">Expected: {episode.question.answers.join(" or ")}</p>
        ) : null}
        {failuresOf(episode).map(({ text }) => (
          <Notice key={text} kind="error">{text}</Notice>
        ))}
        {stored && !props.given && <Siblings run={props.run} id={props.id} />}
      </header>
      <div class="split">
        <Tree trace={trace} over={over} selected={chosen} onSelect={(id) => show({ c: id, e: "" }, false)} />
        <section class="pane" aria-label="What happened">
          <div class="tabs" role="tablist">
            {tabs.map((name, i) => (
              <button
                key={name}
                id={`tab-${name}`}
                role="tab"
                aria-selected={tab === name}
                aria-controls="tab-panel"
                tabIndex={tab === name ? 0 : -1}
                title={`key ${i + 1}`}
                onClick={() => show({ tab: name === "story" ? "" : name })}
                onKeyDown={(e) => {
                  const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
                  if (!step) return;
                  const next = tabs[(i + step + tabs.length) % tabs.length]!;
                  show({ tab: next === "story" ? "" : next });
                  setTimeout(() => document.getElementById(`tab-${next}`)?.focus());
                }}
              >
                {TITLES[name]}{name === "events" && <small> {count(trace.events.length)}</small>}
              </button>
            ))}
          </div>
          <div id="tab-panel" role="tabpanel" aria-labelledby={`tab-${tab}`}>
          <Boundary key={`${tab} ${chosen}`}>
          {tab === "events" ? (
            <Events trace={trace} selected={event} box={search} onSelect={(seq) => show({ e: seq })} />
          ) : !context ? (
            <div class="scroll"><Notice>No context was opened.</Notice></div>
          ) : tab === "context" ? (
            <ContextText context={context} />
          ) : tab === "tokens" ? (
            <Tokens place={placeOf(props.run, props.id)} context={chosen} episode={episode} />
          ) : tab === "time" ? (
            <Lanes trace={trace} selected={chosen} onSelect={(id) => show({ c: id }, false)} />
          ) : tab === "memory" ? (
            <Memory trace={trace} />
          ) : tab === "costs" ? (
            <Costs trace={trace} usage={episode.usage} selected={chosen} onSelect={(id) => show({ c: id }, false)} />
          ) : (
            <ContextStory
              context={context}
              trace={trace}
              evidence={episode.evidence ?? []}
              onSelect={(id) => show({ c: id }, false)}
            />
          )}
          </Boundary>
          </div>
        </section>
      </div>
      <footer class="keys">
        <kbd>j</kbd> <kbd>k</kbd> next and previous context · <kbd>1</kbd> to <kbd>{tabs.length}</kbd> tabs · <kbd>/</kbd> search events
      </footer>
    </div>
  );
}

/** Other attempts at the same question: in training the rollouts of a group, else other systems and repetitions. */
function Siblings(props: { run: string; id: string }) {
  const { data } = useLoaded(() => get<{ siblings: Sibling[] }>(`${placeOf(props.run, props.id)}/siblings`), [props.run, props.id]);
  const all = data?.siblings ?? [];
  if (all.length < 2) return null;
  const group = all.filter((one) => one.group);
  const shown = (group.length > 1 ? group : all).slice(0, 16);
  const together = shown.map((one) => `${props.run}/${one.id}`).slice(0, 8);
  return (
    <div class="siblings">
      <span class="label">{group.length > 1 ? "Its group" : "Attempts at this question"}</span>
      {shown.map((one) => (
        <a key={one.id} class="chip" href={link(["runs", props.run, one.id])} aria-current={one.id === props.id ? "page" : undefined} title={one.answer || one.stop_reason}>
          <i>{group.length > 1 ? "" : one.system}</i>
          {one.answer || "no answer"}
          {one.rewards.total != null ? <b>{figure(one.rewards.total)}</b> : one.scores.em != null && <b>{one.scores.em ? "right" : "wrong"}</b>}
        </a>
      ))}
      <a class="quiet" href={link(["compare"], { e: together.join(",") })}>Side by side</a>
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
