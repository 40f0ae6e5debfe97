import { readFileSync } from "node:fs";
import { join } from "node:path";
import { VERSION } from "../../db/cluster/modules.ts";
import { PROJECT } from "../support/command.ts";

/** What a developer adds to the application that `init` makes: a table and a hook by a migration, a route, a task and a plugin. */
export const ADDED = {
  "db/schema/tags.sql": `create table if not exists public.tags (
  note_id bigint not null references public.notes on delete cascade,
  name    text not null,

  primary key (note_id, name)
);
alter table public.tags enable row level security;
grant select on public.tags to authenticated;
grant all on public.tags to service_role;
drop policy if exists "authors read the tags of their notes" on public.tags;
create policy "authors read the tags of their notes" on public.tags for select to authenticated
  using (exists (select from public.notes as n where n.id = note_id));

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
`,
  "db/migrations/current.sql": "--!include tags.sql\n",
  "routes/tags.ts": `import { defineRoute } from "content-service";

export const tags = defineRoute({
  path: "/tags",
  methods: {
    GET: (_request, _response, { db }) => db.query("select name, count(*)::int as notes from tags group by name order by name"),
  },
});
`,
  "tasks/untag.ts": `import { defineTask } from "content-service";

export const untag = defineTask<{ name: string }>({
  name: "untag",
  async run({ name }, { db }) {
    await db.query("delete from tags where name = $1", [name]);
  },
});
`,
  "plugins/greeting.ts": `import { constant, extendSchema } from "content-service/postgraphile";

export const pluginOf = (greeting: string) =>
  extendSchema({
    typeDefs: "extend type Query { greeting: String! }",
    objects: { Query: { plans: { greeting: () => constant(greeting) } } },
  });
`,
  "content-service.config.ts": `import { defineConfig, z } from "content-service";
import { notes } from "./resources/notes.ts";
import { hello } from "./routes/hello.ts";
import { tags } from "./routes/tags.ts";
import { digest } from "./tasks/digest.ts";
import { untag } from "./tasks/untag.ts";

export default defineConfig({
  resources: [notes],
  routes: [hello, tags],
  tasks: [digest, untag],
  environment: { APP_GREETING: z.string().default("hello") },
  graphql: async ({ APP_GREETING }) => {
    const { pluginOf } = await import("./plugins/greeting.ts");
    const { plugins } = await import("./plugins/index.ts");
    return { plugins: [...plugins, pluginOf(APP_GREETING)] };
  },
});
`,
};

/** The version after this one, with a migration of a module and new code of it. */
export const NEXT = VERSION.replace(/\d+\.\d+$/, (rest: string) => `${Number.parseInt(rest, 10) + 1}.0`);
export const NEXT_FILES = {
  "db/modules/auth/migrations/001-labels.sql": "alter table auth_private.providers add column label text;\n",
  "db/modules/auth/owner.sql": `${readFileSync(join(PROJECT, "db/modules/auth/owner.sql"), "utf8")}
comment on column auth_private.providers.label is 'For people.';
`,
  "CHANGELOG.md": `# Changelog\n\n## ${NEXT} (2027-01-01)\n\n### Breaking changes\n\n- Greetings are shorter.\n`,
};
