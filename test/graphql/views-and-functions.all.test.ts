import pg from "pg";
import { beforeAll, expect, test } from "vitest";
import { buildCatalog } from "../../db/catalog/build.ts";
import { parseCatalog, readCatalog } from "../../db/catalog/read.ts";
import { buildSchema } from "../../graphql/schema/schema.ts";
import { useService } from "../support/http-client.ts";
import { POLL } from "../support/until.ts";

const { data, errors, gql, service, sql } = useService({ GRAPHQL_UNINDEXED_FILTERS: "on" });

beforeAll(async () => {
  await sql(`
    create table public.genres (id bigint primary key, label text not null);
    create table public.films (id bigint primary key, title text not null, owner_id bigint);
    create table public.film_genres (
      film_id bigint references public.films, genre_id bigint references public.genres, primary key (film_id, genre_id)
    );
    create index on public.film_genres (genre_id);
    create table public.film_rivals (
      film_id bigint references public.films, rival_id bigint references public.films, primary key (film_id, rival_id)
    );
    create index on public.film_rivals (rival_id);
    insert into public.films values (1, 'Alien', 0), (2, 'Brazil', 0), (3, 'Casablanca', 1);
    insert into public.genres values (1, 'horror'), (2, 'future'), (3, 'drama');
    insert into public.film_genres values (1, 1), (1, 2), (2, 2), (3, 3);
    insert into public.film_rivals values (1, 2), (1, 3);
    alter table public.films enable row level security;
    create policy "own" on public.films using (owner_id = 0 or owner_id = (select auth.uid()));
    create policy "insert" on public.films for insert with check (true);
    create view public.film_titles with (security_invoker = true) as select id, upper(title) as name from public.films;
    create view public.film_labels with (security_invoker = true) as
      select fg.film_id, fg.genre_id, g.label from public.film_genres as fg join public.genres as g on g.id = fg.genre_id;
    create view public.film_tags with (security_invoker = true) as
      select fg.film_id, fg.genre_id, g.label as genre from public.film_genres as fg join public.genres as g on g.id = fg.genre_id;
    grant select on
      public.films, public.genres, public.film_genres, public.film_rivals, public.film_titles, public.film_labels, public.film_tags
      to anon, authenticated;
    grant insert on public.films to authenticated;
    create function public.films_initial(film public.films) returns text language sql stable return left(film.title, 1);
    create function public.films_others(film public.films, from_letter text default 'A') returns setof public.films language sql stable
      begin atomic select * from public.films where id <> (film).id and title >= from_letter order by id desc; end;
    create function public.add_film(id bigint, title text) returns public.films language sql volatile
      begin atomic insert into public.films values (add_film.id, add_film.title, 0) returning *; end;
    create function public.film_count() returns integer language sql stable begin atomic select count(*)::int from public.films; end;
    grant execute on function public.films_initial, public.films_others, public.film_count, public.add_film to anon, authenticated;
  `);
});

test("a table whose primary key is two foreign keys is a many-to-many relationship of both tables, in one round trip", async () => {
  const query = `{ films(orderBy: ID_ASC) { edges { node { title
    genres(orderBy: LABEL_DESC, limit: 1) { label films(orderBy: TITLE_ASC) { title } }
    genresConnection(filter: { label: { notEqualTo: "horror" } }) { totalCount aggregates { count } edges { node { label } } }
    filmsByRivalId { title } } } } }`;
  // The first requests may wait for the schema of the new tables, and for the catalog.
  let films: any;
  const waits = async () => {
    const before = service().service.databaseWaits();
    films = (await data(query)).films;
    return service().service.databaseWaits() - before;
  };
  await expect.poll(waits).toBe(1);
  // Casablanca is hidden, also as a rival.
  expect(films.edges.map(({ node }: any) => node)).toEqual([
    {
      title: "Alien",
      genres: [{ label: "horror", films: [{ title: "Alien" }] }],
      genresConnection: { totalCount: 1, aggregates: { count: 1 }, edges: [{ node: { label: "future" } }] },
      filmsByRivalId: [{ title: "Brazil" }],
    },
    {
      title: "Brazil",
      genres: [{ label: "future", films: [{ title: "Alien" }, { title: "Brazil" }] }],
      genresConnection: { totalCount: 1, aggregates: { count: 1 }, edges: [{ node: { label: "future" } }] },
      filmsByRivalId: [],
    },
  ]);
});

