/** Talking to the server; the token, where one is needed, lives as long as the tab. */

import type { Event, Status } from "./types";

const TOKEN = "subquest-token";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Nobody is there: the server was stopped, or the network is down. */
export class Unreachable extends ApiError {
  constructor() {
    super(0, "The server does not answer. Is it still running?");
  }
}

type Store = "localStorage" | "sessionStorage";
const held = new Map<string, string>();

/** What the browser has kept; where it keeps nothing (a preview in a frame, a strict setting), what the page remembers. */
export function kept(store: Store, name: string): string | null {
  try {
    return window[store].getItem(name);
  } catch {
    return held.get(name) ?? null;
  }
}

export function keep(store: Store, name: string, value: string): void {
  try {
    window[store].setItem(name, value);
  } catch {
    held.set(name, value);
  }
}

export function headers(): Record<string, string> {
  const token = kept("sessionStorage", TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

export function setToken(token: string): void {
  keep("sessionStorage", TOKEN, token);
}

async function request(path: string, init: RequestInit = {}): Promise<Response> {
  let reply: Response;
  try {
    reply = await fetch(path, { ...init, headers: { ...headers(), ...(init.headers ?? {}) } });
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new Unreachable();
  }
  if (reply.ok) return reply;
  const body = await reply.json().catch(() => null);
  throw new ApiError(reply.status, body?.error?.message ?? `The server answered with status ${reply.status}.`);
}

export async function get<T>(path: string): Promise<T> {
  return (await request(path)).json();
}

export async function post<T>(path: string, body: unknown = {}): Promise<T> {
  const init = { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  return (await request(path, init)).json();
}

export async function remove<T>(path: string): Promise<T> {
  return (await request(path, { method: "DELETE" })).json();
}

export async function put<T>(path: string, body: unknown): Promise<T> {
  const init = { method: "PUT", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  return (await request(path, init)).json();
}

/** Fetch something and hand it to the browser to save; a plain link could not show the token. */
export async function save(path: string, name: string): Promise<void> {
  const url = URL.createObjectURL(await (await request(path)).blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A part of the turn that a context is writing; `first` begins it. */
export interface Piece {
  trajectory: string;
  text: string;
  first: boolean;
}

/**
 * Follow an episode's events until it is over; a lost connection is taken up where it was. `onText` gets what is being
 * written, which the server sends if the path asks for it.
 */
export async function follow(path: string, onEvents: (events: Event[]) => void, signal: AbortSignal, onText?: (pieces: Piece[]) => void): Promise<Status> {
  let last = -1;
  for (let attempt = 0; ; attempt++) {
    try {
      const reply = await request(path, { signal, headers: last >= 0 ? { "Last-Event-ID": String(last) } : {} });
      const reader = reply.body!.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop()!;
        const fresh: Event[] = [];
        const pieces: Piece[] = [];
        let status: Status | undefined;
        for (const block of blocks) {
          const lines = block.split("\n");
          const data = lines.find((line) => line.startsWith("data: "));
          if (!data) continue;
          const value = JSON.parse(data.slice(6));
          if (lines.includes("event: done")) status = value.status;
          else if (lines.includes("event: text")) pieces.push(value);
          else fresh.push(value);
        }
        if (fresh.length) {
          last = fresh[fresh.length - 1]!.seq;
          attempt = 0;
          onEvents(fresh);
        }
        if (pieces.length) onText?.(pieces);
        if (status) return status;
      }
    } catch (error) {
      if (signal.aborted || (error instanceof ApiError && error.status > 0) || attempt >= 5) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** Math.min(attempt, 4)));
  }
}
