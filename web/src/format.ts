export const count = (n: number | undefined): string => (n ?? 0).toLocaleString("en");

/** How many there are: 1 passage, 2 indexes, 0 queries. */
export function plural(n: number | undefined, one: string): string {
  if (n === 1) return `1 ${one}`;
  return `${count(n)} ${one.replace(/([^aeiou])y$/, "$1ie").replace(/(s|x|z|ch|sh)$/, "$1e")}s`;
}

export function seconds(s: number | undefined): string {
  const value = s ?? 0;
  if (value < 10) return `${value.toFixed(value < 1 ? 2 : 1)} s`;
  if (value < 100) return `${value.toFixed(0)} s`;
  const whole = Math.round(value);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

export function bytes(n: number | undefined): string {
  const value = n ?? 0;
  if (value < 1e3) return plural(value, "byte");
  if (value < 1e6) return `${(value / 1e3).toFixed(0)} kB`;
  return value < 1e9 ? `${(value / 1e6).toFixed(1)} MB` : `${(value / 1e9).toFixed(1)} GB`;
}

export const when = (s: number): string =>
  s ? new Date(s * 1000).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" }) : "";

export const percent = (p: number): string => `${Math.round(p * 100)}%`;

export const figure = (x: number | null | undefined): string =>
  x == null ? "–" : Number.isInteger(x) ? count(x) : Math.abs(x) >= 100 ? count(Math.round(x)) : Math.abs(x) >= 10 ? x.toFixed(1) : x.toFixed(3);