test("a foreign key of two columns is named after its table and columns, or as its comment says, and so is the other side", async () => {
  await sql(`
    create table public.staff (clinic_id int, user_id int, name text, primary key (clinic_id, user_id));
    create table public.appointments (
      id int primary key, clinic_id int, dentist_id int, assistant_id int,
      foreign key (clinic_id, dentist_id) references public.staff,
      constraint assistant foreign key (clinic_id, assistant_id) references public.staff
    );
    create index on public.appointments (clinic_id, dentist_id);
    create index on public.appointments (clinic_id, assistant_id);
    comment on constraint assistant on public.appointments is E'@fieldName assistant\\n@foreignFieldName assisted';
    grant select on public.staff, public.appointments to anon, authenticated;
    insert into public.staff values (1, 1, 'Dora'), (1, 2, 'Dan');
    insert into public.appointments values (7, 1, 1, 2)`);
  const query = `{ appointment(id: 7) {
    staffByClinicIdAndDentistId { name appointmentsByClinicIdAndDentistId { id } }
    assistant { name assisted { id } } } }`;
  await expect
    .poll(async () => (await gql(query)).data, POLL)
    .toEqual({
      appointment: {
        staffByClinicIdAndDentistId: { name: "Dora", appointmentsByClinicIdAndDentistId: [{ id: "7" }] },
        assistant: { name: "Dan", assisted: [{ id: "7" }] },
      },
    });
});

test("a column of a view keeps its name, beside the row that its key refers to", async () => {
  const { filmTags } = await data(
    "{ filmTags(first: 1) { edges { node { genre genreByGenreId { label } film { title } } } } }",
  );
  const node = { genre: "horror", genreByGenreId: { label: "horror" }, film: { title: "Alien" } };
  expect(filmTags.edges).toEqual([{ node }]);
});

test("a view has the key and the relationships of its tables", async () => {
  const { filmTitle, filmLabels } = await data(`{
    filmTitle(id: 1) { name }
    filmLabels(filter: { label: { startsWith: "h" } }, orderBy: FILM_ID_ASC) { edges { node { label film { title genres { label } } genre { label } } } }
  }`);
  expect(filmTitle).toEqual({ name: "ALIEN" });
  expect(filmLabels.edges).toEqual([
    {
      node: {
        label: "horror",
        film: { title: "Alien", genres: [{ label: "horror" }, { label: "future" }] },
        genre: { label: "horror" },
      },
    },
  ]);
});

test("a view refers to the view of a table that is not served", async () => {
  await sql(`
    create schema vault;
    create table vault.poets (id bigint primary key, name text not null);
    create table vault.poems (id bigint primary key, poet_id bigint not null references vault.poets, title text not null);
    insert into vault.poets values (1, 'Sappho'), (2, 'hidden');
    insert into vault.poems values (1, 1, 'Ode'), (2, 2, 'Elegy');
    create view public.poets as select id, name from vault.poets where name <> 'hidden';
    create view public.poems as select id, poet_id, title from vault.poems;
    create view public.bards as select id, name from vault.poets;
    grant select on public.poets, public.poems, public.bards to anon;
    notify pgrst, 'reload schema'`);
  const query = "{ poems { edges { node { title poet { name } } } } poets { edges { node { poems { title } } } } }";
  const poems = [{ node: { title: "Ode", poet: { name: "Sappho" } } }, { node: { title: "Elegy", poet: null } }];
  const expected = { poems: { edges: poems }, poets: { edges: [{ node: { poems: [{ title: "Ode" }] } }] } };
  await expect.poll(async () => (await gql(query)).data, POLL).toEqual(expected);
});

