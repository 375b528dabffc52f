import { Fragment } from "preact";
import { useState } from "preact/hooks";
import { get } from "../api";
import { count, figure } from "../format";
import type { Episode, TokenSegment, TokenView } from "../types";
import { Chip, Notice, useLoaded } from "./common";

const SHOWN = 3000;
const NAMES = { prompt: "was told", agent: "wrote", env: "was shown" };

/** What training sees of a context: each token, whether the agent wrote it, its log-probability, its advantage. */
export function Tokens(props: { place: string; context: string; episode: Episode }) {
  const { data, error } = useLoaded(() => get<TokenView>(`${props.place}/tokens`), [props.place]);
  const [chosen, setChosen] = useState("");
  if (error) return <div class="scroll"><Notice error={error} /></div>;
  if (!data) return <div class="scroll"><Notice>Loading…</Notice></div>;
  const trajectory = data.trajectories.find((one) => one.id === props.context);
  if (!trajectory || !trajectory.tokens)
    return <div class="scroll"><Notice>The model of this context does not show its tokens.</Notice></div>;
  const rewards = Object.entries(data.rewards).filter(([name]) => !name.startsWith("advantage/"));
  const advantage = advantageOf(data.rewards, trajectory.id);
  return (
    <div class="scroll tokens">
      <div class="facts">
        <Chip label="tokens">{count(trajectory.tokens)}</Chip>
        <Chip label="mask 1">{count(trajectory.written)}</Chip>
        {rewards.map(([name, value]) => <Chip key={name} label={name === "total" ? "reward" : name}>{figure(value)}</Chip>)}
        {data.rewards.total != null && advantage == null && <span class="chip warn">out of the loss</span>}
        {advantage != null && <Chip label="advantage" tone={advantage > 0 ? "good" : advantage < 0 ? "bad" : ""}>{signed(advantage)}</Chip>}
      </div>
      {!data.texts && <Notice>The vocabulary of {props.episode.model} is not at hand: tokens are shown by their numbers.</Notice>}
      {trajectory.segments.map((segment, i) => (
        <Stretch key={i} segment={segment} advantage={segment.mask ? advantage : null} name={`${i}`} chosen={chosen} onChoose={setChosen} />
      ))}
      <p class="legend">
        <span><i class="key masked" /> mask 0, not trained on</span>
        <span><i class="key sure" /> mask 1, sure</span>
        <span><i class="key unsure" /> mask 1, surprising</span>
      </p>
    </div>
  );
}

export const signed = (x: number): string => (x > 0 ? "+" : "") + figure(x);

/** The trainer keeps a trajectory's advantage with the episode's rewards; one without stayed out of the loss. */
const advantageOf = (rewards: Record<string, number>, trajectory: string): number | null => rewards[`advantage/${trajectory}`] ?? null;

function Stretch(props: { segment: TokenSegment; advantage: number | null; name: string; chosen: string; onChoose: (name: string) => void }) {
  const { segment } = props;
  const [whole, setWhole] = useState(false);
  const most = whole ? Infinity : segment.mask ? SHOWN : 240;
  const tokens = segment.ids.slice(0, most);
  const at = props.chosen.startsWith(`${props.name}:`) ? Number(props.chosen.slice(props.name.length + 1)) : -1;
  const logprob = at >= 0 ? segment.logprobs?.[at] : undefined;
  const mean = segment.logprobs?.length ? segment.logprobs.reduce((a, b) => a + b, 0) / segment.logprobs.length : null;
  return (
    <section class={`segment ${segment.kind}`}>
      <h3>
        {NAMES[segment.kind]}
        <small>
          mask {segment.mask} · {count(segment.ids.length)} tokens
          {mean != null && ` · mean log-prob ${figure(mean)}`}
          {segment.policy != null && ` · policy ${segment.policy}`}
          {props.advantage != null && ` · advantage ${signed(props.advantage)}`}
        </small>
      </h3>
      <p class="stream">
        {tokens.map((id, i) => {
          const text = segment.texts[i] ?? String(id);
          const level = shade(segment.logprobs?.[i]);
          return (
            <Fragment key={i}>
            <button
              class={`token ${segment.mask ? `p${level}` : "masked"} ${at === i ? "selected" : ""}`}
              title={`${id}${segment.logprobs ? ` · log-prob ${figure(segment.logprobs[i])}` : ""}`}
              onClick={() => props.onChoose(`${props.name}:${i}`)}
            >
              {text === "" ? "·" : segment.texts.length ? text.replaceAll("\n", "⏎") : `${text} `}
            </button>
            {text.includes("\n") && <br />}
            </Fragment>
          );
        })}
        {segment.ids.length > tokens.length && (
          <button class="quiet" onClick={() => setWhole(true)}>{count(segment.ids.length - tokens.length)} more tokens</button>
        )}
      </p>
      {at >= 0 && (
        <p class="facts">
          <Chip label="id">{segment.ids[at]}</Chip>
          <Chip label="mask">{segment.mask}</Chip>
          {logprob != null && <Chip label="log-prob">{figure(logprob)}</Chip>}
          {logprob != null && <Chip label="probability">{figure(Math.exp(logprob))}</Chip>}
          {props.advantage != null && <Chip label="advantage">{signed(props.advantage)}</Chip>}
        </p>
      )}
    </section>
  );
}

/** 0 for a token the model was sure of, 4 for one that surprised it. */
function shade(logprob: number | undefined): number {
  if (logprob == null) return 0;
  return logprob > -0.1 ? 0 : logprob > -0.7 ? 1 : logprob > -1.6 ? 2 : logprob > -3 ? 3 : 4;
}
