import { useState } from "preact/hooks";
import { get, post, put, remove, setToken } from "../api";
import { Notice, useLoaded, useOnce } from "../parts/common";
import { ModelName } from "../parts/composer";
import type { ModelChoice } from "../types";

interface Tried {
  works: boolean;
  model: string;
  checks: { name: string; works: boolean; detail: string }[];
  served: string[];
}

const WORDS: Record<string, string> = {
  chat: "Answers questions", usage: "Counts tokens", reasoning: "Shows its reasoning", "stop strings": "Stops where it is told to",
  prefill: "Continues a text", "tool calls": "Calls tools", completions: "Plain completions",
};

/** Which model answers, and a form for another one. */
export function ModelView(props: { onChange: () => void }) {
  const { data, error, reload } = useLoaded(() => get<ModelChoice>("/api/model"), []);
  if (error) return <Notice error={error} />;
  if (!data) return null;
  const changed = () => {
    reload();
    props.onChange();
  };
  return (
    <div class="page model">
      <h1>Model</h1>
      <section class="in-use">
        <h2>In use</h2>
        {!data.models.length && <p>No model yet. Set your endpoint below, or fetch a model that runs in the server and start it again: <code>subquest model get qwen-1.5b</code> (1.1 GB), or <code>subquest model get smollm2</code> (98 MB, for trying things out).</p>}
        <ul class="list">
          {data.models.map((model, i) => (
            <li key={model.name}>
              <div>
                <span><ModelName model={model} /></span>
                <small>
                  {[i === 0 ? "answers unless you choose another" : "can be chosen with each question", model.address ? (model.protocol === "tools" ? "acts by tool calls" : "acts by tags") : "runs in the server", model.name === "page" && data.set?.key ? "with a key" : ""].filter(Boolean).join(" · ")}
                </small>
              </div>
            </li>
          ))}
        </ul>
        {data.larger && (
          <p class="larger">
            This machine has room for a larger model that reads ordinary documents better, more slowly:{" "}
            {!data.larger.here && <><code>subquest model get {data.larger.name}</code> ({data.larger.size}), then start the server with </>}
            {data.larger.here && "start the server with "}
            <code>--model {data.larger.name}</code>.
          </p>
        )}
      </section>
      {data.may_set ? (
        <ModelForm choice={data} onChange={changed} />
      ) : data.who_sets === "admin" ? (
        <AdminForm onDone={changed} />
      ) : (
        <Notice>The model of this server can be set by who runs it: with <code>--model</code>, or here with <code>--admin-token-file</code>.</Notice>
      )}
    </div>
  );
}

