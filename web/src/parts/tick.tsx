export const toggled = (all: string[], one: string): string[] => (all.includes(one) ? all.filter((x) => x !== one) : [...all, one]);

export function Tick(props: { label: string; on: boolean; onChange: () => void }) {
  return <label class="tick-box"><input type="checkbox" aria-label={props.label} checked={props.on} onChange={props.onChange} /><span /></label>;
}

/** A way to compare what is ticked. */
export function Together(props: { chosen: string[]; what: string; href: string }) {
  if (!props.chosen.length) return null;
  if (props.chosen.length === 1) return <small>tick another to compare</small>;
  return <a class="primary" href={props.href}>Compare {props.chosen.length} {props.what}</a>;
}