test("a view that Postgres can write has mutations of one and of many rows", async () => {
  await sql(`
    create view public.own_films with (security_invoker = true) as select id, title, owner_id from public.films where owner_id = 1;
    create policy "change" on public.films for update using (owner_id = (select auth.uid()));
    create policy "remove" on public.films for delete using (owner_id = (select auth.uid()));
    grant update, delete on public.films to authenticated;
    grant select, insert, update (title), delete on public.own_films to authenticated`);
  const run = async (mutation: string) => (await gql(`mutation { ${mutation} }`, { as: "ada" })) as any;
  await expect
    .poll(async () => (await run('createOwnFilm(input: { id: "50", title: "M", ownerId: "1" }) { id title }')).data)
    .toEqual({ createOwnFilm: { id: "50", title: "M" } });
  expect((await run('updateOwnFilm(id: 50, input: { title: "N" }) { title }')).data).toEqual({
    updateOwnFilm: { title: "N" },
  });
  const input = '[{ id: "51", title: "O", ownerId: "1" }, { id: "52", title: "P", ownerId: "1" }]';
  expect((await run(`createOwnFilms(input: ${input}) { count }`)).data).toEqual({ createOwnFilms: { count: 2 } });
  const filter = 'filter: { id: { greaterThanOrEqualTo: "51" } }, limit: 5';
  expect((await run(`updateOwnFilms(${filter}, input: { title: "Q" }) { ownFilms { title } }`)).data).toEqual({
    updateOwnFilms: { ownFilms: [{ title: "Q" }, { title: "Q" }] },
  });
  expect((await run(`deleteOwnFilms(${filter}) { count } deleteOwnFilm(id: 50)`)).data).toEqual({
    deleteOwnFilms: { count: 2 },
    deleteOwnFilm: true,
  });
});

test("a row is created through a view without the values that its table, trigger or rule gives", async () => {
  await sql(`
    create table public.tickets (id bigint generated always as identity primary key, title text not null, at time not null default '10:00');
    create view public.ticket_titles with (security_invoker = true) as select id, title from public.tickets;
    create view public.ticket_times with (security_invoker = true) as select id, title, at::text as at from public.tickets;
    create function public.write_ticket() returns trigger language plpgsql as $$ begin
      insert into public.tickets (title, at) values (new.title, new.at::time) returning id into new.id;
      return new; end $$;
    create trigger write instead of insert on public.ticket_times for each row execute function public.write_ticket();
    create view public.ticket_rules with (security_invoker = true) as select id, title from public.tickets;
    create rule write as on insert to public.ticket_rules do instead
      insert into public.tickets (title) values (new.title) returning id, title;
    grant select, insert on public.tickets, public.ticket_titles, public.ticket_times, public.ticket_rules to authenticated`);
  const run = async (mutation: string) => (await gql(`mutation { ${mutation} }`, { as: "ada" })) as any;
  await expect
    .poll(async () => (await run('createTicketTitle(input: { title: "A" }) { id title }')).data, POLL)
    .toEqual({ createTicketTitle: { id: "1", title: "A" } });
  const created = await run(
    'a: createTicketTime(input: { title: "B", at: "11:00" }) { id at } b: createTicketRule(input: { title: "C" }) { id title }',
  );
  expect(created.data).toEqual({ a: { id: "2", at: "11:00" }, b: { id: "3", title: "C" } });
});

test("a view that is created while the schema is built has the key of its table", async () => {
  const pool = new pg.Pool({ connectionString: service().database.url });
  const read = async () =>
    buildCatalog(await parseCatalog(await readCatalog(pool, { schemas: ["public"], extraSearchPath: [] })), 1);
  let catalog = await read();
  await sql(`create view public.late_films with (security_invoker = true) as select id, title from public.films;
    grant select on public.late_films to anon`);
  const { schema } = await buildSchema({
    ...{ catalog: pool, schemas: ["public"], maxPageSize: 100, plugins: [] },
    ...{ nodeIds: false, unindexedFilters: "all", anonymousRole: "anon" },
    relations: () => catalog,
    readRelations: async () => {
      catalog = await read();
    },
  });
  await pool.end();
  expect(Object.keys(schema.getQueryType()!.getFields())).toContain("lateFilm");
});

