import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, get, keep, kept, setToken } from "./api";
import { Boundary, Notice, useLoaded } from "./parts/common";
import { Keys } from "./parts/keys";
import { Storage } from "./parts/storage";
import { usePlace } from "./router";
import "./style.css";
import "./asking.css";
import "./documents.css";
import "./runs.css";
import type { About, Episode } from "./types";
import { Ask } from "./views/ask";
import { CompareEpisodes, CompareRuns } from "./views/compare";
import { DocumentView } from "./views/document";
import { IndexView } from "./views/files";
import { Indexes } from "./views/indexes";
import { ModelView } from "./views/model";
import { RunView } from "./views/run";
import { Runs } from "./views/runs";
import { TraceView } from "./views/trace";

type Theme = "system" | "light" | "dark";
const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };

function stored(): Theme {
  const found = kept("localStorage", "subquest-theme");
  return found === "light" || found === "dark" ? found : "system";
}

function ThemeButton() {
  const [theme, setTheme] = useState<Theme>(stored);
  useEffect(() => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    keep("localStorage", "subquest-theme", theme);
  }, [theme]);
  return (
    <button class="quiet theme" onClick={() => setTheme(NEXT[theme])} title="Colours of the page" aria-label={`Colours: ${theme}. Change`}>
      <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
        <circle cx="8" cy="8" r="6.25" />
        <path d={{ system: "M8 1.75a6.25 6.25 0 0 1 0 12.5z", light: "", dark: "M8 1.75a6.25 6.25 0 0 1 0 12.5a6.25 6.25 0 0 1 0-12.5z" }[theme]} />
      </svg>
      {{ system: "Auto", light: "Light", dark: "Dark" }[theme]}
    </button>
  );
}

function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
      <path d="M9 16h6M15 16c5 0 3-8 8-8M15 16c5 0 3 8 8 8" />
      <circle cx="7" cy="16" r="4" />
      <circle cx="25" cy="8" r="4" />
      <circle cx="25" cy="24" r="4" />
    </svg>
  );
}

function App() {
  const { path, query } = usePlace();
  const about = useLoaded(() => get<About>("/api/about"), []);
  const here = path[0] ?? (about.data?.asks === false ? "runs" : "ask");
  return (
    <>
      <header class="bar">
        <a class="brand" href="#/ask"><Logo /> Subquest</a>
        <nav aria-label="Main">
          {[["ask", "Ask"], ["runs", "Runs"], ["indexes", "Indexes"]].map(([name, label]) => (
            <a key={name} href={`#/${name}`} aria-current={here === name || (here === "compare" && name === "runs") || (here === "document" && name === "indexes") ? "page" : undefined}>{label}</a>
          ))}
        </nav>
        <span class="grow" />
        <Keys />
        <ThemeButton />
      </header>
      <Storage />
      <main>
        <Boundary key={here === "ask" ? here : path.join("/")}>
        {about.error instanceof ApiError && about.error.status === 401 ? (
          <TokenForm refusal={about.error} onDone={about.reload} />
        ) : about.error ? (
          <Notice error={about.error} />
        ) : !about.data ? null : here === "compare" && query.get("runs") ? (
          <CompareRuns runs={query.get("runs")!.split(",")} />
        ) : here === "compare" ? (
          <CompareEpisodes episodes={(query.get("e") ?? "").split(",").filter(Boolean)} />
        ) : here === "runs" && path[2] ? (
          <TraceView key={path[2]} run={path[1]!} id={path[2]} query={query} />
        ) : here === "runs" && path[1] ? (
          <RunView key={path[1]} run={path[1]} />
        ) : here === "runs" ? (
          <Runs />
        ) : here === "document" ? (
          <DocumentView query={query} />
        ) : here === "indexes" && path[1] ? (
          <IndexView key={path[1]} name={path[1]} about={about.data} onChange={about.reload} />
        ) : here === "indexes" ? (
          <Indexes about={about.data} onChange={about.reload} />
        ) : here === "model" ? (
          <ModelView onChange={about.reload} />
        ) : here === "ask" ? (
          <Ask about={about.data} id={path[1]} onChange={about.reload} />
        ) : (
          <>
            <h1 class="hidden">Nothing here</h1>
            <Notice>There is nothing at this address. <a href="#/ask">Ask a question</a></Notice>
          </>
        )}
        </Boundary>
      </main>
    </>
  );
}

function TokenForm(props: { refusal: Error; onDone: () => void }) {
  const [token, setValue] = useState("");
  const [before, setBefore] = useState<Error>();
  return (
    <form
      class="composer token"
      onSubmit={(e) => {
        e.preventDefault();
        setToken(token.trim());
        setBefore(props.refusal);
        props.onDone();
      }}
    >
      <h1>This server needs a token</h1>
      <div class="row">
        <input class="grow" type="password" aria-label="Token" autocomplete="off" value={token} onInput={(e) => setValue(e.currentTarget.value)} />
        <button class="primary" type="submit">Enter</button>
      </div>
      {before && before !== props.refusal && <Notice kind="error">The server does not know this token.</Notice>}
    </form>
  );
}

/** A page that carries its episode: an exported trace. */
function Exported(props: { episode: Episode }) {
  const { query } = usePlace();
  return (
    <>
      <header class="bar"><span class="brand"><Logo /> Subquest</span><span class="grow" /><ThemeButton /></header>
      <main><Boundary><TraceView run="trace" id={props.episode.id} query={query} given={props.episode} /></Boundary></main>
    </>
  );
}

const embedded = document.getElementById("episode");
const root = document.getElementById("app")!;
if (embedded) render(<Exported episode={JSON.parse(embedded.textContent ?? "{}")} />, root);
else render(<App />, root);
