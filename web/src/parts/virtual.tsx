import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

const ROW = 34;
const MARGIN = 8;

/** A long list of which only the rows in sight exist. */
export function Virtual<T>(props: {
  items: T[];
  render: (item: T, place: number) => ComponentChildren;
  selected?: number;
  label: string;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  useLayoutEffect(() => {
    const element = box.current!;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    measure();
    element.addEventListener("scroll", measure, { passive: true });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => {
      element.removeEventListener("scroll", measure);
      observer.disconnect();
    };
  }, []);
  useEffect(() => {
    const element = box.current!;
    const place = props.selected ?? -1;
    if (place < 0) return;
    if (place * ROW < element.scrollTop) element.scrollTop = place * ROW;
    else if ((place + 1) * ROW > element.scrollTop + element.clientHeight)
      element.scrollTop = (place + 1) * ROW - element.clientHeight;
  }, [props.selected]);
  const first = Math.max(0, Math.floor(view.top / ROW) - MARGIN);
  const last = Math.min(props.items.length, Math.ceil((view.top + view.height) / ROW) + MARGIN);
  return (
    <div class="virtual" ref={box} role="list" aria-label={props.label} tabIndex={0}>
      <div style={{ height: `${props.items.length * ROW}px`, position: "relative" }}>
        {props.items.slice(first, last).map((item, i) => (
          <div
            key={first + i}
            role="listitem"
            style={{ position: "absolute", top: `${(first + i) * ROW}px`, height: `${ROW}px`, left: 0, right: 0 }}
          >
            {props.render(item, first + i)}
          </div>
        ))}
      </div>
    </div>
  );
}
