/** What the server sends. Fields with their default value are left out by the server. */

export interface Usage {
  prompt_tokens?: number;
  cached_tokens?: number;
  completion_tokens?: number;
  peak_context?: number;
  model_calls?: number;
  searches?: number;
  tool_calls?: number;
  seconds?: number;
  cost?: number;
  cache_hits?: number;
}

export interface Event {
  seq: number;
  kind: string;
  time: number;
  trajectory?: string;
  data?: Record<string, any>;
}

export interface Segment {
  kind: "prompt" | "agent" | "env";
  text: string;
  role?: string;
  tokens?: number;
}

export interface Trajectory {
  id: string;
  role: string;
  task: string;
  parent?: string;
  segments?: Segment[];
  stop_reason?: string;
  result?: string;
  forced?: boolean;
  usage?: Usage;
  model?: string;
  format_errors?: string[];
}

export interface Evidence {
  id: string;
  title: string;
  quote: string;
  start?: number;
  trajectory?: string;
  query?: string;
  place?: Record<string, any>;
  /** Whether it is the one that states the answer; the others lead to it. */
  states_answer?: boolean;
}

export interface Question {
  id: string;
  question: string;
  answers?: string[];
  dataset?: string;
  meta?: Record<string, any>;
}

export type Status = "queued" | "running" | "unstored" | "finished" | "cancelled" | "interrupted" | "failed";

/** An answer in sentences; `sources` are numbers of the episode's evidence, from 1. */
export interface Report {
  style: "sentence" | "report";
  title?: string;
  sections?: { title: string; task: string; sentences?: { text: string; sources?: number[] }[]; missing?: string }[];
  short?: string;
  dropped?: number;
}

export interface Episode {
  id: string;
  run?: string;
  status: Status;
  question: Question;
  system: string;
  model: string;
  trajectories?: Trajectory[];
  answer?: string;
  evidence?: Evidence[];
  confidence?: number;
  supported?: boolean;
  /** Not the answer is supported, but all that it was concluded from. */
  parts_supported?: boolean;
  /** How likely it is right, in words, where that was measured. */
  likely?: string;
  /** For how long it has been answered so far. */
  seconds?: number;
  report?: Report;
  stop_reason?: string;
  forced?: boolean;
  usage?: Usage;
  errors?: { where: string; message: string; fatal?: boolean }[];
  events?: Event[];
  rewards?: Record<string, number>;
  scores?: Record<string, number>;
  settings?: Record<string, any>;
}

export interface TokenSegment {
  kind: Segment["kind"];
  mask: 0 | 1;
  ids: number[];
  texts: string[];
  text: string;
  logprobs: number[] | null;
  policy?: number | null;
}

export interface TokenView {
  id: string;
  rewards: Record<string, number>;
  texts: boolean;
  trajectories: { id: string; role: string; tokens: number; written: number; segments: TokenSegment[] }[];
}

export interface Sibling extends Omit<Summary, "expected"> {
  attempt: number;
  group: boolean;
  rewards: Record<string, number>;
}

export interface Test {
  dataset: string;
  a: string;
  b: string;
  metric: string;
  n: number;
  difference: number;
  low: number;
  high: number;
  p: number;
  mcnemar: number | null;
}

export type Curves = Record<string, [number, number][]>;

export interface Comparison {
  sides: string[];
  table: Record<string, Record<string, Record<string, number | null>>>;
  paired: Test[];
  differences: {
    dataset: string;
    question: string;
    sides: Record<string, { run: string; episode: string; em: number | null }>;
  }[];
  curves: Record<string, Curves>;
}

export interface Summary {
  id: string;
  question: string;
  expected: string[];
  dataset: string;
  system: string;
  model: string;
  answer: string;
  stop_reason: string;
  added: number;
  forced: boolean;
  scores: Record<string, number>;
  follows?: string;
  beside?: string;
}

export interface Page {
  total: number;
  episodes: Summary[];
  interrupted: Episode[];
  live?: Episode[];
}

/** What one system answered to one question. */
export interface Cell {
  episode: string;
  answer: string;
  verdict: "right" | "wrong" | "failed" | "unscored";
  unsupported: boolean;
  /** Only what it was concluded from is supported. */
  parts?: boolean;
  f1: number | null;
}

export interface Matrix {
  systems: string[];
  datasets: string[];
  total: number;
  counts: { "": number; wrong: number; differs: number };
  rows: { dataset: string; id: string; question: string; expected: string[]; cells: Record<string, Cell> }[];
}

export interface Run {
  name: string;
  kind?: "evaluation" | "training" | "asked";
  status?: "finished" | "running" | "stopped" | "open";
  data?: string[];
  systems?: string[];
  models?: string[];
  score?: { metric: string; value: number; low?: number; high?: number; n?: number; system?: string } | null;
  missing?: number;
  step?: number;
  steps?: number;
  created: number;
  episodes?: number;
  interrupted?: number;
  questions?: number;
  settings?: Record<string, any>;
  table?: Record<string, Record<string, Record<string, number | null>>>;
  curves?: Curves;
  error?: string;
}

export interface IndexInfo {
  name: string;
  remote?: boolean;
  documents?: number;
  vectors?: number;
  bytes?: number;
  language?: string;
  encoder?: string;
  modes?: string[];
}

/** A file that an index was made from. */
export interface FileInfo {
  name: string;
  kind: string;
  passages: number;
  pages: number;
  bytes: number | null;
  modified: number | null;
  state: "read" | "partly" | "failed" | "empty" | "unfinished";
  note: string;
  reachable: boolean;
}

export interface FilePage {
  total: number;
  files: FileInfo[];
  /** `rows` are those of tables, `share` how much of the file has been read. */
  reading: { name: string; passages: number; rows: number; share: number } | null;
}

/** A document, and what stands before and after it in its file. */
export interface Passage {
  id: string;
  title: string;
  text: string;
  meta: Record<string, any>;
  /** Where the quote is that was asked for: file, page, line. */
  place?: Record<string, any>;
  before?: Passage[];
  after?: Passage[];
  more_before?: boolean;
  more_after?: boolean;
}

export interface PagePicture {
  file: string;
  page: number;
  pages: number;
  width: number;
  height: number;
  png: string;
  /** Left, top, width and height of each marked line, as shares of the page. */
  marks?: [number, number, number, number][];
}

export interface Hit {
  id: string;
  title: string;
  text: string;
  score: number;
  page?: number | string;
  source?: string;
  meta?: Record<string, any>;
  place?: Record<string, any>;
  highlight?: { start: number; end: number };
}

export interface ModelInfo {
  name: string;
  model: string;
  /** Of its endpoint; empty for a model in the server itself. */
  address: string;
  protocol: string;
  prompts: string;
  /** Why systems do not suit it, by their names. */
  unsuited: Record<string, string>;
}

export interface SystemInfo {
  name: string;
  description: string;
  searches: boolean;
}

/** What `/api/model` tells; the key itself is never sent. */
export interface ModelChoice {
  models: ModelInfo[];
  set: { address: string; model: string; key: boolean; protocol: string; prompts: string } | null;
  who_sets: "anyone" | "admin" | "nobody";
  may_set: boolean;
  larger: { name: string; size: string; here: boolean } | null;
}

export interface Thread {
  turns: { asked: string; episodes: { id: string; system: string; model: string; index: string; style: string }[] }[];
}

export interface About {
  max_file: number;
  ocr: boolean;
  version: string;
  systems: string[];
  models: string[];
  model_details: ModelInfo[];
  system_details: SystemInfo[];
  indexes: string[];
  asks: boolean;
  read_only: boolean;
}
