/** Addresses live behind the #, so that the server needs to know one page only and exported files work too. */

import { useEffect, useState } from "preact/hooks";

export interface Place {
  path: string[];
  query: URLSearchParams;
}

/** A part of an address in plain text; one that is not well-formed is taken as it is, and then leads nowhere. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function parse(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

export function usePlace(): Place {
  const [place, setPlace] = useState(() => parse(location.hash));
  useEffect(() => {
    const update = () => setPlace(parse(location.hash));
    addEventListener("hashchange", update);
    return () => removeEventListener("hashchange", update);
  }, []);
  return place;
}

export function link(path: (string | number)[], query: Record<string, string> = {}): string {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  return "#/" + path.map((part) => encodeURIComponent(part)).join("/") + (search ? `?${search}` : "");
}

export function go(path: (string | number)[], query: Record<string, string> = {}, replace = false): void {
  const target = link(path, query);
  if (replace) {
    history.replaceState(null, "", target);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = target;
}
