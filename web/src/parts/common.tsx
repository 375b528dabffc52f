import { Component, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, get, Unreachable } from "../api";

/** Milliseconds after which a server that did not answer is tried again. */
const RETRY = 2000;

/** Load something, and again whenever a dependency changes, or a server that did not answer may be back. */
export function useLoaded<T>(load: () => Promise<T>, needs: unknown[]): { data?: T; error?: Error; reload: () => void } {
  const [state, setState] = useState<{ data?: T; error?: Error }>({});
  const [round, setRound] = useState(0);
  useEffect(() => {
    let current = true;
    let retry: ReturnType<typeof setTimeout>;
    load().then(
      (data) => current && setState({ data }),
      (error) => {
        if (!current) return;
        setState({ error });
        if (error instanceof Unreachable) retry = setTimeout(() => setRound((n) => n + 1), RETRY);
      },
    );
    return () => {
      current = false;
      clearTimeout(retry);
    };
  }, [...needs, round]);
  return { ...state, reload: () => setRound((n) => n + 1) };
}

/** Does one thing at a time: what is asked for while it is being done is not done a second time. */
export function useOnce(): (work: () => Promise<void>) => Promise<void> {
  const busy = useRef(false);
  return async (work) => {
    if (busy.current) return;
    busy.current = true;
    try {
      await work();
    } finally {
      busy.current = false;
    }
  };
}

/** Keeps what cannot be shown from taking the rest of the page with it; a new key tries again. */
export class Boundary extends Component<{ children?: ComponentChildren }, { error?: Error }> {
  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  render() {
    const { error } = this.state;
    return error ? <Notice kind="error">This cannot be shown: what is stored is not as it should be ({error.message}).</Notice> : this.props.children;
  }
}

/** Whether the server that did not answer, which is the error, is back; then `onBack` is called. */
function useReturn(error: Error | undefined, onBack?: () => void): boolean {
  const [returned, setReturned] = useState<Error>();
  useEffect(() => {
    if (!(error instanceof Unreachable) || returned === error) return;
    const found = () => {
      setReturned(error);
      onBack?.();
    };
    const timer = setInterval(() => void get("/health").then(found, () => undefined), RETRY);
    return () => clearInterval(timer);
  }, [error, returned]);
  return error !== undefined && returned === error;
}

/** What went wrong, or what there is to say. That the server does not answer is said until it is back. */
export function Notice(props: { error?: Error; onBack?: () => void; children?: ComponentChildren; kind?: "error" | "empty" }) {
  const kind = props.error ? "error" : (props.kind ?? "empty");
  if (useReturn(props.error, props.onBack)) return null;
  return (
    <div class={`notice ${kind}`} role={kind === "error" ? "alert" : "status"}>
      <span>{props.error ? props.error.message : props.children}</span>
      {props.error && props.children}
      {props.error instanceof ApiError && props.error.status === 0 && (
        <button class="quiet" onClick={() => location.reload()}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Select(props: { label: string; value: string; options: string[]; onChange: (value: string) => void; names?: Record<string, string> }) {
  return (
    <label class="select">
      <span>{props.label}</span>
      <select aria-label={props.label} value={props.value} onChange={(e) => props.onChange(e.currentTarget.value)}>
        {props.options.map((option) => (
          <option key={option} value={option}>
            {props.names?.[option] || option || "all"}
          </option>
        ))}
      </select>
    </label>
  );
}

export function Chip(props: { label?: string; children: ComponentChildren; tone?: string }) {
  return (
    <span class={`chip ${props.tone ?? ""}`}>
      {props.label && <i>{props.label}</i>}
      {props.children}
    </span>
  );
}

const TONES: Record<string, string> = {
  answered: "good", finished: "good", abstained: "", running: "busy", queued: "busy", failed: "bad", crashed: "bad",
};

const ENDINGS: Record<string, string> = { abstained: "unknown", unstored: "not stored yet" };

export function Ending(props: { ending: string; forced?: boolean }) {
  const tone = props.forced ? "warn" : (TONES[props.ending] ?? "warn");
  const forced = props.forced && props.ending !== "forced";
  const ending = ENDINGS[props.ending] ?? (props.ending || "not known");
  return <Chip tone={tone}>{forced ? `${ending}, forced` : ending}</Chip>;
}

/** A title, and where in its file a quote stands: "report.pdf, page 3", "costs.xlsx, sheet May, row 7". */
export function cite(title: string, place: Record<string, any> = {}): string {
  const file = String(place.file ?? "").split("/").pop()!;
  const whole = counted(place, "page") || counted(place, "slide");
  const within = whole ? [whole] : ["sheet", "row", "line", "paragraph"].map((field) => counted(place, field));
  return [title, file && !title.includes(file) ? file : "", ...within].filter(Boolean).join(", ");
}

/** "line 7", "rows 2 to 9"; empty where the place has no such field. */
export function counted(place: Record<string, any>, field: string): string {
  const first = place[field], last = place[`${field}_end`];
  if (first == null) return "";
  return last ? `${field}s ${first} to ${last}` : `${field} ${first}`;
}

/** A text with one stretch of it marked, from sign to sign, as the server counts them. */
export function Marked(props: { text: string; start: number; end: number }) {
  const { text } = props;
  if (props.end <= props.start) return <>{text}</>;
  let start = 0, end = 0, count = 0;
  for (const sign of text) {
    if (count === props.end) break;
    if (count++ < props.start) start += sign.length;
    end += sign.length;
  }
  return (
    <>
      {text.slice(0, start)}
      <mark>{text.slice(start, end)}</mark>
      {text.slice(end)}
    </>
  );
}

const TAGS = /(<\/?[a-z][a-z_-]{1,20}>)/g;

/** Model output with its tags set apart; everything is text, never markup. */
export function Tagged(props: { text: string }) {
  const parts = props.text.split(TAGS);
  return <>{parts.map((part, i) => (i % 2 ? <span key={i} class="tag">{part}</span> : part))}</>;
}
