import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { outcomeOf } from "../../../cli/command.ts";
import { documents } from "../../../cli/documents.ts";
import { useService } from "../../support/http-client.ts";
import { JWT_SECRET } from "../../support/service.ts";

const TABLES = `
  create table public.films (id bigint primary key, title text not null unique);
  create table public.genres (id bigint primary key, label text not null);
  create table public.film_genres (
    film_id bigint references public.films, genre_id bigint references public.genres, primary key (film_id, genre_id)
  );
  create index on public.film_genres (genre_id);
  create table public.imports (line text);
  create index on public.imports (line);
  insert into public.films values (1, 'Alien');
  insert into public.genres values (1, 'Horror');
  insert into public.film_genres values (1, 1);
  grant select on public.films, public.genres, public.film_genres, public.imports to anon;
  grant insert, update, delete on public.films, public.imports to anon`;

const without = useService({ PARTS: "-graphql-extras" });
beforeAll(() => without.sql(TABLES));

test("without the part, GraphQL has none of its fields", async () => {
  const read = "{ films { totalCount edges { node { title filmGenres { genre { label } } } } } }";
  const edges = [{ node: { title: "Alien", filmGenres: [{ genre: { label: "Horror" } }] } }];
  expect(await without.data(read)).toEqual({ films: { totalCount: 1, edges } });
  const { films, film, mutation, subscription } = await without.data(`{
    films: __type(name: "FilmConnection") { fields { name } }
    film: __type(name: "Film") { fields { name } }
    mutation: __type(name: "Mutation") { fields { name } }
    subscription: __type(name: "Subscription") { fields { name args { name } } }
  }`);
  const namesOf = ({ fields }: any) => fields.map(({ name }: any) => name).sort();
  expect(namesOf(films)).toEqual(["edges", "pageInfo", "totalCount"]);
  expect(namesOf(film)).toEqual(["filmGenres", "filmGenresConnection", "id", "title"]);
  expect(namesOf(mutation).filter((name: string) => /Film|Import/.test(name))).toEqual([
    ...["createFilm", "createImport", "deleteFilm", "updateFilm"],
  ]);
  expect(subscription.fields.filter(({ name }: any) => /^onGenre/.test(name))).toEqual([
    { name: "onGenreCreated", args: [] },
    { name: "onGenreUpdated", args: [{ name: "id" }] },
    { name: "onGenreDeleted", args: [{ name: "id" }] },
  ]);
});

test("without the part, no error names its mutations", async () => {
  expect(await without.errors('mutation { updateImport(input: { line: "a" }) { line } }')).toEqual([
    expect.stringMatching(/`imports` has no primary key\. Create one\.$/),
  ]);
  expect(await without.errors("mutation { deleteGenres { count } }")).toEqual([
    expect.stringMatching(/Cannot query field "deleteGenres" on type "Mutation"\.$/),
  ]);
});

test("npx content-service documents check knows whether the part is open", async () => {
  const manifest = join(mkdtempSync(join(tmpdir(), "content-service-")), "documents.json");
  writeFileSync(manifest, JSON.stringify({ "films-1": "{ films { aggregates { count } } }" }));
  const check = (PARTS: string) =>
    outcomeOf(
      documents(["check", manifest], {
        DATABASE_URL: without.service().database.url,
        GRAPHQL_EXTRAS: "aggregates",
        JWT_SECRET,
        PARTS,
      }),
    );
  expect(await check("")).toEqual({ exitCode: 0, stdout: "1 document is valid\n", stderr: "" });
  expect(await check("-graphql-extras")).toMatchObject({
    exitCode: 1,
    stderr: 'films-1: Cannot query field "aggregates" on type "FilmConnection". (line 1)\n',
  });
});
