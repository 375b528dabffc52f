import { useMemo, useState } from "preact/hooks";
import { percent } from "../format";
import { signs, sourceOf, type Trace } from "../trace";
import type { Evidence } from "../types";
import { cite, Marked } from "./common";

/** The answer with its quotations; a quotation opens to the document it stands in. */
export function Answer(props: {
  answer: string;
  evidence: Evidence[];
  confidence?: number;
  supported?: boolean;
  forced?: boolean;
  ending: string;
  trace: Trace;
  folded?: boolean;
}) {
  const [open, setOpen] = useState(!props.folded);
  const quotes = props.evidence.length;
  return (
    <section class={`answer ${props.folded ? "folded" : ""}`} aria-live="polite">
      <h2>Answer</h2>
      <p class={props.answer ? "text" : "text none"}>{props.answer || `No answer (${props.ending || "nothing came"})`}</p>
      <div class="facts">
        {props.forced && <span class="chip warn">forced by a limit</span>}
        {props.supported === false && <span class="chip warn">not supported by a document</span>}
        {props.confidence != null && (
          <span class="confidence" title="Geometric mean probability of the tokens of the answer">
            <span class="meter" aria-hidden="true">
              <span style={{ width: percent(props.confidence) }} />
            </span>
            confidence {percent(props.confidence)}
          </span>
        )}
        {props.folded && quotes > 0 && (
          <button class="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>{quotes} {quotes === 1 ? "quotation" : "quotations"}</button>
        )}
      </div>
      {open && quotes > 0 && (
        <ol class="evidence">
          {props.evidence.map((one, i) => (
            <Quote key={i} number={i + 1} evidence={one} trace={props.trace} />
          ))}
        </ol>
      )}
    </section>
  );
}

function Quote(props: { number: number; evidence: Evidence; trace: Trace }) {
  const [open, setOpen] = useState(false);
  const { evidence } = props;
  const source = useMemo(() => sourceOf(props.trace, evidence), [props.trace, evidence]);
  return (
    <li>
      <button class="quote" aria-expanded={open} onClick={() => setOpen(!open)} disabled={!source}>
        <span class="number">{props.number}</span>
        <span>
          <q>{evidence.quote}</q>
          <cite>
            {cite(evidence.title || evidence.id, evidence.place)} <code>{evidence.id}</code>
          </cite>
        </span>
        {source && <span class="opens" aria-hidden="true">{open ? "Hide" : "In its document"}</span>}
      </button>
      {open && source && (
        <div class="source">
          <Marked text={source.text} start={source.start} end={source.start + signs(evidence.quote)} />
        </div>
      )}
    </li>
  );
}
