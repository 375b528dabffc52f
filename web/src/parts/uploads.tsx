import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../api";
import { bytes, count, percent, plural } from "../format";
import type { FilePage } from "../types";
import { isScan, names, send } from "../upload";

interface Row {
  key: number;
  index: string;
  file: File;
  name: string;
  ocr: boolean;
  state: "waiting" | "arriving" | "done" | "failed";
  share: number;
  told: string;
}

let keys = 0;
const POLL = 1000;

export interface Uploading {
  rows: Row[];
  busy: boolean;
  add: (index: string, files: File[], ocr?: boolean) => void;
  dismiss: (key: number) => void;
}

/** Files on their way into indexes, one at a time; one that fails does not keep the others from arriving. */
export function useUploads(onAdded: () => void): Uploading {
  const [rows, setRows] = useState<Row[]>([]);
  const queue = useRef(Promise.resolve());
  const told = useRef(onAdded);
  told.current = onAdded;
  const change = (key: number, now: Partial<Row>) => setRows((all) => all.map((row) => (row.key === key ? { ...row, ...now } : row)));

  async function deliver(row: Row) {
    change(row.key, { state: "arriving" });
    try {
      const sent = await send(row.index, row.file, row.name, row.ocr, (share) => change(row.key, { share }));
      const read = [plural(sent.added, "passage") + ` added to ${row.index}`, sent.updated ? `${count(sent.updated)} updated` : ""].filter(Boolean).join(", ");
      const same = !sent.added && !sent.updated && !sent.problems.length ? "Nothing new: it is in the index already." : "";
      change(row.key, { state: "done", told: [same || `${read}.`, ...[...sent.problems, ...sent.notes].map((one) => said(row, one))].join(" ") });
    } catch (error) {
      change(row.key, { state: "failed", told: said(row, (error as Error).message) });
    }
    told.current();
  }

  function add(index: string, files: File[], ocr = false) {
    const called = names(files);
    const fresh = files.map((file, i): Row => ({ key: ++keys, index, file, name: called[i]!, ocr, state: "waiting", share: 0, told: "" }));
    setRows((all) => [...all, ...fresh]);
    for (const row of fresh) queue.current = queue.current.then(() => deliver(row));
  }

  const busy = rows.some((row) => row.state !== "done" && row.state !== "failed");
  return { rows, busy, add, dismiss: (key) => setRows((all) => all.filter((row) => row.key !== key)) };
}

/** What the server says of a file, as a sentence of its own: the row names the file already. */
function said(row: Row, message: string): string {
  const plain = message.replace(`${row.index}/${row.name}: `, "").replace(/\.?$/, ".");
  return plain.charAt(0).toUpperCase() + plain.slice(1);
}

/** How far files are, and what became of them; what went wrong stays until it is dismissed. */
export function Uploads(props: { uploading: Uploading; ocr: boolean }) {
  const { rows, dismiss, add } = props.uploading;
  if (!rows.length) return null;
  return (
    <ul class="uploads" aria-label="Files on their way">
      {rows.map((row) => (
        <li key={row.key} class={row.state}>
          <div class="line">
            <b>{row.name}</b> <small>{bytes(row.file.size)}</small>
            <span class="grow" />
            {row.state === "waiting" && <small>Waiting…</small>}
            {row.state === "failed" && props.ocr && !row.ocr && isScan(row.told) && (
              <button
                class="quiet"
                onClick={() => {
                  dismiss(row.key);
                  add(row.index, [row.file], true);
                }}
              >
                Read it with OCR
              </button>
            )}
            {(row.state === "failed" || row.state === "done") && (
              <button class="quiet" aria-label={`Dismiss ${row.name}`} onClick={() => dismiss(row.key)}>Dismiss</button>
            )}
          </div>
          {row.state === "arriving" && <Progress index={row.index} name={row.name} share={row.share} />}
          {row.told && <p role={row.state === "failed" ? "alert" : "status"}>{row.told}</p>}
        </li>
      ))}
    </ul>
  );
}

/** How far a file is sent and then, by the server, read. */
export function Progress(props: { index: string; name: string; share: number }) {
  if (props.share >= 1) return <Reading index={props.index} name={props.name} />;
  return (
    <>
      <small>Sending… {percent(props.share)}</small>
      <progress aria-label={`Sending ${props.name}`} max={1} value={props.share} />
    </>
  );
}

function Reading(props: { index: string; name: string }) {
  const [far, setFar] = useState<FilePage["reading"]>(null);
  useEffect(() => {
    const timer = setInterval(async () => {
      const page = await get<FilePage>(`/api/indexes/${encodeURIComponent(props.index)}/files?limit=1`).catch(() => null);
      if (page?.reading) setFar(page.reading);
    }, POLL);
    return () => clearInterval(timer);
  }, [props.index]);
  const counts = far ? [far.passages && plural(far.passages, "passage"), far.rows && plural(far.rows, "row")].filter(Boolean) : [];
  return (
    <>
      <small>{["Reading…", ...counts].join(" ")}</small>
      <progress aria-label={`Reading ${props.name}`} max={1} value={far?.share || undefined} />
    </>
  );
}
