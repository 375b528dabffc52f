import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../api";
import { counted, Marked, Notice, useLoaded } from "../parts/common";
import { go, link } from "../router";
import { placeOfQuote, signs } from "../trace";
import type { PagePicture, Passage } from "../types";

const AROUND = 20;
/** Signs of a quote by which its line is found. */
const LONGEST = 1000;
const PLACES = ["page", "slide", "sheet"];

/** A document at the place of a quote: the file's page as it looks, or its text. */
export function DocumentView(props: { query: URLSearchParams }) {
  const id = props.query.get("id") ?? "", quote = props.query.get("quote") ?? "", wanted = props.query.get("index") ?? "";
  const found = useLoaded(async () => {
    const { index } = await get<{ index: string }>(`/api/cited?${new URLSearchParams({ id, quote, index: wanted })}`);
    if (!index) return null;
    const asked = new URLSearchParams({ id, around: String(AROUND), quote: [...quote].slice(0, LONGEST).join("") });
    return { index, passage: await get<Passage>(`/api/indexes/${encodeURIComponent(index)}/document?${asked}`) };
  }, [id, quote, wanted]);
  if (found.error) return <Notice error={found.error} />;
  if (found.data === undefined) return <Notice>Loading…</Notice>;
  if (!found.data)
    return (
      <>
        <h1 class="hidden">No such document</h1>
        <Notice>
          <span><code>{id}</code> is in no index of this server any more: its file was removed, or read again with other passages.</span>
          <a href="#/indexes">Indexes</a>
        </Notice>
      </>
    );
  return <Loaded key={found.data.passage.id} {...found.data} quote={quote} query={props.query} />;
}

function Loaded(props: { index: string; passage: Passage; quote: string; query: URLSearchParams }) {
  const { passage, quote, index } = props;
  const file = String(passage.meta.file ?? "");
  const drawable = /\.pdf$/i.test(file) && typeof passage.meta.page === "number" && passage.meta.member == null;
  const [failed, setFailed] = useState<Error>();
  const view = drawable && !failed && props.query.get("view") !== "text" ? "page" : "text";
  const show = (changed: Record<string, string>) =>
    go(["document"], { ...Object.fromEntries(props.query), ...changed }, true);
  const name = (passage.meta.member ?? file).split("/").pop() || passage.title || passage.id;
  const start = placeOfQuote(passage.text, quote);
  return (
    <div class="page document">
      <nav class="crumbs" aria-label="Where you are">
        <a href="#/indexes">Indexes</a> / <a href={link(["indexes", index])}>{index}</a>
      </nav>
      <header class="find">
        <div>
          <h1>{name}</h1>
          <p class="facts">
            <span>{where(passage)}</span>
            {passage.meta.superseded_by && <span class="chip warn">superseded by {passage.meta.superseded_by}</span>}
          </p>
        </div>
        {drawable && (
          <div class="switch" role="group" aria-label="Show as">
            <button aria-pressed={view === "page"} disabled={!!failed} onClick={() => show({ view: "" })}>Page</button>
            <button aria-pressed={view === "text"} onClick={() => show({ view: "text" })}>Text</button>
          </div>
        )}
      </header>
      {failed && <Notice>Shown as text: {failed.message}.</Notice>}
      {quote && start < 0 && <Notice>The quote is not in this passage word for word: the document has changed since.</Notice>}
      {view === "page" ? (
        <Picture index={index} passage={passage} quote={quote || passage.text} onFail={setFailed} />
      ) : (
        <Text index={index} passage={passage} quote={quote} start={start} />
      )}
    </div>
  );
}

/** "page 3", "sheet Costs, row 7", "line 12", "paragraph 4": the place as a person would look it up. */
function where(passage: Passage): string {
  const meta: Record<string, any> = { ...passage.meta, row_end: null, line_end: null, ...passage.place };
  const place = [...PLACES, "row", meta.page == null ? "line" : "", "paragraph"].map((field) => counted(meta, field));
  return [...place, meta.section ?? ""].filter(Boolean).join(", ") || passage.title || passage.id;
}

