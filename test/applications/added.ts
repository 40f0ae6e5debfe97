import { readFileSync } from "node:fs";
import { join } from "node:path";
import { VERSION } from "../../db/cluster/modules.ts";
import { PROJECT } from "../support/command.ts";

/** A table of the application: `{ row: "note", id: "bigint" }` stands for `public.notes`. */
export type Parent = { readonly row: string; readonly id: "bigint" | "uuid" };

/** What a developer adds to an application with these files: a table and a hook by a migration, a route, a task and a plugin. */
export function additionsTo(files: Readonly<Record<string, string>>, parent: Parent) {
  return {
    "db/schema/tags.sql": schema(parent),
    "db/schema/schema.sql": `${files["db/schema/schema.sql"]}--!include tags.sql\n`,
    "db/migrations/current.sql": "--!include tags.sql\n",
    "routes/tags.ts": ROUTE,
    "tasks/untag.ts": TASK,
    "plugins/greeting.ts": PLUGIN,
    "content-service.config.ts": configuration(files),
  };
}

const schema = ({ row, id }: Parent): string => `create table if not exists public.tags (
  ${row}_id ${id} not null references public.${row}s on delete cascade,
  name text not null,

  primary key (${row}_id, name)
);
alter table public.tags enable row level security;
grant select on public.tags to authenticated;
grant all on public.tags to service_role;
drop policy if exists "users read the tags of what they see" on public.tags;
create policy "users read the tags of what they see" on public.tags for select to authenticated
  using (exists (select from public.${row}s as t where t.id = ${row}_id));

create schema if not exists internal;
grant usage on schema internal to auth_owner;
create or replace function internal.check_sign_up(fields jsonb) returns jsonb
language plpgsql stable set search_path = '' as $$
begin
  if fields ->> 'email' like '%@blocked.example' then
    raise check_violation using message = 'addresses of blocked.example are refused';
  end if;
  return fields;
end $$;
grant execute on function internal.check_sign_up(jsonb) to auth_owner;
select auth.use_hook('before_sign_up', 'internal.check_sign_up(jsonb)');
`;

const ROUTE = `import { defineRoute } from "content-service";

export const tags = defineRoute({
  path: "/tags",
  methods: {
    GET: (_request, _response, { db }) => db.query("select name, count(*)::int as rows from tags group by name order by name"),
  },
});
`;

const TASK = `import { defineTask } from "content-service";

export const untag = defineTask<{ name: string }>({
  name: "untag",
  async run({ name }, { db }) {
    await db.query("delete from tags where name = $1", [name]);
  },
});
`;

const PLUGIN = `import { constant, extendSchema } from "content-service/postgraphile";

export const pluginOf = (greeting: string) =>
  extendSchema({
    typeDefs: "extend type Query { greeting: String! }",
    objects: { Query: { plans: { greeting: () => constant(greeting) } } },
  });
`;

/** The configuration with what was added. */
function configuration(files: Readonly<Record<string, string>>): string {
  const before = files["content-service.config.ts"]!.replace("{ defineConfig }", "{ defineConfig, z }");
  const imports = 'import { tags } from "./routes/tags.ts";\nimport { untag } from "./tasks/untag.ts";\n';
  const own = "plugins/index.ts" in files ? '...(await import("./plugins/index.ts")).plugins, ' : "";
  const graphql = `  graphql: async ({ APP_GREETING }) => {
    const { pluginOf } = await import("./plugins/greeting.ts");
    return { plugins: [${own}pluginOf(APP_GREETING)] };
  },
`;
  const environment = '  environment: { APP_GREETING: z.string().default("hello") },\n';
  const listed = withItem(withItem(before, "routes", "tags"), "tasks", "untag").replace(/^ {2}graphql: .*\n/m, "");
  return imports + listed.replace(END, `${environment}${graphql}$&`);
}

const END = /^}\);$/m;

/** `routes: [hello]` → `routes: [tags, hello]` */
const withItem = (text: string, member: string, item: string): string =>
  text.includes(`  ${member}: [`)
    ? text.replace(`  ${member}: [`, `$&${item}, `)
    : text.replace(END, `  ${member}: [${item}],\n$&`);

/** The version after this one, with a migration of a module and new code of it. */
export const NEXT = VERSION.replace(/\d+\.\d+$/, (rest: string) => `${Number.parseInt(rest, 10) + 1}.0`);
export const NEXT_FILES = {
  "db/modules/auth/migrations/901-labels.sql": "alter table auth_private.providers add column label text;\n",
  "db/modules/auth/owner.sql": `${readFileSync(join(PROJECT, "db/modules/auth/owner.sql"), "utf8")}
comment on column auth_private.providers.label is 'For people.';
`,
  "CHANGELOG.md": `# Changelog\n\n## ${NEXT} (2027-01-01)\n\n### Breaking changes\n\n- Greetings are shorter.\n`,
};
