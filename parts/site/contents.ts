import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Doc, docAt, type Group, markdownPath, textOf } from "../../pages/documents.ts";

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

/** Where the list for programs is. Source: https://llmstxt.org */
export const LIST = "/llms.txt";

/** All documents, for programs: `- [GraphQL for frontends](docs/graphql.md): For frontend developers: read, page, filter and write with GraphQL.` */
export function listOf(groups: readonly Group[]): string {
  const lines = groups.flatMap(({ name, docs }) => [
    `\n## ${name}\n`,
    ...docs.map((doc) => `- [${doc.name}](${markdownPath(doc).slice(1)})${aboutOf(doc)}`),
  ]);
  const about = "A PostgreSQL database as an API: GraphQL, REST, realtime and sign-in.";
  return `${["# Content Service", "", `> ${about}`, ...lines].join("\n")}\n`;
}

/** The first sentence says for whom a document is, and what they can do after it. */
function aboutOf({ file }: Doc): string {
  const [, paragraph = ""] = /^# .*\n+(For .+(?:\n.+)*)/.exec(textOf(file)) ?? [];
  const [sentence] = /^.+?\.(?=\s|$)/s.exec(paragraph.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")) ?? [];
  return sentence === undefined ? "" : `: ${sentence.replace(/\s+/g, " ")}`;
}

/** The file with the GraphQL schema of an application; null if there is none. */
export function schemaIn(folder: string | null): string | null {
  const file = folder && join(folder, "schema.graphql");
  return file && existsSync(file) ? file : null;
}
