import type { Catalog, FunctionResult, MediaHandler, TableName } from "../../../db/catalog/catalog.ts";
import type { ExplainPlan, Format } from "../../../db/query/plan.ts";
import { type MediaType, parseContentType } from "../../conventions/headers.ts";
import { notAcceptable } from "../problem.ts";

const PGRST = "application/vnd.pgrst.";
const CHARSET = "; charset=utf-8";
const EXPLAIN_OPTIONS: ReadonlySet<string> = new Set(["analyze", "verbose", "settings", "buffers", "wal"]);

export type FormatOptions = {
  readonly catalog: Catalog;
  /** Whether query plans may be returned. */
  readonly allowsPlans: boolean;
  /** The result of a function; null for tables. */
  readonly result: FunctionResult | null;
  /** The table of the returned rows; null for other rows. */
  readonly table: TableName | null;
  /** Whether the rows have exactly the columns of the table. */
  readonly isWhole: boolean;
};

/** The first media type of Accept that is available. */
export function planFormat(accept: readonly MediaType[], options: FormatOptions): Format {
  for (const wanted of accept) {
    const format = formatOf(wanted, options);
    if (format) return format;
  }
  const hint = accept.some(isPlan) && !options.allowsPlans ? PLANS_ARE_OFF : undefined;
  throw notAcceptable(
    accept.map(({ type }) => type),
    hint,
  );
}

const PLANS_ARE_OFF = "Query plans, such as those of explain(), are off: the operator sets DB_PLAN=on.";

const PLAN_TYPES = ["plan", "plan+json", "plan+text"].map((name) => PGRST + name);

const isPlan = ({ type }: MediaType): boolean => PLAN_TYPES.includes(type);

function formatOf(wanted: MediaType, options: FormatOptions): Format | null {
  if (isPlan(wanted)) return options.allowsPlans ? explained(wanted, options) : null;
  const { result } = options;
  // The response has no body, so any type is acceptable.
  if (result?.kind === "void") return format("scalar", "application/json");
  const raw = result?.kind === "scalar" && !result.isSet ? rawFormat(wanted.type, result) : null;
  return raw ?? handledFormat(wanted.type, options) ?? tableFormat(wanted, options);
}

/** The database's aggregate for a media type other than PostgREST's own. An aggregate for the table takes precedence. */
function handledFormat(wanted: string, { catalog, result, table, isWhole }: FormatOptions): Format | null {
  if (wanted.startsWith(PGRST) || result?.kind === "scalar" || result?.kind === "record") return null;
  const isOfTable = ({ table: own }: MediaHandler) =>
    isWhole && own !== null && own.schema === table?.schema && own.name === table.name;
  const handlers = catalog.mediaHandlers;
  const handler =
    handlers.find((each) => isOfTable(each) && each.mediaType === ANYTHING) ??
    handlers.find((each) => isOfTable(each) && each.mediaType === wanted) ??
    handlers.find((each) => each.table === null && each.mediaType === wanted);
  if (!handler) return null;
  const type = handler.mediaType === ANYTHING ? OCTETS : handler.mediaType;
  return { ...raw(type), kind: "aggregate", handler };
}

function tableFormat({ type, parameters }: MediaType, { catalog, result }: FormatOptions): Format | null {
  const stripsNulls = parameters.get("nulls") === "stripped";
  const isScalar = result?.kind === "scalar" || result?.kind === "record";
  const isOneRow = result !== null && "isSet" in result && !result.isSet;
  const isValue = result?.kind === "record" || (isScalar && isOneRow);
  const array = isScalar ? "scalar" : isOneRow ? "object" : "array";
  switch (type) {
    case "*/*":
    case "application/*":
    case "application/json":
      return format(array, "application/json");
    case `${PGRST}array`:
    case `${PGRST}array+json`:
      return format(array, stripsNulls ? `${PGRST}array+json` : "application/json", stripsNulls);
    case `${PGRST}object`:
    case `${PGRST}object+json`:
      return format(isValue ? "scalar" : "object", `${PGRST}object+json`, stripsNulls);
    case "text/csv":
    case "text/*":
      return result?.kind === "record" ? null : format("csv", "text/csv");
    case "application/x-ndjson":
      return format("lines", "application/x-ndjson");
    case "application/geo+json":
      return catalog.postgis === null || isScalar ? null : format("geojson", "application/geo+json");
    default:
      return null;
  }
}

const format = (kind: Format["kind"], type: string, stripsNulls = false): Format => ({
  kind,
  isSingular: type === `${PGRST}object+json`,
  stripsNulls,
  contentType: `${type}${stripsNulls ? ";nulls=stripped" : ""}${CHARSET}`,
  handler: null,
  explain: null,
});

/** Types whose value may be returned unchanged instead of as JSON. */
const RAW_TYPES: Readonly<Record<string, string>> = {
  bytea: "application/octet-stream",
  text: "text/plain",
  xml: "text/xml",
};

const ANYTHING = "*/*";
const OCTETS = "application/octet-stream";

/**
 * Returns a function's single value unchanged instead of as JSON: if its type is a domain that is named like a media type, or
 * if it is text, xml or bytea and the client names that media type. A client that accepts anything gets JSON, unless the domain
 * itself stands for any type.
 */
function rawFormat(wanted: string, { shape }: Extract<FunctionResult, { kind: "scalar" }>): Format | null {
  const domain = mediaTypeOfDomain(shape.domain);
  if (domain === ANYTHING) return raw(OCTETS);
  const type = domain ?? (shape.isArray ? undefined : RAW_TYPES[shape.name]);
  return type !== undefined && (wanted === type || wanted === rangeOf(type)) ? raw(type) : null;
}

/** `image/png` → `image/*` */
const rangeOf = (type: string) => `${type.slice(0, type.indexOf("/"))}/*`;

/** Media types of text. */
const TEXTS: ReadonlySet<string> = new Set(["text/plain", "text/xml", "text/csv", "application/json"]);

const raw = (type: string): Format => ({
  kind: "raw",
  isSingular: false,
  stripsNulls: false,
  contentType: TEXTS.has(type) ? `${type}${CHARSET}` : type,
  handler: null,
  explain: null,
});

/** `"public"."image/png"` → `image/png`; null for a domain with another name. */
export function mediaTypeOfDomain(domain: string | null): string | null {
  const name = domain === null ? undefined : /"([^"/]+\/[^"/]+)"$/.exec(domain)?.[1];
  return name ?? null;
}

/** The query plan of a response with the media type in `for`; null when that type is not available. */
function explained({ type, parameters }: MediaType, options: FormatOptions): Format | null {
  const wanted = parseContentType(parameters.get("for") ?? "application/json");
  const answered = wanted && formatOf(wanted, { ...options, allowsPlans: false });
  if (!answered) return null;
  const isJson = type.endsWith("+json");
  const names = (parameters.get("options") ?? "").split("|").filter((option) => EXPLAIN_OPTIONS.has(option));
  const explain: ExplainPlan = { isJson, options: [...new Set(names)].sort() };
  const inner = answered.contentType.replace(CHARSET, "");
  const shown = [`for="${inner}"`, ...(explain.options.length > 0 ? [`options=${explain.options.join("|")}`] : [])];
  return {
    ...answered,
    explain,
    contentType: `${PGRST}plan+${isJson ? "json" : "text"}; ${shown.join("; ")}${CHARSET}`,
  };
}
