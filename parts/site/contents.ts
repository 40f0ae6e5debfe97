import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Doc, docAt, type Group } from "../../pages/documents.ts";

/** Names are those of files in `docs/`, without `.md`. A document is in the group of its first reader. */
const CONTENTS: Readonly<Record<string, readonly string[]>> = {
  Start: ["README.md", "index", "CHANGELOG.md"],
  "Frontend developers": ["graphql", "supabase-js", "authentication", "realtime", "errors"],
  "Client developers": ["tables", "types", "resources"],
  "Application developers": ["applications", "mail"],
  DBAs: [
    ...["existing-database", "database-application", "dba-guide", "migrations", "advisor"],
    ...["from-supabase", "from-hasura", "from-postgraphile", "from-postgrest"],
  ],
  Operators: [
    ...["deployment", "configuration", "settings", "operations"],
    ...["federated-sign-in", "SECURITY.md", "bench/results.md"],
  ],
  "Developers of the service": ["CONTRIBUTING.md", "architecture", "decisions/README"],
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

let groups: readonly Group[] | undefined;

/** All documents, by reader. An installation may leave some out. Their titles are read once. */
export function listGroups(): readonly Group[] {
  groups ??= readGroups();
  return groups;
}

function readGroups(): readonly Group[] {
  return Object.entries(CONTENTS).map(([name, names]) => ({
    name,
    docs: names
      .map((each) => (each.endsWith(".md") ? each : `docs/${each}.md`))
      .map((file) => docAt(pathOf(file), file))
      .filter((doc): doc is Doc => doc !== null),
  }));
}

/** The file with the GraphQL schema of an application; null if there is none. */
export function schemaIn(folder: string | null): string | null {
  const file = folder && join(folder, "schema.graphql");
  return file && existsSync(file) ? file : null;
}
