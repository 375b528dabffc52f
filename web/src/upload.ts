/** Files into an index, as bytes: the server takes them apart, and knows more encodings than a browser. */

import { post } from "./api";

/** What the file chooser offers. */
export const ACCEPTED = ".txt,.md,.rst,.log,.jsonl,.ndjson,.json,.csv,.tsv,.html,.htm,.pdf,.docx,.xlsx,.pptx,.zip,.gz";

export interface Added {
  added: number;
  updated: number;
  problems: string[];
}

export async function upload(index: string, files: File[], note = ""): Promise<Added> {
  const read: { name: string; data?: string; text?: string }[] = await Promise.all(
    files.map(async (file) => ({ name: file.name, data: await base64(file) })),
  );
  if (note.trim()) read.push({ name: `note-${new Date().toISOString().slice(0, 19)}.txt`, text: note });
  return post<Added>(`/api/indexes/${encodeURIComponent(index)}/documents`, { files: read });
}

function base64(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,?/, ""));
    reader.onerror = () => reject(new Error(`${file.name} cannot be read`));
    reader.readAsDataURL(file);
  });
}