/** A page as it looks, with the quote marked on it. */
function Picture(props: { index: string; passage: Passage; quote: string; onFail: (error: Error) => void }) {
  const { passage } = props;
  const own = passage.meta.page as number;
  const [number, setNumber] = useState(own);
  const [wide, setWide] = useState(false);
  const first = useRef<HTMLSpanElement>(null);
  const query = new URLSearchParams({ id: passage.id, page: String(number), quote: number === own ? props.quote.slice(0, 5000) : "" });
  const { data, error } = useLoaded(() => get<PagePicture>(`/api/indexes/${encodeURIComponent(props.index)}/page?${query}`), [props.index, passage.id, number, props.quote]);
  useEffect(() => {
    if (error) props.onFail(error);
  }, [error]);
  useEffect(() => first.current?.scrollIntoView({ block: "center" }), [data, wide]);
  const pages = data?.pages ?? own;
  const turn = (step: number) => setNumber(Math.min(pages, Math.max(1, number + step)));
  useEffect(() => {
    const press = (e: KeyboardEvent) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
      if (!step || e.ctrlKey || e.metaKey || e.altKey || (e.target as HTMLElement).closest("input, textarea, select")) return;
      e.preventDefault();
      turn(step);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });
  if (!data) return <Notice>Drawing the page…</Notice>;
  const marks = data.page === own ? (data.marks ?? []) : [];
  return (
    <section class="sheet" aria-label={`Page ${data.page}`}>
      <div class="turn">
        <button class="quiet" disabled={number <= 1} onClick={() => turn(-1)}>Previous</button>
        <span>Page {data.page} of {data.pages}</span>
        <button class="quiet" disabled={number >= pages} onClick={() => turn(1)}>Next</button>
        {number !== own && <button class="text-link" onClick={() => setNumber(own)}>Back to page {own}</button>}
        <span class="grow" />
        <button class="quiet" aria-pressed={wide} onClick={() => setWide(!wide)}>{wide ? "Fit" : "Zoom in"}</button>
      </div>
      <div class={`picture ${wide ? "wide" : ""}`} tabIndex={0} role="region" aria-label={`Picture of page ${data.page}`}>
        <div class="paper">
          <img src={`data:image/png;base64,${data.png}`} width={data.width} height={data.height} alt={`Page ${data.page} of ${data.file}; its text is under Text`} />
          {marks.map(([left, top, width, height], i) => (
            <span
              key={i}
              ref={i ? undefined : first}
              class="marked"
              style={{ left: `${left * 100}%`, top: `${top * 100}%`, width: `${width * 100}%`, height: `${height * 100}%` }}
            />
          ))}
        </div>
      </div>
    </section>
  );
}

/** The text of a file around a passage, as far as it was asked for. */
function Text(props: { index: string; passage: Passage; quote: string; start: number }) {
  const { passage } = props;
  const [before, setBefore] = useState({ passages: passage.before ?? [], more: passage.more_before });
  const [after, setAfter] = useState({ passages: passage.after ?? [], more: passage.more_after });
  const [error, setError] = useState<Error>();
  const here = useRef<HTMLElement>(null);
  useEffect(() => (here.current?.querySelector("mark") ?? here.current)?.scrollIntoView({ block: "center" }), []);

  async function more(end: Passage, way: "before" | "after") {
    try {
      const found = await get<Passage>(`/api/indexes/${encodeURIComponent(props.index)}/document?${new URLSearchParams({ id: end.id, around: "50" })}`);
      if (way === "before") setBefore({ passages: [...(found.before ?? []), ...before.passages], more: found.more_before });
      else setAfter({ passages: [...after.passages, ...(found.after ?? [])], more: found.more_after });
      setError(undefined);
    } catch (failed) {
      setError(failed as Error);
    }
  }

  const all = [...before.passages, passage, ...after.passages];
  return (
    <article class="running">
      {error && <Notice error={error} />}
      {before.more && <button class="quiet" onClick={() => void more(all[0]!, "before")}>Earlier in the document</button>}
      {all.map((one, i) => {
        const heading = headingOf(one, all[i - 1]);
        const own = one.id === passage.id;
        return (
          <section key={one.id} ref={own ? here : undefined} class={own ? "here" : ""}>
            {heading && <h2>{heading}</h2>}
            <p>{own && props.start >= 0 ? <Marked text={one.text} start={props.start} end={props.start + signs(props.quote)} /> : one.text}</p>
          </section>
        );
      })}
      {after.more && <button class="quiet" onClick={() => void more(all[all.length - 1]!, "after")}>Later in the document</button>}
    </article>
  );
}

/** What is said above a passage: its page and section, where they are not those of the passage before. */
function headingOf(passage: Passage, before: Passage | undefined): string {
  const parts = (one: Passage) => [...PLACES.map((field) => (one.meta[field] == null ? "" : `${field} ${one.meta[field]}`)), one.meta.section ?? ""].filter(Boolean).join(" · ");
  const now = parts(passage);
  return before && parts(before) === now ? "" : now;
}
