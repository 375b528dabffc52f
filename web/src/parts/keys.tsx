import { useEffect, useRef } from "preact/hooks";

const KEYS: [string, [string, string][]][] = [
  ["Everywhere", [["?", "show these keys"], ["n", "new question"], ["/", "to the question, or to the search"], ["Esc", "close what is open"]]],
  ["Asking", [["Enter", "ask"], ["Shift Enter", "new line"]]],
  ["Traces", [["j", "next context"], ["k", "previous context"], ["1 – 7", "tabs"], ["/", "search events"]]],
];

const typing = (e: KeyboardEvent) => (e.target as HTMLElement).closest("input, textarea, select, [contenteditable]");

/** The keys that work on the page, shown by `?` and by its button; also the keys that work everywhere. */
export function Keys() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const press = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || typing(e)) return;
      const box = document.querySelector<HTMLElement>("#question, main input[type=search]");
      if (e.key === "?") dialog.current?.open ? dialog.current.close() : dialog.current?.showModal();
      else if (dialog.current?.open) return;
      else if (e.key === "n") location.hash = "#/ask";
      else if (e.key === "/" && box && !document.querySelector(".trace")) box.focus();
      else return;
      e.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  return (
    <>
      <button class="quiet help" aria-label="Keys" title="Keys (?)" onClick={() => dialog.current?.showModal()}>?</button>
      <dialog ref={dialog} class="keys-dialog" aria-labelledby="keys-title" onClick={(e) => e.target === e.currentTarget && e.currentTarget.close()}>
        <div>
          <div class="top">
            <h2 id="keys-title">Keys</h2>
            <button class="quiet" onClick={() => dialog.current?.close()}>Close</button>
          </div>
          {KEYS.map(([where, keys]) => (
            <section key={where}>
              <h3>{where}</h3>
              <dl>
                {keys.map(([key, what]) => (
                  <div key={key}><dt>{key.split(" ").map((one) => (one === "–" ? " – " : <kbd key={one}>{one}</kbd>))}</dt><dd>{what}</dd></div>
                ))}
              </dl>
            </section>
          ))}
        </div>
      </dialog>
    </>
  );
}
