import { useEffect, useState } from "preact/hooks";
import { get } from "../api";
import { plural } from "../format";
import { Notice } from "./common";

const POLL = 10_000;

interface Health {
  status: string;
  unstored: number;
}

/** Says that the server's disk is full or fails, and what waits in its memory for room. */
export function Storage() {
  const [health, setHealth] = useState<Health>();
  useEffect(() => {
    const look = () => {
      if (!document.hidden) get<Health>("/health").then(setHealth, () => undefined);
    };
    look();
    const timer = setInterval(look, POLL);
    return () => clearInterval(timer);
  }, []);
  if (health?.status !== "storage") return null;
  return (
    <div class="storage" role="alert">
      <b>The server's disk is full or fails.</b> New questions and files are refused until there is room.
      {health.unstored > 0 && (
        <> {plural(health.unstored, "answer")} {health.unstored === 1 ? "waits" : "wait"} in memory and will be stored then: do not restart the server.</>
      )}
    </div>
  );
}

/** Above an answer that is not on disk yet. */
export function Unstored() {
  return <Notice kind="error">This answer is not stored yet: the server's disk is full or fails. It is kept in memory, and stored as soon as there is room.</Notice>;
}
