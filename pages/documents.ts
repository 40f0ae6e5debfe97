import { existsSync, globSync, readFileSync } from "node:fs";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import type { Link } from "../gate/pages/html.ts";
import { DOCUMENTATION } from "../rest-gateway/conventions/problem.ts";

export const ROOT = fileURLToPath(new URL("../", import.meta.url));

/** A document of the product. */
export type Doc = Link & { readonly file: string };

/** The documents for one kind of reader, in the order in which they read them. */
export type Group = { readonly name: string; readonly docs: readonly Doc[] };

/** Documents, and the file with the GraphQL schema of the application; null if it is not served. */
export type Documents = { readonly groups: readonly Group[]; readonly schema: string | null };

/** The GraphQL schema of the application, and the sections of all documents for the search. */
export const SCHEMA = "/docs/schema.graphql";
export const SEARCH = "/docs/search.json";

export type DocsOptions = Documents & {
  /** The links of the header. */
  readonly links: readonly Link[];
};

/** The document at a path; null where an installation has left it out. */
export const docAt = (path: string, file: string): Doc | null =>
  existsSync(ROOT + file) ? { file, path, name: titleOf(file) } : null;

// A part of a string keeps the whole one in memory, so that it is copied.
const titleOf = (file: string) => Buffer.from(/^# (.*)$/m.exec(textOf(file))?.[1] ?? file).toString();

const IMAGE_TYPES: Readonly<Record<string, string>> = { ".svg": "image/svg+xml", ".png": "image/png" };

/** A picture of the documents. */
export type Image = { readonly file: string; readonly path: string; readonly type: string };

let images: readonly Image[] | undefined;

/** The pictures that an installation has: `docs/images/x.svg`, at `/docs/images/x.svg`. */
export function listImages(): readonly Image[] {
  images ??= globSync("docs/images/*.{svg,png}", { cwd: ROOT }).map((file) => ({
    ...{ file, path: `/${file}`, type: IMAGE_TYPES[extname(file)]! },
  }));
  return images;
}

export const textOf = (file: string) => readFileSync(ROOT + file, "utf8");

export const docsOf = ({ groups }: Pick<DocsOptions, "groups">): readonly Doc[] => groups.flatMap(({ docs }) => docs);

/** Where a document is as Markdown. */
export const markdownPath = ({ path }: Doc): string => `${path}.md`;

/** The documents of all parts, and the errors, which every response with an error names. */
export function joinDocuments(parts: readonly Documents[]): Documents {
  const groups = parts.flatMap((part) => part.groups);
  const schema = parts.find((part) => part.schema !== null)?.schema ?? null;
  const hasErrors = docsOf({ groups }).some(({ path }) => path === DOCUMENTATION);
  const errors = hasErrors ? null : docAt(DOCUMENTATION, "docs/errors.md");
  return { groups: errors ? [...groups, { name: "Documentation", docs: [errors] }] : groups, schema };
}
