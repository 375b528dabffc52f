import { useMemo, useState } from "preact/hooks";
import { seconds } from "../format";
import { cited, placeOfQuote, readDocuments, signs, type Context, type Trace } from "../trace";
import type { Event, Evidence, Hit } from "../types";
import { Marked, Notice, Tagged } from "./common";

/** What happened in a context, in order: what it was asked, what it did, what it handed back. */
export function ContextStory(props: {
  context: Context;
  trace: Trace;
  evidence: Evidence[];
  onSelect: (id: string) => void;
}) {
  const { context, trace } = props;
  const parent = trace.contexts.get(context.parent);
  const quotes = cited(props.evidence);
  const read = useMemo(() => (trace.order.some((c) => c.trajectory) ? readDocuments(trace) : null), [trace]);
  return (
    <div class="scroll story">
      <div class="handover sent">
        <h3>
          {parent ? (
            <>Task from <button class="text-link" onClick={() => props.onSelect(parent.id)}>{parent.role} {parent.id}</button></>
          ) : (
            "The question"
          )}
        </h3>
        <p>{context.task}</p>
      </div>
      {context.events.map((event) => (
        <Card key={event.seq} event={event} quotes={quotes} read={read} trace={trace} onSelect={props.onSelect} />
      ))}
      {context.result && (
        <div class="handover returned">
          <h3>
            {parent ? `Handed back to ${parent.role} ${parent.id}` : "Answered"}
            {context.forced && <span class="chip warn">forced</span>}
          </h3>
          <p>{context.result}</p>
        </div>
      )}
    </div>
  );
}

function Card(props: {
  event: Event;
  quotes: Map<string, Evidence>;
  read: Set<string> | null;
  trace: Trace;
  onSelect: (id: string) => void;
}) {
  const { event } = props;
  const data = event.data ?? {};
  const time = <time>{seconds(event.time)}</time>;
  switch (event.kind) {
    case "turn":
      return (
        <section class="card turn">
          <h3>Wrote {time}{data.finish === "length" && <span class="chip warn">cut</span>}</h3>
          <pre><Tagged text={data.text ?? ""} /></pre>
        </section>
      );
    case "plan":
      return data.steps?.length ? (
        <section class="card">
          <h3>Plan {time}</h3>
          <ol>{data.steps.map((step: unknown, i: number) => <li key={i}>{typeof step === "string" ? step : JSON.stringify(step)}</li>)}</ol>
        </section>
      ) : null;
    case "task":
      return (
        <section class="card link">
          <h3>Handed out {time}</h3>
          <button class="text-link" onClick={() => data.child && props.onSelect(data.child)}>{data.task}</button>
          {data.child && props.trace.contexts.get(data.child)?.result && (
            <p class="back">came back: <b>{props.trace.contexts.get(data.child)!.result}</b></p>
          )}
        </section>
      );
    case "search":
      return (
        <section class="card">
          <h3>Searched {time}</h3>
          {(data.queries ?? []).map((query: string, i: number) => <p key={i} class="query">{query}</p>)}
        </section>
      );
    case "documents":
      return <Documents hits={data.hits ?? []} query={data.query ?? ""} quotes={props.quotes} read={props.read} />;
    case "refine":
      return (
        <section class="card">
          <h3>Distilled {time}</h3>
          <p>{data.text}</p>
        </section>
      );
    case "memory":
      return (
        <section class="card">
          <h3>Memory: {data.action} {time}</h3>
          <pre>{(data.entries ?? []).map((e: unknown) => (typeof e === "string" ? e : JSON.stringify(e))).join("\n")}</pre>
        </section>
      );
    case "code":
      return (
        <section class="card">
          <h3>{data.tool ? `Called ${data.tool}` : "Ran code"} {time}{data.error && <span class="chip bad">failed</span>}</h3>
          <pre class="code">{data.source}</pre>
          {data.output && <pre class="output">{data.output}</pre>}
          {data.error && <pre class="output failed">{data.error}</pre>}
        </section>
      );
    case "page":
      return (
        <section class="card">
          <h3>Read a page {time}</h3>
          <p>{data.title} <code>{data.url ?? data.path}</code></p>
        </section>
      );
    case "error":
    case "retry":
    case "limit":
      return (
        <div class={`trouble ${event.kind}`} role="note">
          <span class={`chip ${event.kind === "error" ? "bad" : "warn"}`}>
            {event.kind}{event.kind === "retry" && data.attempt != null && ` ${data.attempt}`}
          </span>
          <span>
            {[data.where ?? data.what, data.message].filter(Boolean).join(": ")}
            {event.kind === "retry" && data.wait != null && ` (again after ${seconds(data.wait)})`}
          </span>
          {time}
        </div>
      );
    default:
      return null;
  }
}

/** What a search brought, best first: which documents a context was shown, and which the answer quotes. */
function Documents(props: { hits: Hit[]; query: string; quotes: Map<string, Evidence>; read: Set<string> | null }) {
  const [open, setOpen] = useState<number | null>(null);
  if (!props.hits.length) return <Notice>Nothing was found for “{props.query}”.</Notice>;
  return (
    <ol class="hits">
      {props.hits.map((hit, i) => {
        const quote = props.quotes.get(hit.id);
        const start = quote ? placeOfQuote(hit.text, quote.quote, quote.start) : -1;
        return (
          <li key={i}>
            <button aria-expanded={open === i} onClick={() => setOpen(open === i ? null : i)}>
              <b>{hit.title || hit.id}</b> <code>{hit.id}</code>
              {hit.source && <span class="chip">{hit.source}</span>}
              {props.read?.has(hit.id) && <span class="chip busy">read</span>}
              {quote && <span class="chip good">cited</span>}
              <small>{hit.score.toFixed(2)}</small>
            </button>
            {open === i && (
              <div class="source"><Marked text={hit.text} start={start} end={start < 0 ? start : start + signs(quote!.quote)} /></div>
            )}
          </li>
        );
      })}
    </ol>
  );
}
