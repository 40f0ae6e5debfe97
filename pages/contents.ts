import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Link } from "../http/pages/html.ts";

export const ROOT = fileURLToPath(new URL("../", import.meta.url));

/** A document of the product. */
export type Doc = Link & { readonly file: string };

/** The documents for one kind of reader, in the order in which they read them. */
export type Group = { readonly name: string; readonly docs: readonly Doc[] };

/** Names are those of files in `docs/`, without `.md`. A document is in the group of its first reader. */
const CONTENTS: Readonly<Record<string, readonly string[]>> = {
  Start: ["README.md", "upgrades", "CHANGELOG.md"],
  "Frontend developers": [
    "graphql",
    "live-comments",
    "supabase-js",
    "realtime",
    "channels",
    "broadcast",
    "missing-changes",
    "authentication",
    "accounts",
    "passkeys",
    "errors",
  ],
  "Client developers": ["tables", "types", "resources", "tasks"],
  "Application developers": ["applications", "hooks", "mail"],
  DBAs: [
    ...["database-application", "existing-database", "dba-guide", "from-psql-to-a-migration", "migrations"],
    ...["modules", "bring-your-users"],
    ...["advisor", "console"],
  ],
  Operators: [
    ...["deployment", "scaling", "configuration", "settings", "from-postgrest", "metrics", "runbook"],
    ...["federated-sign-in", "SECURITY.md", "bench/results.md"],
  ],
  "Developers of the service": [
    "CONTRIBUTING.md",
    "architecture",
    "changes",
    "tour",
    "glossary",
    "decisions/README",
    "releasing",
  ],
};

/** Documents outside of `docs/`. */
const OTHERS: Readonly<Record<string, string>> = {
  "README.md": "/docs/readme",
  "CHANGELOG.md": "/docs/changelog",
  "CONTRIBUTING.md": "/docs/contributing",
  "SECURITY.md": "/docs/security",
  "bench/results.md": "/docs/benchmarks",
};

/** `docs/tables.md` → `/docs/tables`; `docs/decisions/README.md` → `/docs/decisions` */
const pathOf = (file: string) => OTHERS[file] ?? `/${file.replace(/(\/README)?\.md$/, "")}`;

/** All documents, by reader. An installation may leave some out. */
export function listGroups(): readonly Group[] {
  return Object.entries(CONTENTS).map(([name, names]) => ({
    name,
    docs: names
      .map((each) => (each.endsWith(".md") ? each : `docs/${each}.md`))
      .filter((file) => existsSync(ROOT + file))
      .map((file) => ({ file, path: pathOf(file), name: titleOf(file) })),
  }));
}

// A part of a string keeps the whole one in memory, so that it is copied.
const titleOf = (file: string) => Buffer.from(/^# (.*)$/m.exec(textOf(file))?.[1] ?? file).toString();

export const textOf = (file: string) => readFileSync(ROOT + file, "utf8");

/** The GraphQL schema of the application, and the sections of all documents for the search. */
export const SCHEMA = "/docs/schema.graphql";
export const SEARCH = "/docs/search.json";

export type DocsOptions = {
  /** Those that are served. */
  readonly groups: readonly Group[];
  /** The file with the GraphQL schema of the application; null if it is not served. */
  readonly schema: string | null;
  /** The links of the header. */
  readonly links: readonly Link[];
};

export const docsOf = ({ groups }: Pick<DocsOptions, "groups">): readonly Doc[] => groups.flatMap(({ docs }) => docs);
