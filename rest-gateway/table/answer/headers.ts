import { validateHeaderName, validateHeaderValue } from "node:http";
import type { Catalog } from "../../../db/catalog/catalog.ts";
import { problem } from "../../../db/problems/problem.ts";
import type { Header } from "../../conventions/endpoint.ts";
import { type ChangePlan, type EmbedPlan, isChange, type Plan, type RowsPlan } from "../plan.ts";
import { invalidRange } from "../problem.ts";
import { RESERVED_NAMES, type RequestUrl } from "../request.ts";

/** The header Preference-Applied: the preferences of the request that had an effect; "" for none. */
export function appliedPreferences(plan: Plan, isEndChosen: boolean): string {
  const { resolution, missing, return: returned, count, tx, handling, timezone, maxAffected } = plan.preferences;
  const pairs: [string, string | number | null][] = [
    ["resolution", plan.kind === "insert" && !plan.key && plan.conflict ? resolution : null],
    ["missing", plan.kind === "insert" || plan.kind === "update" ? missing : null],
    ["return", isChange(plan) ? returned : null],
    ["count", count],
    ["tx", isEndChosen ? tx : null],
    ["handling", handling],
    ["timezone", timezone],
    ["max-affected", plan.maxAffected === null ? null : maxAffected],
  ];
  return pairs
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}=${value}`)
    .join(", ");
}

/**
 * The header Warning, for parameters that use the name of a relation that has an alias; null when none does.
 * Source: PostgREST docs, "url-use-legacy-target-names".
 */
export function warningOf(plan: Plan): string | null {
  const rows = plan.kind === "read" || plan.kind === "call" ? plan.rows : plan.representation;
  const older = rows ? olderNames(rows) : [];
  if (older.length === 0) return null;
  const updates = older.map(({ olderName, name }) => `\`${asciiOf(olderName!)}\` to \`${asciiOf(name)}\``);
  return (
    '299 content-service "Embedded resource was referenced by relation name even though it has an alias. ' +
    "This is deprecated and will stop working in a future release. " +
    `Update ${updates.join(", ")} in query string filters, orders or limits."`
  );
}

const olderNames = ({ embeds }: RowsPlan): EmbedPlan[] =>
  embeds.flatMap((embed) => [...(embed.olderName === null ? [] : [embed]), ...olderNames(embed.rows)]);

/** A quoted string in a header must be ASCII without quotes. */
const asciiOf = (name: string) => name.replace(/[^ !#-[\]-~]/gu, encodeURIComponent);

/** The header Content-Profile; null if only one schema is served. Node writes each character of a header as one byte. */
export const profileHeader = ({ schemas }: Pick<Catalog, "schemas">, schema: string): string | null =>
  schemas.size > 1 ? Buffer.from(schema).toString("latin1") : null;

/** `0-19/100`; partial when there are more rows than these. */
export type ContentRange = { readonly header: string; readonly isPartial: boolean };

/** The range of a read. Throws 416 for an offset beyond the total, if the total is known. */
export function readRange(offset: number, rows: number, total: number | null): ContentRange {
  if (total !== null && offset > total)
    throw invalidRange(`An offset of ${offset} was requested, but there are only ${total} rows.`, total);
  return { header: rangeHeader(offset, rows, total), isPartial: total !== null && rows < total };
}

/** The range of a change. Only an update numbers its rows. The total is exact, whichever count the client prefers. */
export const changedRange = ({ kind, preferences }: ChangePlan, affected: number): ContentRange => ({
  header: rangeHeader(0, kind === "update" ? affected : 0, preferences.count === null ? null : affected),
  isPartial: false,
});

const rangeHeader = (first: number, rows: number, total: number | null) =>
  `${rows > 0 ? `${first}-${first + rows - 1}` : "*"}/${total ?? "*"}`;

/** The header Location: `/rest/v1/users?id=eq.5`. `key` holds the values of the key's columns as text. */
export function locationOf(plan: Plan, path: string, key: readonly (string | null)[]): string {
  const columns = plan.kind === "insert" ? plan.locationKey : [];
  const filters = columns.map(({ name }, i) => {
    const value = key[i] ?? null;
    const condition = value === null ? "is.null" : `eq.${encodeURIComponent(value)}`;
    return `${encodeURIComponent(parameterOf(name))}=${condition}`;
  });
  return `${path}?${filters.join("&")}`;
}

const PLAIN_NAME = /^[\p{L}_]([\p{L}\d_$ ]*[\p{L}\d_$])?$/u;

/** The parameter that filters by a column: its name, quoted if necessary: `id`, `"limit"`, `"a.b"`. */
function parameterOf(column: string): string {
  const isPlain = PLAIN_NAME.test(column) && !RESERVED_NAMES.has(column);
  return isPlain ? column : `"${column.replace(/["\\]/g, "\\$&")}"`;
}

/** Clients read at most 16 kB of headers, and some proxies only 4 kB. The URL of a request may be longer. */
const MAX_LOCATION_LENGTH = 2000;

/** The header Content-Location: the URL with sorted parameters, which is the same for equivalent requests; null for a long URL. */
export function contentLocation({ path, search }: RequestUrl): string | null {
  if (path.length + search.length > MAX_LOCATION_LENGTH) return null;
  return search === "" ? path : `${path}?${search.includes("&") ? search.split("&").sort().join("&") : search}`;
}

/** The value of `set_config('response.status', '418', true)`; null when no function has set it. */
export function responseStatus(text: string | null): number | null {
  if (text === null) return null;
  if (!/^[2-5]\d\d$/.test(text)) throw problem("bad response status");
  return Number(text);
}

/** Headers of the message framing. A function that set them would break the connection. */
const RESERVED = new Set(["content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "trailer"]);

/** The headers that a function has set: `[{"Cache-Control": "public"}, …]` */
export function responseHeaders(text: string): Header[] {
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch {
    throw problem("bad response headers");
  }
  if (!Array.isArray(list)) throw problem("bad response headers");
  return list.map(headerOf);
}

function headerOf(item: unknown): Header {
  const [entry, ...others] = typeof item === "object" && item !== null ? Object.entries(item) : [];
  const header = entry && others.length === 0 ? writeHeader(entry) : null;
  if (!header) throw problem("bad response headers");
  return header;
}

/** `é` → two characters, which Node writes as its two bytes in UTF-8. Node encodes Content-Disposition twice. */
const inBytes = (text: string) => Buffer.from(text).toString("latin1");

/** A header that a function has set, as it is sent; null when it is malformed or reserved. */
export function writeHeader([name, value]: readonly [string, unknown]): Header | null {
  if (typeof value !== "string" || RESERVED.has(name.toLowerCase())) return null;
  const bytes = name.toLowerCase() === "content-disposition" ? inBytes(inBytes(value)) : inBytes(value);
  try {
    validateHeaderName(name);
    validateHeaderValue(name, bytes);
    return [name, bytes];
  } catch {
    return null;
  }
}
