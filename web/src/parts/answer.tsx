import { useMemo, useState } from "preact/hooks";
import { save } from "../api";
import { percent } from "../format";
import { link } from "../router";
import { signs, sourceOf, type Trace } from "../trace";
import type { Evidence, Report } from "../types";
import { cite, Marked, Notice } from "./common";

/** What it means that only the parts of an answer are supported. */
export const PARTS = "The quotations support what the answer was concluded from. Whether the conclusion is right, no rule could check";

/** The answer with its quotations; a quotation opens to the document it stands in. */
export function Answer(props: {
  answer: string;
  report?: Report;
  /** Where the answer can be downloaded as a document. */
  download?: string;
  evidence: Evidence[];
  confidence?: number;
  /** How likely it is right, in words. */
  likely?: string;
  supported?: boolean;
  parts?: boolean;
  forced?: boolean;
  ending: string;
  trace: Trace;
  /** The index it was asked of; without one, as in an exported trace, documents cannot be opened. */
  index?: string;
  folded?: boolean;
}) {
  const [open, setOpen] = useState(!props.folded);
  const [failed, setFailed] = useState<Error>();
  const quotes = props.evidence.length;
  const download = (form: string) => save(`${props.download}?format=${form}`, `report.${form}`).then(() => setFailed(undefined), setFailed);
  return (
    <section class={`answer ${props.folded ? "folded" : ""}`} aria-live="polite">
      <h2>Answer</h2>
      {props.report?.sections?.length && !props.folded ? (
        <Written report={props.report} />
      ) : (
        <p class={props.answer ? "text" : "text none"}>{props.answer || (props.ending === "abstained" ? "Unknown" : ["", "no answer"].includes(props.ending) ? "No answer" : `No answer (${props.ending})`)}</p>
      )}
      {!props.answer && props.ending === "abstained" && <p class="calm">The documents that were read do not say.</p>}
      <div class="facts">
        {props.likely && <span class="likely">{props.likely}</span>}
        {props.forced && <span class="chip warn">forced by a limit</span>}
        {props.supported === false && props.parts && <span class="chip" title={PARTS}>its parts are supported, the conclusion is not checked</span>}
        {props.supported === false && !props.parts && <span class="chip warn" title="No document that was read states this answer: it may come from the model's memory">not supported by a document</span>}
        {props.confidence != null && (
          <span class="confidence" title="Geometric mean probability of the tokens of the answer">
            <span class="meter" aria-hidden="true">
              <span style={{ width: percent(props.confidence) }} />
            </span>
            token probability {percent(props.confidence)}
          </span>
        )}
        {!!props.report?.dropped && <span class="chip">{props.report.dropped} unsupported dropped</span>}
        {props.report?.style === "report" && props.download && (
          <span class="downloads">
            Download
            {["md", "html", "docx", "pdf"].map((form) => (
              <button key={form} class="quiet" onClick={() => void download(form)}>{form.toUpperCase()}</button>
            ))}
          </span>
        )}
        {props.folded && quotes > 0 && (
          <button class="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>{quotes} {quotes === 1 ? "quotation" : "quotations"}</button>
        )}
      </div>
      {failed && <Notice error={failed} />}
      {open && quotes > 0 && (
        <ol class="evidence">
          {props.evidence.map((one, i) => (
            <Quote key={i} number={i + 1} evidence={one} trace={props.trace} index={props.index} marked={quotes > 1 && one.states_answer} />
          ))}
        </ol>
      )}
    </section>
  );
}

/** Sentences with the numbers of the quotations below that support them. */
function Written(props: { report: Report }) {
  return (
    <div class={`written ${props.report.style}`}>
      {props.report.sections!.map((section, i) => (
        <section key={i}>
          {section.title && <h3>{section.title}</h3>}
          <p class={section.sentences?.length ? "" : "none"}>
            {section.sentences?.map((sentence, j) => (
              <span key={j}>{sentence.text} <sup>{(sentence.sources ?? []).map((n) => `[${n}]`).join("")}</sup> </span>
            ))}
            {!section.sentences?.length && `${section.missing?.slice(0, 1).toUpperCase()}${section.missing?.slice(1)}.`}
          </p>
        </section>
      ))}
    </div>
  );
}

/** Sections of a report while the others are being written. */
export function Sections(props: { texts: string[] }) {
  if (!props.texts.length) return null;
  return (
    <section class="answer" aria-live="polite">
      <h2>Report so far</h2>
      <div class="written report">{props.texts.map((text, i) => <p key={i} class="draft">{text.replace(/^## /, "")}</p>)}</div>
    </section>
  );
}

function Quote(props: { number: number; evidence: Evidence; trace: Trace; index?: string; marked?: boolean }) {
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
            {props.marked && <span class="chip">states the answer</span>}
          </cite>
        </span>
        {source && <span class="opens" aria-hidden="true">{open ? "Hide" : "In its document"}</span>}
      </button>
      {props.index != null && !evidence.place?.url && (
        <a class="cited" href={link(["document"], { id: evidence.id, quote: evidence.quote, index: props.index })}>
          Open document<span class="hidden"> of quotation {props.number}</span>
        </a>
      )}
      {open && source && (
        <div class="source">
          <Marked text={source.text} start={source.start} end={source.start + signs(evidence.quote)} />
        </div>
      )}
    </li>
  );
}
