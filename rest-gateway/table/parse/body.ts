import { isUtf8 } from "node:buffer";
import { Problem } from "../../../problems/problem.ts";
import { parseContentType } from "../../conventions/headers.ts";
import { invalidBody, unsupportedMediaType } from "../problem.ts";
import type { Body, JsonContent, Target } from "../request.ts";
import { type ContentType, describe, Malformed, NOT_UTF8, readContent } from "./content.ts";
import { eachPair } from "./url-encoded.ts";

type BodyOptions = {
  /** Functions accept more media types, and an empty body if they need no arguments. */
  readonly target: Target;
  readonly contentType: string | undefined;
  /** Levels of brackets. */
  readonly maxDepth: number;
  /** What has been read of a large body. */
  readonly content: JsonContent | null;
};
type TextType = Extract<Body, { kind: "text" }>["type"];

/** The media types that are converted to JSON. */
const JSON_TYPES: Readonly<Record<string, JsonContent["source"]>> = {
  "application/json": "json",
  "application/vnd.pgrst.object+json": "json",
  "application/vnd.pgrst.array+json": "json",
  "text/csv": "csv",
  "application/x-www-form-urlencoded": "form",
};

const TEXT_TYPES: ReadonlySet<string> = new Set([
  "text/plain",
  "text/xml",
  "application/octet-stream",
] satisfies TextType[]);

const NO_ARGUMENTS = Buffer.from("{}");

/** Parses a body to find its columns. Throws Problem for an unsupported media type and for malformed content. */
export function parseBody(bytes: Buffer, { target, contentType = "application/json", ...options }: BodyOptions): Body {
  const media = parseContentType(contentType);
  const type = media?.type ?? "";
  const charset = media?.parameters.get("charset") ?? "utf-8";
  if (charset.toLowerCase() !== "utf-8") throw unsupportedMediaType(contentType);
  if (target.kind === "function" && TEXT_TYPES.has(type)) return parseText(bytes, type as TextType);
  if (!Object.hasOwn(JSON_TYPES, type)) throw unsupportedMediaType(contentType);
  const source = JSON_TYPES[type]!;
  const content = options.content ?? contentOf(source, bytes, target, options.maxDepth);
  // CSV with a header line but without rows calls a function without arguments.
  const isCall = source === "csv" && content.rows === 0 && target.kind === "function";
  return { kind: "json", ...content, keys: isCall ? [] : content.keys };
}

function contentOf(source: JsonContent["source"], bytes: Buffer, target: Target, maxDepth: number): JsonContent {
  if (source === "form") {
    const values = parseForm(textOf(bytes), target);
    return describe("form", JSON.stringify(values), values);
  }
  const given = source === "json" && bytes.length === 0 && target.kind === "function" ? NO_ARGUMENTS : bytes;
  try {
    return readContent(source, given, maxDepth);
  } catch (error) {
    throw error instanceof Malformed ? invalidBody(error.message, error.details) : error;
  }
}

/** How a large body is read, apart from the other work of the process; null if it is only passed on. */
export function contentTypeOf(contentType = "application/json"): ContentType | null {
  const source = JSON_TYPES[parseContentType(contentType)?.type ?? ""];
  return source === "json" || source === "csv" ? source : null;
}

function parseText(bytes: Buffer, type: TextType): Body {
  if (type !== "application/octet-stream") textOf(bytes);
  return { kind: "text", type, bytes };
}

/** `a=1&b=x&b=y` → `{ a: "1", b: ["x", "y"] }` for a function, which may be variadic. For a column the last value applies. */
function parseForm(text: string, { kind }: Target): Record<string, string | string[]> {
  const fields = new Map<string, string[]>();
  const add = (name: string, value: string | null) => {
    const values = fields.get(name);
    if (values) values.push(value ?? "");
    else fields.set(name, [value ?? ""]);
  };
  try {
    eachPair("form", text, add);
  } catch (error) {
    if (error instanceof Problem) throw invalidBody("Empty or invalid form", String(error.more.details));
    throw error;
  }
  const isOne = (values: readonly string[]) => kind === "table" || values.length === 1;
  return Object.fromEntries([...fields].map(([name, values]) => [name, isOne(values) ? values.at(-1)! : values]));
}

/** Throws Problem for bytes that are not UTF-8. */
export function textOf(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw invalidBody(NOT_UTF8);
  return bytes.toString();
}
