import { useState } from "preact/hooks";
import { ACCEPTED, dropped, readable } from "../upload";

const KINDS = "text, Markdown, PDF, Word, Excel, PowerPoint, HTML, CSV, JSON lines, ZIP";

/** A button that chooses a folder; what cannot be read is left out. */
export function FolderButton(props: { onFiles: (files: File[]) => void; label: string }) {
  const choose = (input: HTMLInputElement | null) => input?.setAttribute("webkitdirectory", "");
  return (
    <label class="quiet">
      Add a folder
      <input
        class="hidden"
        type="file"
        ref={choose}
        aria-label={props.label}
        onChange={(e) => {
          props.onFiles(readable([...(e.currentTarget.files ?? [])]));
          e.currentTarget.value = "";
        }}
      />
    </label>
  );
}

/** A place to drop files and folders on, or to choose files with the keyboard. */
export function DropFiles(props: { onFiles: (files: File[]) => void; label?: string }) {
  const [over, setOver] = useState(false);
  return (
    <label
      class={`drop ${over ? "dropping" : ""}`}
      onDragOver={(e) => {
        e.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(e) => {
        e.preventDefault();
        setOver(false);
        if (e.dataTransfer) void dropped(e.dataTransfer).then(props.onFiles);
      }}
    >
      <input
        class="hidden"
        type="file"
        multiple
        accept={ACCEPTED}
        aria-label={props.label ?? "Add files"}
        onChange={(e) => {
          props.onFiles([...(e.currentTarget.files ?? [])]);
          e.currentTarget.value = ""; // so that the same file can be chosen again
        }}
      />
      <span><b>Drop files or folders here</b>, or <u>choose them</u></span>
      <small>{KINDS}</small>
    </label>
  );
}
