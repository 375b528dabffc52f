import { useState } from "preact/hooks";
import { get, post } from "../api";
import { bytes, count, plural } from "../format";
import { cite, Marked, Notice, Select, useLoaded } from "../parts/common";
import { DropFiles } from "../parts/drop";
import { Uploads, useUploads } from "../parts/uploads";
import { link } from "../router";
import type { About, Hit, IndexInfo } from "../types";

export function Indexes(props: { about: About; onChange: () => void }) {
  const { data, error, reload } = useLoaded(() => get<{ indexes: IndexInfo[] }>("/api/indexes"), []);
  if (error) return <Notice error={error} />;
  if (!data) return <Notice>Loading…</Notice>;
  const local = data.indexes.filter((index) => !index.remote);
  return (
    <div class="page wide">
      <h1>Indexes</h1>
      {data.indexes.length === 0 && (
        <Notice>
          {props.about.read_only
            ? <span>There is no index, and this server accepts no documents. Start it with <code>--index docs.sq</code>.</span>
            : "There is no index yet. Add documents below to make one."}
        </Notice>
      )}
      <ul class="tiles">
        {data.indexes.map((index) => (
          <li key={index.name}>
            {index.remote ? <b>{index.name}</b> : <a href={link(["indexes", index.name])}><b>{index.name}</b></a>}
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
          about={props.about}
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

/** A search in every mode that the index has. */
export function Search(props: { indexes: IndexInfo[] }) {
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
          {props.indexes.length > 1 && <Select label="Index" value={index.name} options={props.indexes.map((one) => one.name)} onChange={setName} />}
          <button class="primary" type="submit">Search</button>
        </div>
      </form>
      <div class="columns">
        {found.map(({ mode, hits, error }) => (
          <div key={mode}>
            <h3>{mode}</h3>
            {error && <Notice error={error} />}
            {hits?.length === 0 && <Notice>Nothing found. Try other words, or fewer.</Notice>}
            {hits?.map((hit) => {
              const { start = 0, end = 0 } = hit.highlight ?? {};
              return (
                <article key={hit.id} class="passage">
                  <h4>
                    <a href={link(["document"], { id: hit.id, index: index.name, quote: [...hit.text].slice(start, end).join("") })}>{hit.title || hit.id}</a>
                    <small>{hit.score.toFixed(3)}</small>
                  </h4>
                  <p><Marked text={hit.text} start={start} end={end} /></p>
                  <code>{hit.id}</code> <small>{cite("", hit.place)}</small>
                </article>
              );
            })}
          </div>
        ))}
      </div>
    </section>
  );
}

function Add(props: { about: About; names: string[]; onAdded: () => void }) {
  const [name, setName] = useState("");
  const [files, setFiles] = useState<File[]>([]);
  const [text, setText] = useState("");
  const uploading = useUploads(props.onAdded);

  function add() {
    const note = text.trim() ? [new File([text], `note-${new Date().toISOString().slice(0, 19).replaceAll(":", "-")}.txt`)] : [];
    uploading.add(name.trim() || "documents", [...files, ...note]);
    setFiles([]);
    setText("");
  }

  return (
    <section>
      <h2>Add documents</h2>
      <form
        class="composer"
        onSubmit={(e) => {
          e.preventDefault();
          add();
        }}
      >
        <DropFiles onFiles={(more) => setFiles([...files, ...more])} />
        <label class="hidden" for="text">Text</label>
        <textarea id="text" rows={1} placeholder="Or paste a text" value={text} onInput={(e) => setText(e.currentTarget.value)} />
        {files.length > 0 && (
          <p class="facts">
            {files.map((file, i) => (
              <span key={i} class="chip">
                {file.name} <i>{bytes(file.size)}</i>
                <button type="button" aria-label={`Leave out ${file.name}`} onClick={() => setFiles(files.filter((other) => other !== file))}>×</button>
              </span>
            ))}
          </p>
        )}
        <div class="row">
          <label class="select">
            <span>Into</span>
            <input list="names" placeholder="documents" value={name} aria-label="Name of the index" onInput={(e) => setName(e.currentTarget.value)} />
            <datalist id="names">{props.names.map((one) => <option key={one} value={one} />)}</datalist>
          </label>
          <span class="grow" />
          <button class="primary" type="submit" disabled={!files.length && !text.trim()}>Add</button>
        </div>
      </form>
      <Uploads uploading={uploading} ocr={props.about.ocr} />
    </section>
  );
}
