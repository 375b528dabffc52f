import { useState } from "preact/hooks";
import { get, post, remove } from "../api";
import { bytes, count, plural, when } from "../format";
import { Notice, useLoaded, useOnce } from "../parts/common";
import { DropFiles } from "../parts/drop";
import { Uploads, useUploads } from "../parts/uploads";
import { link } from "../router";
import type { About, FileInfo, FilePage, IndexInfo } from "../types";
import type { Sent } from "../upload";
import { Search } from "./indexes";

const PAGE = 100;
const STATES: Record<FileInfo["state"], [string, string]> = {
  read: ["good", "read"],
  partly: ["warn", "partly read"],
  failed: ["bad", "not read"],
  empty: ["warn", "no text"],
  unfinished: ["warn", "unfinished"],
};

/** One index: its files, more of them, and what they say. */
export function IndexView(props: { name: string; about: About; onChange: () => void }) {
  const place = `/api/indexes/${encodeURIComponent(props.name)}`;
  const [text, setText] = useState("");
  const [limit, setLimit] = useState(PAGE);
  const indexes = useLoaded(() => get<{ indexes: IndexInfo[] }>("/api/indexes"), [props.name]);
  const query = new URLSearchParams({ text, limit: String(Math.min(limit, 500)) });
  const files = useLoaded(() => get<FilePage>(`${place}/files?${query}`), [props.name, text, limit]);
  const changed = () => {
    indexes.reload();
    files.reload();
    props.onChange();
  };
  const uploading = useUploads(changed);
  const back = <nav class="crumbs" aria-label="Where you are"><a href="#/indexes">Indexes</a></nav>;
  if (indexes.error ?? files.error) return <Notice error={indexes.error ?? files.error}><a href="#/indexes">All indexes</a></Notice>;
  if (!indexes.data || !files.data) return <Notice>Loading…</Notice>;
  const index = indexes.data.indexes.find((one) => one.name === props.name);
  const { total } = files.data;
  return (
    <div class="page wide">
      {back}
      <h1>{props.name}</h1>
      <p class="facts">
        <span>{plural(index?.documents, "passage")}</span>
        {!text && <span>from {plural(total, "file")}</span>}
        <span>{bytes(index?.bytes)}</span>
        <small>{index?.language}{index?.vectors ? ` · ${count(index.vectors)} vectors` : " · words only"}</small>
      </p>
      {!props.about.read_only && (
        <section>
          <DropFiles onFiles={(more) => uploading.add(props.name, more)} />
          <Uploads uploading={uploading} ocr={props.about.ocr} />
        </section>
      )}
      <section>
        <div class="find">
          <h2>Files</h2>
          {(total > 10 || text) && (
            <input type="search" aria-label="Search files" placeholder="Search files" value={text} onInput={(e) => setText(e.currentTarget.value)} />
          )}
        </div>
        {total === 0 ? (
          <Notice>
            {text
              ? "No file has this in its name."
              : index?.documents
                ? "This index was made of records, not of files: its documents can be searched below."
                : props.about.read_only
                  ? "This index is empty, and this server accepts no documents."
                  : "This index is empty. Add files above; then ask about them."}
          </Notice>
        ) : (
          <FileTable place={place} index={props.name} files={files.data.files} about={props.about} onChange={changed} />
        )}
        {files.data.files.length < total && limit < 500 && (
          <button class="text-link more" onClick={() => setLimit(limit + PAGE)}>Show more of the {count(total)} files</button>
        )}
        {files.data.files.length < total && limit >= 500 && <p class="more"><small>{count(total)} files in all: search for the others.</small></p>}
      </section>
      {index && !!index.documents && <Search key={props.name} indexes={[index]} />}
    </div>
  );
}

