/** Files into an index, as bytes: the server takes them apart, and knows more encodings than a browser. */

import { ApiError, get, headers } from "./api";
import { bytes } from "./format";
import type { About, FileInfo } from "./types";

/** What the file chooser offers. */
export const ACCEPTED = ".txt,.md,.rst,.log,.jsonl,.ndjson,.json,.csv,.tsv,.html,.htm,.pdf,.docx,.xlsx,.pptx,.odt,.ods,.odp,.eml,.zip,.gz,.png,.jpg,.jpeg,.tif,.tiff,.bmp,.webp";

export interface Added {
  added: number;
  updated: number;
  problems: string[];
}

export interface Sent extends Added {
  notes: string[];
  file: FileInfo | null;
}

/** Larger files are compared with the server's limit before they are sent. */
const LARGE = 20e6;

/** Send a file and wait until it is read; `onProgress` is told which share has been sent. */
export async function send(index: string, file: File, name = file.name, ocr = false, onProgress?: (share: number) => void): Promise<Sent> {
  if (file.size > LARGE) {
    const { max_file } = await get<About>("/api/about");
    if (file.size > max_file)
      throw new ApiError(413, `${name} has ${bytes(file.size)}; this server accepts files of up to ${bytes(max_file)}. Divide it, or add it on the server with: subquest index add`);
  }
  const query = new URLSearchParams({ name, ...(ocr ? { ocr: "true" } : {}) });
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", `/api/indexes/${encodeURIComponent(index)}/file?${query}`);
    for (const [header, value] of Object.entries(headers())) request.setRequestHeader(header, value);
    request.responseType = "json";
    request.upload.onprogress = (e) => onProgress?.(e.total ? e.loaded / e.total : 0);
    request.upload.onload = () => onProgress?.(1);
    request.onload = () => {
      if (request.status < 300) resolve(request.response as Sent);
      else reject(new ApiError(request.status, request.response?.error?.message ?? `The server answered with status ${request.status}.`));
    };
    request.onerror = () => reject(new ApiError(0, `${name} could not be sent. Is the server still running, and the file still there?`));
    request.send(file);
  });
}

/** The files of a folder that can be read: others are usually not documents. */
export function readable(files: File[]): File[] {
  const kinds = ACCEPTED.split(",");
  return files.filter((file) => !file.name.startsWith(".") && kinds.some((kind) => file.name.toLowerCase().endsWith(kind)));
}

/** What was dropped: files, and those in dropped folders. */
export async function dropped(data: DataTransfer): Promise<File[]> {
  const items = [...(data.items ?? [])].filter((item) => item.kind === "file"); // only known until the event is over
  const entries = items.map((item) => item.webkitGetAsEntry());
  const found = [...data.files].map(async (file, i) => (entries[i]?.isDirectory ? readable(await within(entries[i]!)) : [file]));
  return (await Promise.all(found)).flat();
}

async function within(entry: FileSystemEntry): Promise<File[]> {
  if (entry.isFile) return [await new Promise<File>((found, failed) => (entry as FileSystemFileEntry).file(found, failed))];
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const files: File[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((found, failed) => reader.readEntries(found, failed)); // in portions
    if (!some.length) return files;
    for (const one of some) files.push(...(await within(one)));
  }
}

/** Names for files that are sent together, each its own: two folders may have files of one name. */
export function names(files: File[]): string[] {
  const taken = new Set<string>();
  return files.map((file) => {
    const [, stem = "", suffix = ""] = /^(.*?)(\.[^.]*)?$/.exec(file.name)!;
    let name = file.name;
    for (let n = 2; taken.has(name); n++) name = `${stem} (${n})${suffix}`;
    taken.add(name);
    return name;
  });
}

/** A file on its way: the share of it that has been sent, and which of several it is, from 1. */
export interface Arriving {
  name: string;
  share: number;
  number: number;
}

/** Files one after the other; what cannot be read is told, unless that is all of them: then it is the failure. */
export async function upload(index: string, files: File[], ocr: boolean, onProgress: (far: Arriving) => void): Promise<Added & { scans: File[]; failure?: Error }> {
  const all: Added = { added: 0, updated: 0, problems: [] };
  const failures = new Map<File, Error>();
  const called = names(files);
  for (const [i, file] of files.entries())
    try {
      const name = called[i]!;
      const tell = (share: number) => onProgress({ name, share, number: i + 1 });
      tell(0);
      const { added, updated, problems } = await send(index, file, name, ocr, tell);
      all.added += added;
      all.updated += updated;
      all.problems.push(...problems);
    } catch (error) {
      failures.set(file, error as Error);
    }
  const told = [...failures.values()];
  const scans = files.filter((file) => isScan(failures.get(file)?.message ?? ""));
  if (told.length && told.length === files.length) return { ...all, scans, failure: told[0]! };
  return { ...all, problems: [...all.problems, ...told.map((failure) => failure.message)], scans };
}

/** Whether the server found no text in a file because its pages are pictures. */
export const isScan = (told: string) => /a scan\b|no text on/i.test(told);