test("computed columns and set-returning functions of a row are its fields, with filter, order and pages", async () => {
  const { film } = await data(
    `{ film(id: 1) { initial
    others(fromLetter: "B", orderBy: TITLE_ASC, first: 1) { totalCount edges { node { title initial } } pageInfo { hasNextPage } }
    all: others(filter: { title: { startsWith: "C" } }) { totalCount } } }`,
    { as: "ada" },
  );
  expect(film).toEqual({
    initial: "A",
    others: { totalCount: 2, edges: [{ node: { title: "Brazil", initial: "B" } }], pageInfo: { hasNextPage: true } },
    all: { totalCount: 1 },
  });
});

test("volatile functions are mutations, stable ones queries", async () => {
  expect(await data("{ filmCount }")).toEqual({ filmCount: 2 });
  const { addFilm } = await data('mutation { addFilm(id: 9, title: "Dune") { title initial } }', { as: "ada" });
  expect(addFilm).toEqual({ title: "Dune", initial: "D" });
  expect(await errors("mutation { filmCount }")).toEqual([expect.stringMatching(/^VALIDATION_ERROR/)]);
});

test("a function takes the place of the generated field of its name", async () => {
  await sql(`
    create table public.moons (id bigint primary key);
    create function public.moon(id bigint) returns text language sql stable return 'a moon';
    create function public.create_moon() returns text language sql volatile return 'created';
    grant select, insert, delete on public.moons to anon;
    grant execute on function public.moon, public.create_moon to anon;
    notify pgrst, 'reload schema'`);
  const query = "{ moon(id: 1) moons { totalCount } }";
  await expect.poll(async () => (await gql(query)).data, POLL).toEqual({ moon: "a moon", moons: { totalCount: 0 } });
  expect(await data("mutation { createMoon deleteMoon(id: 1) }")).toEqual({ createMoon: "created", deleteMoon: false });
});

test("a volatile function that returns a set is a mutation that returns a list", async () => {
  await sql(`
    create function public.add_films(first bigint, titles text[]) returns setof public.films language sql volatile
      begin atomic insert into public.films select first + n - 1, title, 0 from unnest(titles) with ordinality as t (title, n) returning *; end;
    create function public.spell(word text) returns setof text language sql volatile return regexp_split_to_table(word, '');
    create function public.count_letters(word text) returns table (letter text, times bigint) language sql volatile
      begin atomic select l, count(*) from regexp_split_to_table(word, '') as l group by l order by l; end;
    create function public.reserve(ids bigint[]) returns setof bigint language sql volatile begin atomic select unnest(ids); end;
    comment on function public.reserve is '@notNull';
    grant execute on function public.add_films, public.spell, public.count_letters, public.reserve to authenticated;
    notify pgrst, 'reload schema';
  `);
  const query = `mutation {
    addFilms(first: 20, titles: ["Dune", "Eraserhead"]) { id title initial }
    none: addFilms(first: 30, titles: []) { id }
    spell(word: "ab")
    countLetters(word: "noon") { letter times }
    reserve(ids: [5, 6])
  }`;
  await expect
    .poll(() => gql(query, { as: "ada" }).then(({ data, errors }) => errors ?? data))
    .toEqual({
      addFilms: [
        { id: "20", title: "Dune", initial: "D" },
        { id: "21", title: "Eraserhead", initial: "E" },
      ],
      none: [],
      spell: ["a", "b"],
      countLetters: [
        { letter: "n", times: "2" },
        { letter: "o", times: "2" },
      ],
      reserve: ["5", "6"],
    });
  const { __type } = await data('{ __type(name: "Mutation") { fields { name type { kind ofType { kind } } } } }');
  const kinds = Object.fromEntries(__type.fields.map(({ name, type }: any) => [name, [type.kind, type.ofType?.kind]]));
  expect([kinds.addFilms, kinds.reserve]).toEqual([
    ["LIST", "OBJECT"],
    ["NON_NULL", "LIST"],
  ]);
});