function FileTable(props: { place: string; index: string; files: FileInfo[]; about: About; onChange: () => void }) {
  return (
    <table class="files">
      <caption class="hidden">Files of {props.index}</caption>
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Kind</th>
          <th scope="col" class="number">Pages</th>
          <th scope="col" class="number">Passages</th>
          <th scope="col" class="number">Size</th>
          <th scope="col">Changed</th>
          <th scope="col">State</th>
          <th scope="col"><span class="hidden">What to do</span></th>
        </tr>
      </thead>
      <tbody>
        {props.files.map((file) => <FileRow key={file.name} {...props} file={file} />)}
      </tbody>
    </table>
  );
}

/** The name of a file as a person knows it: without the index's own name. */
const shortName = (index: string, name: string): string => (name.startsWith(`${index}/`) ? name.slice(index.length + 1) : name);

function FileRow(props: { place: string; index: string; file: FileInfo; about: About; onChange: () => void }) {
  const { file } = props;
  const [removing, setRemoving] = useState(false);
  const [busy, setBusy] = useState(false);
  const [told, setTold] = useState<{ error?: Error; said?: string }>({});
  const once = useOnce();
  const name = shortName(props.index, file.name);
  const query = new URLSearchParams({ name: file.name });

  const act = (work: () => Promise<string>) =>
    void once(async () => {
      setBusy(true);
      setTold({});
      try {
        setTold({ said: await work() });
        props.onChange();
      } catch (error) {
        setTold({ error: error as Error });
      }
      setBusy(false);
      setRemoving(false);
    });
  const reread = (ocr = false) =>
    act(async () => {
      const done = await post<Sent>(`${props.place}/file/read?${query}${ocr ? "&ocr=true" : ""}`);
      return done.added || done.updated ? `Read again: ${plural(done.added, "passage")} added, ${count(done.updated)} updated.` : "Read again: nothing has changed.";
    });

  const [tone, state] = STATES[file.state];
  const note = told.error?.message ?? told.said ?? [file.note, file.reachable ? "" : "The file is no longer where it was read."].filter(Boolean).join(". ");
  return (
    <>
      <tr class={note || removing ? "noted" : ""}>
        <th scope="row">{file.passages ? <a href={link(["document"], { id: `${file.name}#1`, index: props.index })}>{name}</a> : name}</th>
        <td class="kind">{file.kind.toUpperCase()}</td>
        <td class="number" data-unit={file.pages === 1 ? "page" : "pages"}>{file.pages ? count(file.pages) : ""}</td>
        <td class="number" data-unit={file.passages === 1 ? "passage" : "passages"}>{count(file.passages)}</td>
        <td class="number">{file.bytes == null ? "" : bytes(file.bytes)}</td>
        <td>{file.modified == null ? "" : when(file.modified)}</td>
        <td class="state">{busy ? <span class="chip busy"><span class="dot pulsing" /> working</span> : <span class={`chip ${tone}`}>{state}</span>}</td>
        <td class="actions">
          {!props.about.read_only && !removing && (
            <>
              {file.state !== "read" && props.about.ocr && file.reachable && file.kind === "pdf" && (
                <button class="quiet" disabled={busy} onClick={() => reread(true)}>Read with OCR</button>
              )}
              {file.reachable && <button class="quiet" disabled={busy} aria-label={`Read ${name} again`} onClick={() => reread()}>Read again</button>}
              <button class="quiet" disabled={busy} aria-label={`Remove ${name}`} onClick={() => setRemoving(true)}>Remove</button>
            </>
          )}
        </td>
      </tr>
      {removing ? (
        <tr class="note">
          <td colSpan={8}>
            <span role="alert">Remove {name} and its {plural(file.passages, "passage")} from {props.index}?</span>{" "}
            <button class="quiet danger" ref={(button) => button?.focus()} disabled={busy} onClick={() => act(async () => (await remove(`${props.place}/file?${query}`), ""))}>Remove</button>{" "}
            <button class="quiet" disabled={busy} onClick={() => setRemoving(false)}>Keep</button>
          </td>
        </tr>
      ) : note ? (
        <tr class="note"><td colSpan={8} class={told.error || file.state === "failed" ? "bad" : ""}><span role={told.error ? "alert" : "status"}>{note}</span></td></tr>
      ) : null}
    </>
  );
}
