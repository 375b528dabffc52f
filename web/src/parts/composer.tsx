import { useEffect, useRef, useState } from "preact/hooks";
import { get, post } from "../api";
import { plural } from "../format";
import { go } from "../router";
import type { About, ModelInfo, Thread } from "../types";
import { ACCEPTED, type Arriving, upload } from "../upload";
import { Chooser } from "./chooser";
import { Notice, Select, useOnce } from "./common";
import { FolderButton } from "./drop";
import { Progress } from "./uploads";

type Turn = Thread["turns"][number];

export const hostOf = (address: string): string => address.replace(/^https?:\/\//, "").replace(/\/v1$/, "");

/** A model in words: its name, unless its server has not told it, and its address, unless it is in the server itself. */
function wordsOf({ model, address }: ModelInfo): { name: string; at: string } {
  const named = model && model !== address;
  return { name: named ? model.replace(/^\/.*\//, "") : address ? hostOf(address) : "no model", at: named && address ? ` at ${hostOf(address)}` : "" };
}

export function ModelName(props: { model: ModelInfo }) {
  const { name, at } = wordsOf(props.model);
  return <><b>{name}</b>{at}</>;
}

/**
 * The one box for questions: a new one or, after a turn, a follow-up, which the systems of that turn are asked. It can be
 * asked as soon as they are no longer `waiting` for the answer before.
 */
export function Composer(props: { about: About; after?: Turn; waiting?: boolean; onChange: () => void }) {
  const { about, after } = props;
  const first = after?.episodes[0];
  const known = (names: string[], name: string | undefined) => (name && names.includes(name) ? name : (names[0] ?? ""));
  const [question, setQuestion] = useState("");
  const [systems, setSystems] = useState([about.systems[0] ?? ""]);
  const [model, setModel] = useState(about.models[0] ?? "");
  const [index, setIndex] = useState(about.indexes[0] ?? "");
  const [style, setStyle] = useState("short");
  const [error, setError] = useState<Error>();
  const [arriving, setArriving] = useState<Arriving & { index: string; of: number }>();
  const [arrived, setArrived] = useState("");
  const [scans, setScans] = useState<File[]>([]);
  const box = useRef<HTMLTextAreaElement>(null);
  const once = useOnce();
  useEffect(() => {
    if (!matchMedia("(hover: none)").matches) box.current?.focus({ preventScroll: true });
  }, []);
  useEffect(() => {
    if (!after || !first) return;
    const before = after.episodes.map((one) => one.system).filter((name) => about.systems.includes(name));
    setSystems(before.length ? [...new Set(before)] : [about.systems[0] ?? ""]);
    setModel(known(about.models, first.model));
    setIndex(known(about.indexes, first.index));
    setStyle(first.style || "short");
  }, [first?.id]);
  useEffect(() => {
    if (!about.models.includes(model)) setModel(about.models[0] ?? "");
  }, [about.models.join()]);
  const details = about.model_details.find((one) => one.name === model) ?? about.model_details[0];

  const early = props.waiting ? "A follow-up needs the answer before it" : arriving ? "The files are still being read" : undefined;

  async function ask() {
    if (!question.trim() || early) return box.current?.focus();
    setError(undefined);
    let leader = "";
    try {
      for (const system of systems) {
        const follows = (after?.episodes.find((one) => one.system === system) ?? first)?.id ?? "";
        const job = await post<{ id: string }>("/api/ask", { question, system, model, index, style, follows, beside: leader });
        leader ||= job.id;
      }
    } catch (failed) {
      setError(failed as Error);
    }
    if (!leader) return;
    setQuestion("");
    go(["ask", leader]);
  }

  async function attach(files: File[], ocr = false, into = "") {
    if (!files.length) return;
    setError(undefined);
    setScans([]);
    setArrived("");
    try {
      const { indexes: taken } = await get<About>("/api/about"); // another tab may have made one since
      const target = into || indexName(files, taken);
      const { added, problems, scans: unread, failure } = await upload(target, files, ocr, (far) => setArriving({ ...far, index: target, of: files.length }));
      if (about.ocr && !ocr) setScans(unread);
      if (failure) throw failure;
      props.onChange();
      setIndex(target);
      setArrived([`${plural(added, "passage")} read into the index ${target}.`, ...problems].join(" "));
    } catch (failed) {
      setError(failed as Error);
    }
    setArriving(undefined);
  }

  const indexes = index && !about.indexes.includes(index) ? [...about.indexes, index] : about.indexes;
  const names = Object.fromEntries(about.model_details.map((one) => [one.name, Object.values(wordsOf(one)).join("")]));
  return (
    <div class={`asking ${after ? "following" : ""}`}>
      {error && <Notice error={error} />}
      <form
        class={`composer ${after ? "small" : ""}`}
        onSubmit={(e) => {
          e.preventDefault();
          void once(ask);
        }}
      >
        <label class="hidden" for="question">Question</label>
        <textarea
          id="question"
          ref={box}
          rows={after ? 1 : 2}
          placeholder={after ? "Ask a follow-up…" : "Ask something that takes more than one step…"}
          value={question}
          onInput={(e) => setQuestion(e.currentTarget.value)}
          onKeyDown={(e) => {
            if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
              e.preventDefault();
              void once(ask);
            }
          }}
        />
        <div class="row">
          <Chooser systems={about.system_details} unsuited={details?.unsuited ?? {}} chosen={systems} onChange={setSystems} />
          {about.models.length > 1 && <Select label="Model" value={model} options={about.models} names={names} onChange={setModel} />}
          {indexes.length > 0 && <Select label="Index" value={index} options={indexes} onChange={setIndex} />}
          <Select label="Answer" value={style} options={["short", "sentence", "report"]} onChange={setStyle} />
          {!about.read_only && !arriving && (
            <>
              <label class="quiet">
                Add files
                <input class="hidden" type="file" multiple accept={ACCEPTED} aria-label="Add files to a new index" onChange={(e) => void attach([...(e.currentTarget.files ?? [])])} />
              </label>
              <FolderButton label="Add a folder as a new index" onFiles={(files) => (files.length ? void attach(files) : setError(new Error("No file in this folder can be read.")))} />
            </>
          )}
          <span class="grow" />
          <button class="primary" type="submit" disabled={!!early} title={early}>Ask</button>
        </div>
        {arriving && (
          <div class="told">
            <small><b>{arriving.name}</b>{arriving.of > 1 && `, ${arriving.number} of ${arriving.of}`}</small> <Progress index={arriving.index} name={arriving.name} share={arriving.share} />
          </div>
        )}
        {arrived && <small class="told" role="status">{arrived}</small>}
        {scans.length > 0 && (
          <button class="quiet" type="button" onClick={() => void attach(scans, true, arrived ? index : "")}>
            Read {scans.length === 1 ? scans[0]!.name : `${scans.length} scans`} with OCR
          </button>
        )}
      </form>
      {(details || about.systems.length > 0) && (
        <p class="answered-by">
          {details ? <>Answered by <ModelName model={details} /> · <a href="#/model">Change model</a></> : <>No model yet · <a href="#/model">Set a model</a></>}
          {after && <> · <a href="#/ask">New question</a></>}
        </p>
      )}
    </div>
  );
}

/** A name for an index of these files that no index has yet. */
function indexName(files: File[], taken: string[]): string {
  const folder = files[0]!.webkitRelativePath.split("/")[0]!;
  const stem = (folder || files[0]!.name.replace(/\.[^.]*$/, "")).replace(/[^A-Za-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 40) || "files";
  const name = files.length > 1 && !folder ? `${stem}-and-${files.length - 1}-more` : stem;
  let free = name;
  for (let n = 2; taken.includes(free); n++) free = `${name}-${n}`;
  return free;
}