function ModelForm(props: { choice: ModelChoice; onChange: () => void }) {
  const before = props.choice.set;
  const [address, setAddress] = useState(before?.address ?? "");
  const [model, setModel] = useState(before?.model ?? "");
  const [key, setKey] = useState("");
  const [protocol, setProtocol] = useState(before?.protocol ?? "tags");
  const [prompts, setPrompts] = useState(before?.prompts ?? "");
  const [tried, setTried] = useState<Tried>();
  const [served, setServed] = useState<string[]>([]);
  const [doing, setDoing] = useState<"" | "trying" | "saving">("");
  const [told, setTold] = useState("");
  const [error, setError] = useState<Error>();
  const once = useOnce();
  const body = { address, model, protocol, prompts, ...(key ? { key } : {}) };
  const edit = (set: (value: string) => void) => (e: { currentTarget: { value: string } }) => {
    set(e.currentTarget.value);
    setTried(undefined);
    setTold("");
  };

  const work = (what: "trying" | "saving", act: () => Promise<void>) =>
    once(async () => {
      setDoing(what);
      setError(undefined);
      setTold("");
      try {
        await act();
      } catch (failed) {
        setError(failed as Error);
      }
      setDoing("");
    });
  const attempt = () => work("trying", async () => {
      const found = await post<Tried>("/api/model/try", body);
      setTried(found);
      setServed(found.served);
    });
  const use = () =>
    work("saving", async () => {
      await put("/api/model", body);
      setKey("");
      props.onChange();
      setTold("Saved. Questions are answered by this model from now on.");
    });
  const reset = () =>
    work("saving", async () => {
      await remove("/api/model");
      setAddress("");
      setModel("");
      setKey("");
      setProtocol("tags");
      setPrompts("");
      props.onChange();
      setTold("Back to the server's own model.");
    });

  return (
    <section>
      <h2>{before ? "Change it" : "Use your own endpoint"}</h2>
      <form
        class="composer settings"
        onSubmit={(e) => {
          e.preventDefault();
          void use();
        }}
      >
        <div class="field">
          <label for="address">Address</label>
          <input id="address" type="url" required autocomplete="off" placeholder="http://localhost:11434/v1" value={address} onInput={edit(setAddress)} aria-describedby="address-hint" />
          <small id="address-hint">Any endpoint with OpenAI's API: vLLM, SGLang, llama.cpp, Ollama, OpenAI and others. It usually ends in /v1.</small>
        </div>
        <div class="field">
          <label for="model">Model</label>
          <input id="model" list="served" autocomplete="off" value={model} onInput={edit(setModel)} aria-describedby="model-hint" />
          <datalist id="served">{served.map((name) => <option key={name} value={name} />)}</datalist>
          <small id="model-hint">May stay empty where only one is served.</small>
        </div>
        <div class="field">
          <label for="key">Key</label>
          <input id="key" type="password" autocomplete="off" placeholder={before?.key ? "stored; type to replace it" : ""} value={key} onInput={edit(setKey)} aria-describedby="key-hint" />
          <small id="key-hint">Kept on the server, in a file that only its owner can read, and never shown again.</small>
        </div>
        <div class="pair">
          <div class="field">
            <label for="protocol">How it acts</label>
            <select id="protocol" value={protocol} onChange={(e) => setProtocol(e.currentTarget.value)}>
              <option value="tags">by tags in its text</option>
              <option value="tools">by tool calls</option>
            </select>
          </div>
          <div class="field">
            <label for="prompts">Prompts</label>
            <select id="prompts" value={prompts} onChange={(e) => setPrompts(e.currentTarget.value)}>
              <option value="">as suits the model</option>
              <option value="full">full: explained, with examples</option>
              <option value="compact">compact: for trained small models</option>
            </select>
          </div>
        </div>
        <div class="row">
          <button class="primary" type="submit" disabled={!!doing}>{doing === "saving" ? "Saving…" : "Use this model"}</button>
          <button class="quiet" type="button" disabled={!!doing || !address} onClick={() => void attempt()}>{doing === "trying" ? "Trying…" : "Try it"}</button>
          <span class="grow" />
          {before && <button class="quiet" type="button" disabled={!!doing} onClick={() => void reset()}>Use the server's own model</button>}
        </div>
        {doing === "trying" && <small class="told" role="status">A few tiny questions are on their way. A model that has to be loaded first may take two minutes.</small>}
        {told && <small class="told" role="status">{told} <a href="#/ask">Ask a question</a></small>}
      </form>
      {error && <Notice error={error} />}
      {tried && <Result tried={tried} protocol={protocol} />}
    </section>
  );
}

function Result(props: { tried: Tried; protocol: string }) {
  const { tried } = props;
  const calls = tried.checks.find((check) => check.name === "tool calls");
  return (
    <section class="tried" role="status">
      <h3>{tried.works ? `${tried.model} answers.` : "It does not answer."}</h3>
      <ul>
        {tried.checks.map((check) => (
          <li key={check.name} class={check.works ? "works" : ""}>
            <span class="mark" aria-hidden="true">{check.works ? "✓" : "–"}</span>
            <b>{WORDS[check.name] ?? check.name}<span class="hidden">{check.works ? ": yes" : ": no"}</span></b>
            <span>{check.detail}</span>
          </li>
        ))}
      </ul>
      {props.protocol === "tools" && calls && !calls.works && <p>It made no tool call here: let it act by tags.</p>}
    </section>
  );
}

function AdminForm(props: { onDone: () => void }) {
  const [token, setValue] = useState("");
  const [sent, setSent] = useState(false);
  return (
    <form
      class="composer settings"
      onSubmit={(e) => {
        e.preventDefault();
        setToken(token.trim());
        setSent(true);
        props.onDone();
      }}
    >
      <div class="field">
        <label for="admin">Admin token</label>
        <input id="admin" type="password" autocomplete="off" value={token} onInput={(e) => setValue(e.currentTarget.value)} aria-describedby="admin-hint" />
        <small id="admin-hint">On this server, only those who have this token may set the model.</small>
      </div>
      <div class="row"><button class="primary" type="submit">Enter</button></div>
      {sent && <Notice kind="error">This is not the admin token of the server.</Notice>}
    </form>
  );
}
