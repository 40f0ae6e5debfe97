import { expect, test } from "vitest";
import { relationshipsOf, useCatalog } from "../../support/catalog.ts";

const large = useCatalog(
  `
  create schema large;
  do $$ begin
    for i in 1..1000 loop
      execute format(
        'create table large.table_%s (
           id bigint generated always as identity primary key, parent_id bigint references large.table_%s,
           a varchar(20) not null default '''', b numeric(10,2), c text[], d jsonb, e timestamptz, f date, g int, h text
         )', i, greatest(1, i - 1));
    end loop;
  end $$;`,
  { schemas: ["large"] },
);

test("a thousand tables are read, each with its columns, keys and relationships", () => {
  const { tables } = large().catalog.schemas.get("large")!;
  expect(tables.size).toBe(1000);
  for (const { columns, primaryKey } of tables.values()) expect([columns.size, primaryKey]).toEqual([10, ["id"]]);
  expect(relationshipsOf(tables.get("table_500")!)).toEqual([
    "table_500.parent_id = table_499.id many-to-one table_500_parent_id_fkey",
    "table_500.id = table_501.parent_id one-to-many table_501_parent_id_fkey",
  ]);
});
