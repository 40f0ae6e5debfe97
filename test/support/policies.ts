import fc from "fast-check";

/** Conditions of policies on `$table`, by how they are decided. None raises an error. */
export const CONDITIONS = {
  "in process": [
    "true",
    "false",
    "pub",
    "pub is not true",
    "pub is unknown",
    "owner = auth.uid()",
    "owner = (select auth.uid())",
    "auth.uid() <> owner",
    "owner is distinct from auth.uid()",
    "owner is null",
    "(select auth.is_admin())",
    "auth.uid() is not null",
    "team = any (array[1, 3])",
    "team <> all (array[1, null])",
    "team in (1, 2)",
    "team > 1",
    "team between 2 and 3",
    "team >= owner",
    "status = 'public'",
    "status in ('public', 'old')",
    "status::text = 'draft'",
    "name = my_name()",
    "name = claim('name')",
    "code = my_name()",
    "code = 'ab'",
    "uid = (auth.claims() ->> 'uid')::uuid",
    "owner::text = auth.claims() ->> 'sub'",
    "auth.uid() = any (readers)",
    "(auth.claims() ->> 'name') = any (tags)",
    "my_name() is null",
    "owner = any (string_to_array(auth.claims() ->> 'friends', ',')::bigint[])",
    "current_user = name",
  ],
  "shared query": [
    "exists (select from members as m where m.team = $table.team and m.user_id = auth.uid())",
    "team in (select m.team from members as m where m.user_id = (select auth.uid()))",
    "amount > 1.5",
    "amount = 1",
    "at < now()",
    "name like 'a%'",
    "lower(name) = lower(auth.claims() ->> 'name')",
    "padded = 'ab'",
    "status > 'draft'",
    "name < 'b'",
    "tags @> array['a']",
    "tags && my_tags()",
    "padded = my_code()",
    "(case when pub then owner = auth.uid() else team = 1 end)",
    "coalesce(pub, false)",
    "$table is not null",
    "is_listed_$table($table)",
  ],
  "own query": [
    "is_member(team)",
    "team = my_team()",
    "exists (select from guarded as g where g.team = $table.team)",
    "team in (select g.team from guarded as g)",
    "exists (select from guarded where guarded.team = $table.team and guarded.user_id = auth.uid())",
  ],
} as const;

/** What the conditions use. `$user` is a role that may use it. */
export const OBJECTS = `
  grant usage on schema public, auth to $user;
  grant execute on all functions in schema auth to $user;
  create type status as enum ('draft', 'public', 'old');
  create table members (team int, user_id bigint, primary key (team, user_id));
  create table guarded (team int, user_id bigint);
  insert into members values (1, 1), (1, 2), (2, 2), (3, 3);
  insert into guarded values (1, 1), (2, 1), (2, 3);
  alter table guarded enable row level security;
  create policy own on guarded using (user_id = auth.uid());
  grant select on members, guarded to $user;

  create function is_member(wanted int) returns boolean language sql stable security definer set search_path = ''
  as $$ select exists (select from public.members as m where m.team = wanted and m.user_id = auth.uid()) $$;
  create function claim(name text) returns text language sql stable
  as $$ select current_setting('request.jwt.claims', true)::json ->> name $$;
  create function my_name() returns text language sql stable
  as $$ SELECT nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'name' $$;
  create function my_team() returns int language plpgsql stable
  as $$ declare found int := (current_setting('request.jwt.claims', true)::json ->> 'team')::int; begin return found; end $$;
  create function my_tags() returns text[] language sql stable
  as $$ select array[auth.claims() ->> 'name', 'x"y'] $$;
  create function my_code() returns char language sql stable
  as $$ select auth.claims() ->> 'name' $$;
  grant execute on function is_member, claim, my_name, my_team, my_tags, my_code to $user;`;

/** A function of a row of the table. */
export const functionOf = (table: string) =>
  `create function is_listed_${table}(item ${table}) returns boolean language sql immutable return item.status is not null;
   grant execute on function is_listed_${table} to public;`;

/** The columns of a table that the conditions are about. */
export const COLUMNS = `id int primary key, owner bigint, team int, status status, pub boolean, name text, code varchar(5),
  uid uuid, tags text[], readers bigint[], amount numeric, at timestamptz, padded char(4)`;

/** The columns besides `id`. */
export const rowOfTable = fc.record({
  owner: fc.constantFrom(null, 1, 2, 3),
  team: fc.constantFrom(null, 1, 2, 3),
  status: fc.constantFrom(null, "draft", "public", "old"),
  pub: fc.constantFrom(null, true, false),
  name: fc.constantFrom(null, "ada", "Ada", 'a "b" \\ c', "", "bob"),
  code: fc.constantFrom(null, "ab", "ada"),
  uid: fc.constantFrom(null, "00000000-0000-0000-0000-00000000000a"),
  tags: fc.constantFrom(null, [], ["a"], ["ada", 'x"y'], [null, "bob"]),
  readers: fc.constantFrom(null, [], [1], [2, 3], [null]),
  amount: fc.constantFrom(null, "1", "1.0", "2.50"),
  at: fc.constantFrom(null, "2020-01-01", "2200-01-01"),
  padded: fc.constantFrom(null, "ab", "ab  ", "ada"),
});

/** Claims of callers, for all the conditions. */
export const CLAIMS = [
  { sub: "1", name: "ada", team: 1, uid: "00000000-0000-0000-0000-00000000000a", friends: "2,3" },
  { sub: "2", name: "Ada", team: 2 },
  { sub: "3", name: 'a "b" \\ c', team: null, friends: "" },
  {},
];

const { "in process": inProcess, "shared query": shared, "own query": own } = CONDITIONS;
const leaf = fc.oneof(fc.constantFrom(...inProcess), fc.constantFrom(...shared), fc.constantFrom(...own));
const ofInProcess = fc.constantFrom<string>(...inProcess);

const combined = (leaves: fc.Arbitrary<string>) =>
  fc.letrec<{ any: string }>((tie) => ({
    any: fc.oneof(
      { depthSize: "small" },
      { weight: 3, arbitrary: leaves },
      { weight: 1, arbitrary: fc.tuple(tie("any"), tie("any")).map(([a, b]) => `(${a}) and (${b})`) },
      { weight: 2, arbitrary: fc.tuple(tie("any"), tie("any")).map(([a, b]) => `(${a}) or (${b})`) },
      { weight: 1, arbitrary: tie("any").map((a) => `not (${a})`) },
    ),
  })).any;

/** A random condition: of those that are decided without a query, or of all. */
export const conditionOfPolicy = fc.oneof(combined(ofInProcess), combined(leaf));
