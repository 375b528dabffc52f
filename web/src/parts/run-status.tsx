import { plural } from "../format";
import type { Run } from "../types";
import { Chip } from "./common";

const TONES: Record<string, string> = { finished: "good", running: "busy", stopped: "warn" };

/** Whether a run is over, and what is missing if it stopped before its end. */
export function RunStatus(props: { run: Run }) {
  const { run } = props;
  const lacks = run.kind !== "training" && (run.interrupted || run.missing);
  return (
    <>
      <Chip tone={TONES[run.status ?? ""]}>{run.status === "running" && <span class="dot pulsing" />}{run.status}</Chip>
      {run.status === "stopped" && (
        <small class="missing">{lacks ? `${plural(run.interrupted || run.missing, "answer")} missing; ` : ""}the same command resumes it</small>
      )}
    </>
  );
}
