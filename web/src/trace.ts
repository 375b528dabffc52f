/** An episode as its events tell it, live or stored: the tree of contexts and what happened in each. */

import type { Episode, Event, Evidence, Hit, Trajectory, Usage } from "./types";

export interface Context {
  id: string;
  role: string;
  task: string;
  parent: string;
  depth: number;
  opened: number;
  closed: number | null;
  events: Event[];
  prompt: { role: string; content: string }[];
  result: string;
  stopReason: string;
  forced: boolean;
  usage: Usage;
  children: Context[];
  troubles: number;
  trajectory?: Trajectory;
}

/** What one change of a shared memory left behind. */
export interface MemoryState {
  event: Event;
  action: string;
  entries: string[];
  fresh: Set<string>;
  gone: string[];
  tokens?: number;
}

export interface Trace {
  contexts: Map<string, Context>;
  roots: Context[];
  order: Context[];
  events: Event[];
  duration: number;
  answer: string | null;
  documents: Map<string, Hit>;
  /** Searches that belong to no context: RAG searches before it opens one. */
  usage: Usage;
}

function blank(id: string, time: number): Context {
  return {
    id, role: "", task: "", parent: "", depth: 0, opened: time, closed: null, events: [], prompt: [], result: "",
    stopReason: "", forced: false, usage: {}, children: [], troubles: 0,
  };
}

/** What an episode does itself, for the context that it opens next: there the story tells it. */
const LOOSE = new Set(["search", "documents", "error", "retry"]);
const TROUBLES = new Set(["error", "limit", "retry"]);

export function fold(events: Event[], episode?: Episode): Trace {
  const contexts = new Map<string, Context>();
  const documents = new Map<string, Hit>();
  const roots: Context[] = [];
  let answer: string | null = null;
  let usage: Usage = {};
  let before: Event[] = [];
  /** A follow-up as it was typed, and with what was said before it, as systems get it. */
  const { asked } = episode?.question.meta ?? {}, whole = episode?.question.question;
  for (const event of events) {
    const data = event.data ?? {};
    const id = event.trajectory ?? "";
    if (event.kind === "answer") answer = data.answer ?? "";
    if (event.kind === "documents") for (const hit of (data.hits ?? []) as Hit[]) documents.set(hit.id, hit);
    if (!id) {
      if (event.kind === "search") usage = plus(usage, { searches: (data.queries ?? []).length });
      if (LOOSE.has(event.kind)) before.push(event);
      continue;
    }
    let context = contexts.get(id);
    if (!context) {
      context = blank(id, event.time);
      context.events = before;
      context.troubles = before.filter((one) => TROUBLES.has(one.kind)).length;
      before = [];
      contexts.set(id, context);
      context.parent = data.parent ?? (id.includes(".") ? id.slice(0, id.lastIndexOf(".")) : "");
      const parent = contexts.get(context.parent);
      context.depth = parent ? parent.depth + 1 : 0;
      (parent ? parent.children : roots).push(context);
    }
    context.events.push(event);
    if (event.kind === "open") {
      context.role = data.role ?? "";
      context.task = (data.task === whole && asked) || (data.task ?? "");
      context.prompt = data.prompt ?? [];
    } else if (event.kind === "turn") {
      context.usage = plus(context.usage, data.usage ?? {});
    } else if (event.kind === "search") {
      context.usage = plus(context.usage, { searches: (data.queries ?? []).length });
    } else if (event.kind === "result") {
      context.result = data.result ?? "";
      context.forced = Boolean(data.forced);
    } else if (event.kind === "close") {
      context.closed = event.time;
      context.stopReason = data.stop_reason ?? "";
    } else if (TROUBLES.has(event.kind)) context.troubles++;
  }
  for (const trajectory of episode?.trajectories ?? []) {
    const context = contexts.get(trajectory.id);
    if (context) {
      context.trajectory = trajectory;
      context.result ||= trajectory.result ?? "";
      if (trajectory.usage) context.usage = trajectory.usage;
    }
  }
  const order: Context[] = [];
  const walk = (context: Context) => {
    order.push(context);
    context.children.forEach(walk);
  };
  roots.forEach(walk);
  const duration = events.length ? events[events.length - 1]!.time : 0;
  return { contexts, roots, order, events, duration, answer, documents, usage };
}