test("functions of one name are fields of their tables, and those of a table are fields of its heirs", async () => {
  await sql(`
    create table public.crates (id int primary key, w int);
    create table public.barrels (id int primary key, w int);
    insert into public.crates values (1, 10);
    insert into public.barrels values (1, 20);
    create function public.label(c public.crates) returns text language sql stable as $$ select 'crate ' || c.w $$;
    create function public.label(b public.barrels) returns text language sql stable as $$ select 'barrel ' || b.w $$;
    create function public.label(text) returns text language sql stable as $$ select 'text ' || $1 $$;
    create table public.animals (id int primary key, name text, born date);
    create table public.cats (lives int, primary key (id)) inherits (public.animals);
    create table public.lions (primary key (id)) inherits (public.cats);
    insert into public.cats values (1, 'tom', '2000-01-01', 9);
    insert into public.lions values (2, 'leo', '1990-01-01', 1);
    create function public.animals_nick(a public.animals) returns text language sql stable as $$ select 'little ' || a.name $$;
    create function public.age(a public.animals, at date default '2024-07-01') returns int language sql immutable as
      $$ select extract(year from age(at, a.born))::int $$;
    create function public.roar(a public.animals) returns text language sql stable as $$ select 'mew' $$;
    create function public.roar(a public.lions) returns text language sql stable as $$ select 'roar' $$;
    grant select on all tables in schema public to anon;
    grant execute on all functions in schema public to anon`);
  const query = `{
    label(arg0: "x")
    crates { edges { node { label } } } barrels { edges { node { label } } }
    cats { edges { node { nick age later: age(at: "2030-07-01") roar } } } lions { edges { node { nick age roar } } } }`;
  await expect
    .poll(async () => (await gql(query)).data, POLL)
    .toEqual({
      label: "text x",
      crates: { edges: [{ node: { label: "crate 10" } }] },
      barrels: { edges: [{ node: { label: "barrel 20" } }] },
      cats: {
        edges: [
          { node: { nick: "little tom", age: 24, later: 30, roar: "mew" } },
          { node: { nick: "little leo", age: 34, later: 40, roar: "mew" } },
        ],
      },
      lions: { edges: [{ node: { nick: "little leo", age: 34, roar: "roar" } }] },
    });
});

test("the labels true, false and null of an enum are values", async () => {
  await sql(`
    create type public.answer as enum ('true', 'false', 'null', 'maybe');
    create table public.replies (id int primary key, a public.answer, others public.answer[]);
    insert into public.replies values (1, 'true', '{"null",maybe}');
    grant select on public.replies to anon`);
  const query = "{ replies(filter: { a: { equalTo: _true } }) { edges { node { id a others } } } }";
  await expect
    .poll(async () => (await gql(query)).data, POLL)
    .toEqual({ replies: { edges: [{ node: { id: "1", a: "_true", others: ["_null", "maybe"] } }] } });
});

test("an enum table that the login may not read is named, with the grant, and nothing else is blamed", async () => {
  await sql(`
    create table public.grades (code text primary key, description text);
    comment on table public.grades is '@enum';
    insert into public.grades values ('A', 'best'), ('not-set', null);
    create table public.exams (id int primary key, written text references public.grades);
    create index on public.exams (written);
    insert into public.exams values (1, 'not-set');
    comment on function public.film_count() is E'@accept reason\\nHow many films there are.';
    grant select on public.exams to anon`);
  await gql("{ __typename }");
  const omissions = async () =>
    ((await service().health()).details.graphql.omissions ?? []).filter((each: string) => each.includes("@"));
  await expect
    .poll(omissions, POLL)
    .toEqual([
      expect.stringMatching(
        /^table public\.grades: GraphQL ignores @enum: the login of the service may not read the rows.*GRANT SELECT ON "public"."grades" TO "\w+";$/s,
      ),
    ]);
  await sql((await omissions())[0].split("to fix it: ")[1]);
  await expect
    .poll(
      async () =>
        (await gql("{ exams(filter: { written: { equalTo: not_set } }) { edges { node { written } } } }")).data,
      POLL,
    )
    .toEqual({ exams: { edges: [{ node: { written: "not_set" } }] } });
});
