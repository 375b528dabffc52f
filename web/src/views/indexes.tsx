import { useState } from "preact/hooks";
import { get, post } from "../api";
import { bytes, count, plural } from "../format";
import { cite, Marked, Notice, Select, useLoaded } from "../parts/common";
import type { About, Hit, IndexInfo } from "../types";
import { ACCEPTED, upload } from "../upload";

export function Indexes(props: { about: About; onChange: () => void }) {
  const { data, error, reload } = useLoaded(() => get<{ indexes: IndexInfo[] }>("/api/indexes"), []);
  if (error) return <Notice error={error} />;
  if (!data) return <Notice>Loading…</Notice>;
  const local = data.indexes.filter((index) => !index.remote);
  return (
    <div class="page wide">
      <h1>Indexes</h1>
      {data.indexes.length === 0 && <Notice>There is no index yet. Add documents below to make one.</Notice>}
      <ul class="tiles">
        {data.indexes.map((index) => (
          <li key={index.name}>
            <b>{index.name}</b>
            {index.remote ? (
              <span>a search server elsewhere</span>
            ) : (
              <span>
                {plural(index.documents, "passage")} · {bytes(index.bytes)}
                <br />
                <small>{index.language}{index.vectors ? ` · ${count(index.vectors)} vectors` : " · words only"}</small>
              </span>
            )}
          </li>
        ))}
      </ul>
      {local.length > 0 && <Search indexes={local} />}
      {!props.about.read_only && (
        <Add
          names={local.map((index) => index.name)}
          onAdded={() => {
            reload();
            props.onChange();
          }}
        />
      )}
    </div>
  );
}

type Found = { mode: string; hits?: Hit[]; error?: Error };

function Search(props: { indexes: IndexInfo[] }) {
  const [name, setName] = useState(props.indexes[0]!.name);
  const [query, setQuery] = useState("");
  const [found, setFound] = useState<Found[]>([]);
  const index = props.indexes.find((one) => one.name === name) ?? props.indexes[0]!;

  async function search() {
    if (!query.trim()) return;
    const place = `/api/indexes/${encodeURIComponent(index.name)}/search`;
    const modes = index.modes ?? ["bm25"];
    setFound(
      await Promise.all(
        modes.map((mode) =>
          post<{ hits: Hit[] }>(place, { query, mode, k: 8 }).then(
            ({ hits }) => ({ mode, hits }),
            (error) => ({ mode, error }),
          ),
        ),
      ),
    );
  }

  return (
    <section>
      <h2>Try a search</h2>
      <form
        class="composer"
        onSubmit={(e) => {
          e.preventDefault();
          void search();
        }}
      >
        <div class="row">
          <input class="grow" type="search" aria-label="Query" placeholder="What to look for" value={query} onInput={(e) => setQuery(e.currentTarget.value)} />
          <Select label="Index" value={index.name} options={props.indexes.map((one) => one.name)} onChange={setName} />
          <button class="primary" type="submit">Search</button>
        </div>
      </form>
      <div class="columns">
        {found.map(({ mode, hits, error }) => (
          <div key={mode}>
            <h3>{mode}</h3>
            {error && <Notice error={error} />}
            {hits?.length === 0 && <Notice>Nothing found.</Notice>}
            {hits?.map((hit) => (
              <article key={hit.id} class="passage">
                <h4>{hit.title || hit.id} <small>{hit.score.toFixed(3)}</small></h4>
                <p><Marked text={hit.text} start={hit.highlight?.start ?? 0} end={hit.highlight?.end ?? 0} /></p>
                <code>{hit.id}</code> <small>{cite("", hit.meta)}</small>
              </article>
            ))}
          </div>
        ))}
      </div>
    </section>
  );
}

function Add(props: { names: string[]; onAdded: () => void }) {
  const [name, setName] = useState("");
  const [files, setFiles] = useState<File[]>([]);
  const [text, setText] = useState("");
  const [state, setState] = useState<{ said?: string; error?: Error; busy?: boolean }>({});
  const [over, setOver] = useState(false);

  async function add() {
    setState({ busy: true });
    try {
      const target = name.trim() || "documents";
      const done = await upload(target, files, text);
      const said = `${plural(done.added, "passage")} added to ${target}${done.updated ? `, ${done.updated} updated` : ""}.`;
      setState({ said: [said, ...done.problems].join(" ") });
      setFiles([]);
      setText("");
      props.onAdded();
    } catch (error) {
      setState({ error: error as Error });
    }
  }

  return (
    <section>
      <h2>Add documents</h2>
      <form
        class={`composer ${over ? "dropping" : ""}`}
        onSubmit={(e) => {
          e.preventDefault();
          void add();
        }}
        onDragOver={(e) => {
          e.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(e) => {
          e.preventDefault();
          setOver(false);
          setFiles([...files, ...(e.dataTransfer?.files ?? [])]);
        }}
      >
        <label class="hidden" for="text">Text</label>
        <textarea id="text" rows={3} placeholder="Paste a text, or drop files here: text, Markdown, PDF, Word, Excel, PowerPoint, HTML, JSON lines" value={text} onInput={(e) => setText(e.currentTarget.value)} />
        {files.length > 0 && <p class="facts">{files.map((file) => <span key={file.name} class="chip">{file.name} <i>{bytes(file.size)}</i></span>)}</p>}
        <div class="row">
          <label class="quiet button">
            Choose files
            <input class="hidden" type="file" multiple accept={ACCEPTED} onChange={(e) => setFiles([...files, ...(e.currentTarget.files ?? [])])} />
          </label>
          <label class="select">
            <span>Into</span>
            <input list="names" placeholder="documents" value={name} aria-label="Name of the index" onInput={(e) => setName(e.currentTarget.value)} />
            <datalist id="names">{props.names.map((one) => <option key={one} value={one} />)}</datalist>
          </label>
          <span class="grow" />
          <button class="primary" type="submit" disabled={state.busy || (!files.length && !text.trim())}>Add</button>
        </div>
      </form>
      {state.error && <Notice error={state.error} />}
      {state.said && <Notice>{state.said}</Notice>}
    </section>
  );
}