export function plus(a: Usage, b: Usage): Usage {
  const out: Usage = { ...a };
  for (const [key, value] of Object.entries(b) as [keyof Usage, number][])
    out[key] = key === "peak_context" ? Math.max(out[key] ?? 0, value) : (out[key] ?? 0) + value;
  return out;
}

/** Own and all descendants' usage. */
export function cumulative(context: Context): Usage {
  return context.children.reduce((sum, child) => plus(sum, cumulative(child)), context.usage);
}

export function tokens(usage: Usage | undefined): number {
  return (usage?.prompt_tokens ?? 0) + (usage?.completion_tokens ?? 0);
}

export function cited(evidence: Evidence[] | undefined): Map<string, Evidence> {
  return new Map((evidence ?? []).map((one) => [one.id, one]));
}

/** How many signs a text has; a sign beyond U+FFFF counts twice in its `length`. */
export function signs(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** At which sign of a text a quotation stands, near where it should; -1 where it is not in this text. */
export function placeOfQuote(text: string, quote: string, wanted = 0): number {
  if (!quote) return -1;
  if ([...text].slice(wanted, wanted + signs(quote)).join("") === quote) return wanted;
  const at = text.indexOf(quote);
  return at < 0 ? -1 : signs(text.slice(0, at));
}

const AROUND = 1500;

/**
 * The text that a quotation was taken from, and the sign at which it stands there: the document as a search gave it or,
 * of a page or a file that was opened, the stretch of a context in which it was shown.
 */
export function sourceOf(trace: Trace, evidence: Evidence): { text: string; start: number } | undefined {
  const hit = trace.documents.get(evidence.id);
  const start = hit ? placeOfQuote(hit.text, evidence.quote, evidence.start) : -1;
  if (start >= 0) return { text: hit!.text, start };
  for (const context of trace.order)
    for (const segment of context.trajectory?.segments ?? []) {
      const at = segment.kind === "agent" || !evidence.quote ? -1 : segment.text.indexOf(evidence.quote);
      if (at < 0) continue;
      const from = Math.max(0, at - AROUND), to = at + evidence.quote.length + AROUND;
      const text = `${from ? "…" : ""}${segment.text.slice(from, to)}${to < segment.text.length ? "…" : ""}`;
      return { text, start: signs(text.slice(0, at - from + (from ? 1 : 0))) };
    }
  return undefined;
}

/**
 * The shared memory after each change. DECOR tells the whole memory every time; HiRA and APEX tell what was added, and
 * HiRA also what was recalled for a task, which changes nothing.
 */
export function memory(events: Event[]): MemoryState[] {
  const out: MemoryState[] = [];
  let entries: string[] = [];
  for (const event of events) {
    if (event.kind !== "memory") continue;
    const data = event.data ?? {};
    const told = ((data.entries ?? []) as unknown[]).map(entryText);
    const whole = data.tokens != null;
    const before = entries;
    if (whole) entries = told;
    else if (data.action !== "recall") entries = [...entries, ...told];
    const fresh = new Set(data.action === "recall" ? told : entries.filter((entry) => !before.includes(entry)));
    const gone = before.filter((entry) => !entries.includes(entry));
    out.push({ event, action: data.action ?? "", entries, fresh, gone, tokens: data.tokens });
  }
  return out;
}

function entryText(entry: unknown): string {
  if (typeof entry === "string") return entry;
  const { query, evidence } = (entry ?? {}) as { query?: string; evidence?: string };
  if (evidence == null) return JSON.stringify(entry);
  return query ? `${query} → ${evidence}` : evidence;
}

/** Which documents some context was really shown: their words stand in what it was told. */
export function readDocuments(trace: Trace): Set<string> {
  const squeeze = (text: string) => text.replace(/\s+/g, " ");
  const shown: string[] = [];
  for (const context of trace.order)
    for (const segment of context.trajectory?.segments ?? [])
      if (segment.kind !== "agent") shown.push(squeeze(segment.text));
  const all = shown.join("\n");
  const out = new Set<string>();
  for (const [id, hit] of trace.documents) {
    const start = squeeze(hit.text).trim().slice(0, 60);
    if (start && all.includes(start)) out.add(id);
  }
  return out;
}

/** An episode as a list of steps, to be laid beside another one. */
export interface Step {
  kind: string;
  depth: number;
  text: string;
  context: string;
}

const STEPS: Record<string, (data: Record<string, any>) => string> = {
  plan: (d) => (d.steps ?? []).join("; "),
  task: (d) => d.task ?? "",
  search: (d) => (d.queries ?? []).join("; "),
  documents: (d) => ((d.hits ?? []) as Hit[]).map((hit) => hit.title || hit.id).join("; ") || "nothing found",
  refine: (d) => d.text ?? "",
  result: (d) => d.result ?? "",
  memory: (d) => `${d.action}: ${(d.entries ?? []).length}`,
  code: (d) => d.source ?? "",
  page: (d) => d.title || d.url || d.path || "",
  error: (d) => d.message ?? "",
  limit: (d) => d.what ?? "",
  answer: (d) => d.answer || "(none)",
};

export function steps(trace: Trace): Step[] {
  const out: Step[] = [];
  for (const event of trace.events) {
    const say = STEPS[event.kind];
    if (!say) continue;
    const context = event.trajectory ?? "";
    out.push({ kind: event.kind, depth: trace.contexts.get(context)?.depth ?? 0, text: oneLine(say(event.data ?? {})), context });
  }
  return out;
}

/** How many steps from the beginning are the same in all. */
export function common(lists: Step[][]): number {
  let same = 0;
  const shortest = Math.min(...lists.map((list) => list.length));
  while (same < shortest) {
    const first = lists[0]![same]!;
    if (!lists.every((list) => list[same]!.kind === first.kind && list[same]!.text === first.text)) break;
    same++;
  }
  return same;
}

/** One line that says what an event is about. */
export function headline(event: Event): string {
  const d = event.data ?? {};
  switch (event.kind) {
    case "start": return d.question ?? "";
    case "open": return `${d.role ?? ""}: ${d.task ?? ""}`;
    case "turn": return oneLine(d.text ?? "");
    case "plan": return (d.steps ?? []).map((s: unknown) => String(s)).join("  ·  ");
    case "task": return d.task ?? "";
    case "search": return (d.queries ?? []).join("  ·  ");
    case "documents": return `${(d.hits ?? []).length} for ${d.query ?? ""}`;
    case "refine": return oneLine(d.text ?? "");
    case "result": return d.result ?? "";
    case "memory": return `${d.action ?? ""} ${(d.entries ?? []).length}`;
    case "code": return oneLine(d.source ?? "");
    case "page": return d.title || d.url || d.path || "";
    case "answer": return d.answer || "(none)";
    case "close":
    case "end": return d.stop_reason ?? "";
    default: return [d.where ?? d.what, d.message].filter(Boolean).join(": ");
  }
}

export function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

/** Failures in words, the same words once: an agent records what stopped it, and so do those that waited for it. */
export function failuresOf(episode: Episode | undefined): { text: string; where: string }[] {
  const found = new Map<string, { text: string; where: string }>();
  for (const { where, message } of episode?.errors ?? []) {
    const text = `${where}: ${message}`;
    found.set(text, { text, where });
  }
  return [...found.values()];
}
