import { afterAll, expect, test } from "vitest";
import type { TablePrivilege } from "../../../db/catalog/catalog.ts";
import { mayExecute, mayUseColumn, mayUseTable } from "../../../db/catalog/grants.ts";
import { useCatalog } from "../../support/catalog.ts";

const ROLES = ["owner", "clerk", "boss", "heir", "reader", "writer", "stranger"];
const TABLES = ["open", "granted", "by_column", "closed"];
const PRIVILEGES: TablePrivilege[] = ["select", "insert", "update", "delete"];

/** Roles belong to the whole cluster, so the roles of this file begin with the name of its database. */
const roleIn = (database: { readonly name: string }, name: string) => `${database.name}_${name}`;

const made = useCatalog(
  (database) =>
    `
    create role $owner; create role $clerk; create role $boss in role $clerk; create role $heir noinherit in role $clerk;
    create role $reader in role pg_read_all_data; create role $writer in role pg_write_all_data; create role $stranger;
    alter role $clerk set statement_timeout = '3s';
    alter role $clerk set work_mem = '8MB';
    alter role $clerk in database $database set statement_timeout = '5s';
    alter database $database set lock_timeout = '7s';

    create schema shop;
    create table shop.closed (a int, b int);
    create table shop.granted (a int, b int);
    create table shop.open (a int, b int);
    create table shop.by_column (a int, b int);
    alter table shop.closed owner to $owner;
    grant select, delete on shop.granted to $clerk;
    grant truncate on shop.granted to $stranger;
    grant select on shop.open to public;
    grant select (a), update (b), references (a) on shop.by_column to $clerk;

    create function shop.for_all() returns int language sql as 'select 1';
    create function shop.for_clerks() returns int language sql as 'select 1';
    create function shop.for_nobody() returns int language sql as 'select 1';
    revoke execute on all functions in schema shop from public;
    grant execute on function shop.for_all() to public;
    grant execute on function shop.for_clerks() to $clerk;
    alter function shop.for_nobody() owner to $owner;
    create function shop.untouched() returns int language sql as 'select 1';`
      .replaceAll("$database", database.name)
      .replaceAll(/\$(\w+)/g, (_, name) => roleIn(database, name)),
  { schemas: ["shop"] },
);

afterAll(() => made().database.owner.query(`drop schema shop cascade; drop role ${ROLES.map(role).join(", ")}`));

const role = (name: string) => roleIn(made().database, name);
const shop = () => made().catalog.schemas.get("shop")!;

test("a role has its own privileges, inherited ones and those of public", () => {
  expect(made().catalog.roles.get(role("boss"))!.inherits).toEqual(new Set([role("boss"), role("clerk"), "public"]));
  expect(made().catalog.roles.get(role("heir"))!.inherits).toEqual(new Set([role("heir"), "public"]));
  expect(made().catalog.roles.get("postgres")).toMatchObject({ isSuperuser: true });
  expect(made().catalog.roles.get("postgres")!.inherits.has("pg_database_owner")).toBe(true);
  expect(made().catalog.roles.get(role("stranger"))).toMatchObject({ isSuperuser: false, settings: [] });
});

test("the settings of a role in this database override its general settings", () => {
  expect(made().catalog.roles.get(role("clerk"))!.settings).toEqual([
    ["statement_timeout", "5s"],
    ["work_mem", "8MB"],
  ]);
});

test("tables and columns have their grants by grantee", () => {
  const { tables } = shop();
  expect(tables.get("granted")!.grants.get(role("clerk"))).toEqual(new Set(["select", "delete"]));
  expect(tables.get("open")!.grants.get("public")).toEqual(new Set(["select"]));
  expect(tables.get("closed")!.grants).toEqual(new Map());
  const { columns } = tables.get("by_column")!;
  expect(columns.get("a")!.grants).toEqual(new Map([[role("clerk"), new Set(["select"])]]));
  expect(columns.get("b")!.grants).toEqual(new Map([[role("clerk"), new Set(["update"])]]));
});

test.each(TABLES)("mayUseTable agrees with Postgres for %s", async (name) => {
  const table = shop().tables.get(name)!;
  for (const asking of [...ROLES.map(role), "postgres"]) {
    for (const privilege of PRIVILEGES) {
      const whole = `has_table_privilege($1, $2, '${privilege}')`;
      const any = privilege === "delete" ? whole : `has_any_column_privilege($1, $2, '${privilege}')`;
      const { rows } = await made().database.owner.query(`select ${any} as may`, [asking, `shop.${name}`]);
      expect([asking, privilege, mayUseTable(made().catalog, asking, table, privilege)]).toEqual([
        asking,
        privilege,
        rows[0].may,
      ]);
    }
  }
});

test("a grant on a column or on its table permits the use of the column", () => {
  const may = (table: string, column: string, asking: string, privilege: TablePrivilege) => {
    const found = shop().tables.get(table)!;
    return mayUseColumn(made().catalog, role(asking), found, found.columns.get(column)!, privilege);
  };
  expect(may("by_column", "a", "clerk", "select")).toBe(true);
  expect(may("by_column", "b", "clerk", "select")).toBe(false);
  expect(may("by_column", "b", "boss", "update")).toBe(true);
  expect(may("by_column", "a", "stranger", "select")).toBe(false);
  expect(may("granted", "b", "clerk", "select")).toBe(true);
  expect(may("closed", "b", "owner", "update")).toBe(true);
  expect(may("closed", "b", "reader", "select")).toBe(true);
  expect(may("closed", "b", "reader", "update")).toBe(false);
});

test("mayExecute agrees with Postgres", async () => {
  for (const name of ["for_all", "for_clerks", "for_nobody", "untouched"]) {
    const [fn] = shop().functions.get(name)!;
    for (const asking of [...ROLES.map(role), "postgres"]) {
      const call = "select has_function_privilege($1, $2, 'execute') as may";
      const { rows } = await made().database.owner.query(call, [asking, `shop.${name}()`]);
      expect([name, asking, mayExecute(made().catalog, asking, fn!)]).toEqual([name, asking, rows[0].may]);
    }
  }
});

test("an unknown role has the privileges of public", () => {
  expect(mayUseTable(made().catalog, "ghost", shop().tables.get("open")!, "select")).toBe(true);
  expect(mayUseTable(made().catalog, "ghost", shop().tables.get("granted")!, "select")).toBe(false);
  expect(mayExecute(made().catalog, "ghost", shop().functions.get("for_all")![0]!)).toBe(true);
});
