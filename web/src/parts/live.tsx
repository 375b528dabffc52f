import { useEffect, useRef, useState } from "preact/hooks";
import { seconds } from "../format";
import { oneLine, type Trace } from "../trace";
import type { Event } from "../types";
import { Tagged } from "./common";

/** Seconds since the episode began. `known` are the seconds that the server or an event has told so far. */
export function useClock(running: boolean, known: number): number {
  const began = useRef(Infinity);
  const [, tick] = useState(0);
  if (running && known > 0) began.current = Math.min(began.current, performance.now() - 1000 * known);
  useEffect(() => {
    if (!running) return;
    const timer = setInterval(() => tick((n) => n + 1), 200);
    return () => clearInterval(timer);
  }, [running]);
  return running && began.current < Infinity ? (performance.now() - began.current) / 1000 : known;
}

const SHOWN = 700;

/** The turns that are being written, word by word. */
export function Writing(props: { trace: Trace; texts: Record<string, string> }) {
  const open = Object.entries(props.texts).filter(([, text]) => text.trim());
  if (!open.length) return null;
  return (
    <section class="writing" aria-label="Being written">
      {open.map(([id, text]) => {
        const context = props.trace.contexts.get(id);
        return (
          <div key={id}>
            <h2 class="label"><span class="dot pulsing" aria-hidden="true" /> {context?.role || "context"} <small>{context?.task}</small></h2>
            <pre>{text.length > SHOWN && "…"}<Tagged text={text.slice(-SHOWN)} /></pre>
          </div>
        );
      })}
    </section>
  );
}

interface Note {
  seq: number;
  time: number;
  about: string;
  text: string;
  kind: "note" | "finding";
}

/** What has been noted and found so far: distilled documents, results of sub-tasks, additions to a shared memory. */
export function notesOf(trace: Trace): Note[] {
  const out: Note[] = [];
  const add = (event: Event, kind: Note["kind"], text: string, about: string) => {
    if (oneLine(text)) out.push({ seq: out.length, time: event.time, about, text, kind });
  };
  for (const event of trace.events) {
    const context = trace.contexts.get(event.trajectory ?? "");
    const data = event.data ?? {};
    if (event.kind === "refine") add(event, "note", data.text ?? "", context?.task ?? "");
    else if (event.kind === "result" && context?.parent) add(event, "finding", data.result ?? "", context.task);
    else if (event.kind === "memory" && ["add", "remember"].includes(data.action)) {
      const last = (data.entries ?? []).at?.(-1);
      add(event, "note", typeof last === "string" ? last : (last?.evidence ?? ""), last?.query ?? "");
    }
  }
  return out;
}

export function Notes(props: { notes: Note[] }) {
  return (
    <ol class="notes">
      {props.notes.map((note) => (
        <li key={note.seq} class={note.kind}>
          <span class="about">{note.about}</span>
          <span class="text">{note.text}</span>
          <time>{seconds(note.time)}</time>
        </li>
      ))}
    </ol>
  );
}
