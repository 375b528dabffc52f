import { useState } from "preact/hooks";
import { ACCEPTED } from "../upload";

const KINDS = "text, Markdown, PDF, Word, Excel, PowerPoint, HTML, CSV, JSON lines, ZIP";

/** A place to drop files on, or to choose them with the keyboard. */
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
        props.onFiles([...(e.dataTransfer?.files ?? [])]);
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
      <span><b>Drop files here</b>, or <u>choose them</u></span>
      <small>{KINDS}</small>
    </label>
  );
}
