import { badRequest } from "../../conventions/problem.ts";

/** `/api/v2/users/7?fields=name` → `{ prefix: "/api/v2", version: "2", segments: ["users", "7"], search: "fields=name" }` */
export type Address = {
  /** As it was sent. */
  readonly path: string;
  /** "" where the path names no version. */
  readonly prefix: string;
  readonly version: string | null;
  /** As they were sent, too. */
  readonly segments: readonly string[];
  readonly search: string;
};

/** `v2.1` is none that there is, and is to be told so. */
const VERSIONED = /^\/api\/v(-?[0-9][0-9.]*)(?=\/|$)/;

export function parseAddress(url: string): Address {
  const at = url.indexOf("?");
  const path = at < 0 ? url : url.slice(0, at);
  const search = at < 0 ? "" : url.slice(at + 1);
  const [prefix, version = null] = VERSIONED.exec(path) ?? [""];
  const segments = path.slice(prefix.length + 1).split("/");
  return { path, prefix, version, segments, search };
}

/** Throws RestError for what is not percent-encoded UTF-8. */
export const decodeSegments = ({ segments }: Address): readonly string[] => segments.map(decodeSegment);

function decodeSegment(segment: string): string {
  if (!segment.includes("%")) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    throw badRequest("the path must be UTF-8, percent-encoded");
  }
}

/** `/users/7` → `users`, `/api/v2/users` → `users`: whose matter a request is. */
export function firstSegment(url: string): string {
  const start = (VERSIONED.exec(url)?.[0].length ?? 0) + 1;
  const end = url.slice(start).search(/[/?]/);
  return end < 0 ? url.slice(start) : url.slice(start, start + end);
}

export const isVersioned = (url: string) => VERSIONED.test(url);
