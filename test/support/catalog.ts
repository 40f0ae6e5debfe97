import pg from "pg";
import { beforeAll } from "vitest";
import { buildCatalog } from "../../db/catalog/build.ts";
import type { Catalog, Relationship, Table } from "../../db/catalog/catalog.ts";
import { type CatalogScope, parseCatalog, readCatalog } from "../../db/catalog/read.ts";
import { createTestDatabase, type TestDatabase } from "./database.ts";

export type CatalogOfTest = {
  readonly database: TestDatabase;
  readonly catalog: Catalog;
  /** `table("shop.orders")` */
  table(name: string): Table;
  /** Reads the current catalog. */
  read(): Promise<Catalog>;
};

/**
 * A database for the test file with these tables, and its catalog, read by a login that is not a superuser:
 *
 *   const shop = useCatalog("create schema shop; create table shop.orders (id int)", { schemas: ["shop"] });
 *   test("…", () => expect(shop().table("shop.orders").columns.size).toBe(1));
 */
export function useCatalog(
  ddl: string | ((database: TestDatabase) => string),
  scope: Partial<CatalogScope>,
): () => CatalogOfTest {
  let made: CatalogOfTest;
  beforeAll(async () => {
    const database = await createTestDatabase();
    const reader = await createReader(database, { schemas: [], extraSearchPath: [], ...scope });
    await database.owner.query(typeof ddl === "string" ? ddl : ddl(database));
    const catalog = await reader.read();
    const table = (name: string) => tableAt(catalog, name);
    made = { database, catalog, table, read: reader.read };
    return async () => {
      await reader.end();
      await database.drop();
    };
  });
  return () => made;
}

/** Reads a database with a new login that has no privileges. */
export async function createReader(database: Pick<TestDatabase, "name" | "url" | "owner">, scope: CatalogScope) {
  const login = database.owner.escapeIdentifier(`${database.name}_catalog`);
  await database.owner.query(`create role ${login} login password 'reader'`);
  const url = new URL(database.url);
  url.username = encodeURIComponent(`${database.name}_catalog`);
  url.password = "reader";
  const pool = new pg.Pool({ connectionString: url.href });
  // At the end both sides close the connection, in either order.
  pool.on("error", () => {});
  pool.on("connect", (client) => client.on("error", () => {}));
  return {
    pool,
    read: async () => buildCatalog(await parseCatalog(await readCatalog(pool, scope)), 1),
    async end() {
      await pool.end();
      await database.owner.query(`drop role ${login}`);
    },
  };
}

function tableAt(catalog: Catalog, name: string): Table {
  const dot = name.indexOf(".");
  const table = catalog.schemas.get(name.slice(0, dot))?.tables.get(name.slice(dot + 1));
  if (!table) throw new Error(`no table ${name}`);
  return table;
}

/** `"orders.user_id = users.id many-to-one orders_user_id_fkey"`, as seen from orders. */
export function describeRelationship(table: Table, relationship: Relationship): string {
  const { kind, target } = relationship;
  const equal = (from: string, to: string, pairs: readonly (readonly [string, string])[]) =>
    pairs.map(([a, b]) => `${from}.${a} = ${to}.${b}`).join(" and ");
  if (kind === "computed") {
    return `${target.name} ${relationship.isToOne ? "to-one" : "to-many"} by ${relationship.function.name}`;
  }
  if (kind === "many-to-many") {
    const { junction, source, further } = relationship;
    const first = equal(table.name, junction.name, source.columns);
    return `${first} and ${equal(junction.name, target.name, further.columns)} many-to-many`;
  }
  const side = kind === "one-to-one" ? ` ${relationship.isOwner ? "from" : "to"} its owner` : "";
  return `${equal(table.name, target.name, relationship.columns)} ${kind}${side} ${relationship.constraint}`;
}

export const relationshipsOf = (table: Table): string[] =>
  table.relationships.map((relationship) => describeRelationship(table, relationship));
