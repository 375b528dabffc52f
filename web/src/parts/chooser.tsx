import { useEffect, useRef } from "preact/hooks";
import type { SystemInfo } from "../types";

export const MOST = 4;

/** Choose a system by its name, or tick several to ask them side by side. Those that do not suit the model say why. */
export function Chooser(props: { systems: SystemInfo[]; unsuited: Record<string, string>; chosen: string[]; onChange: (chosen: string[]) => void }) {
  const { chosen } = props;
  const box = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const close = (e: Event) => {
      if (!box.current?.open || (e.type === "click" && box.current.contains(e.target as Node))) return;
      if (e instanceof KeyboardEvent && e.key !== "Escape") return;
      box.current.open = false;
      if (e instanceof KeyboardEvent) box.current.querySelector("summary")?.focus();
    };
    addEventListener("click", close);
    addEventListener("keydown", close);
    return () => {
      removeEventListener("click", close);
      removeEventListener("keydown", close);
    };
  }, []);
  const suited = props.systems.filter((one) => !props.unsuited[one.name]);
  const others = props.systems.filter((one) => props.unsuited[one.name]);
  const toggle = (name: string) => {
    const now = chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name];
    if (now.length) props.onChange(now);
  };
  const row = (one: SystemInfo) => (
    <li key={one.name} class={chosen.includes(one.name) ? "chosen" : ""}>
      <label class="tick-box">
        <input
          type="checkbox"
          aria-label={`Ask ${one.name} too`}
          checked={chosen.includes(one.name)}
          disabled={!chosen.includes(one.name) && chosen.length >= MOST}
          onChange={() => toggle(one.name)}
        />
        <span aria-hidden="true" />
      </label>
      <button
        type="button"
        onClick={() => {
          props.onChange([one.name]);
          box.current!.open = false;
        }}
      >
        <b>{one.name}</b>
        <span>{one.description}</span>
        {props.unsuited[one.name] && <span class="unsuited">{props.unsuited[one.name]}</span>}
      </button>
    </li>
  );
  return (
    <details class="chooser" ref={box}>
      <summary aria-label={`System: ${chosen.join(", ")}`}><span>{chosen.length > 1 ? "Systems" : "System"}</span> <b>{chosen.join(", ")}</b></summary>
      <div class="panel">
        <p>Choose one, or tick up to {MOST} to compare their answers.</p>
        <ul>{suited.map(row)}</ul>
        {others.length > 0 && (
          <>
            <p class="group">Do not suit this model</p>
            <ul>{others.map(row)}</ul>
          </>
        )}
      </div>
    </details>
  );
}
