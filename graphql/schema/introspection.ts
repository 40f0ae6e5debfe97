import type { Pool } from "pg";
import { PgIntrospectionPlugin } from "postgraphile/graphile-build-pg";
import { makeIntrospectionQuery } from "postgraphile/graphile-build-pg/pg-introspection";
import { endOfSlice, mapYielding } from "../../db/catalog/event-loop.ts";
import { isNeverNull, isUpdatable } from "../../db/catalog/relations.ts";
import { comparesForEquality } from "../../db/catalog/relationships.ts";
import type { Finding } from "../../db/findings/finding.ts";
import { withDependents } from "./dropped.ts";
import { type CatalogTexts, parseCatalogs, parseIntrospection } from "./introspected.ts";
import type { Labels, ObjectId, PgObject } from "./pg-objects.ts";

/**
 * What GraphQL uses of PostGraphile's query, which would also read each index, sequence, constraint of not null and dependency: twice
 * as much for a table with five indexes. Unique indexes are kept, which an error can name.
 */
const REPLACED: readonly (readonly [string, string])[] = [
  ["pg_catalog.pg_relation_is_updatable(oid, true)", `(${isUpdatable("pg_class.oid")})`],
  [
    "select *\n    from pg_catalog.pg_attribute",
    `select attrelid, attnum, attname, atttypid, atttypmod, attndims, attcollation, ${isNeverNull("pg_attribute")} as attnotnull,
      atthasdef, attidentity, attgenerated, attisdropped, attacl
    from pg_catalog.pg_attribute`,
  ],
  [
    "from pg_catalog.pg_class\n    where ",
    `from pg_catalog.pg_class
    where (relkind in ('r', 'v', 'm', 'f', 'p', 'c') or oid in (select indexrelid from pg_catalog.pg_index where indisunique)) and `,
  ],
  [
    "(select classes._id from classes) AND attnum > 0",
    "(select classes._id from classes where relkind not in ('i', 'I')) and attnum > 0",
  ],
  [
    "from pg_catalog.pg_constraint\n    where ",
    `from pg_catalog.pg_constraint
    where contype not in ('n', 't') and ${comparesForEquality("pg_constraint")} and `,
  ],
  ["from pg_catalog.pg_proc\n    where ", "from pg_catalog.pg_proc\n    where prokind = 'f' and "],
  ["where deptype IN ('a', 'e') and (", "where deptype = 'e' and ("],
];

/** What PostGraphile reads from the database. It is read once for all builds of a schema without some of the objects. */
export class Introspection {
  readonly #texts: CatalogTexts;

  private constructor(texts: CatalogTexts) {
    this.#texts = texts;
  }

  static async read(pool: Pick<Pool, "query">): Promise<Introspection> {
    let query = makeIntrospectionQuery();
    for (const [part, replacement] of REPLACED) {
      if (!query.includes(part)) throw new Error(`the introspection query of PostGraphile has no ${part}`);
      query = query.replace(part, () => replacement);
    }
    const { rows } = await pool.query<{ catalog: string; part: string }>(inParts(query));
    await endOfSlice();
    const texts = new Map<string, string>();
    for (const { catalog, part } of rows) texts.set(catalog, (texts.get(catalog) ?? "") + part);
    return new Introspection(texts);
  }

  /** Replaces PgIntrospectionPlugin. The database is as if these objects and smart tags, and what depends on them, had been dropped. */
  plugin(leftOut: ReadonlySet<ObjectId>): GraphileConfig.Plugin {
    return pluginOf(this.#texts, leftOut);
  }

  /** Returns for each of these objects a function that says whether another one is lost if this one is left out. */
  async lossesOf(leftOut: readonly ObjectId[]): Promise<readonly Loss["isLost"][]> {
    if (leftOut.length === 0) return [];
    const all = await parseCatalogs(this.#texts);
    return mapYielding(leftOut, (id) => {
      const gone = withDependents(all, new Set([id]));
      return (object) => gone.has(object);
    });
  }
}

/** For one gathering. The schema keeps the plugin, which keeps neither the texts nor what they are parsed to. */
function pluginOf(texts: CatalogTexts | null, leftOut: ReadonlySet<ObjectId>): GraphileConfig.Plugin {
  const { gather } = PgIntrospectionPlugin;
  const take = () => {
    const taken = texts!;
    texts = null;
    return taken;
  };
  const getIntrospection = (info: any) => (info.state.getIntrospectionPromise ??= announce(info, take(), leftOut));
  // PostGraphile searches all tables for each.
  const getClassByName = async (info: any, _service: string, schema: string, name: string) => {
    await endOfSlice();
    const [{ introspection }] = await getIntrospection(info);
    info.state.byName ??= new Map(
      introspection.classes.map((each: any) => [nameOf(each.getNamespace().nspname, each.relname), each]),
    );
    return info.state.byName.get(nameOf(schema, name));
  };
  return {
    ...PgIntrospectionPlugin,
    name: "IntrospectionPlugin",
    provides: ["PgIntrospectionPlugin"],
    gather: { ...gather, helpers: { ...gather!.helpers, getIntrospection, getClassByName } } as never,
  };
}

/** Characters of each row. One row of 8 MB would block the event loop for 80 ms; more rows cost PostgreSQL more, as each counts from the first character. */
const PART = 2_000_000;

/** The rows of each catalog as JSON, in parts. */
const inParts = (query: string): string => `
  with whole as materialized (${query.trim().replace(/;$/, "")}),
  catalogs as materialized (select key as catalog, value::text as text from whole, json_each(introspection::json))
  select catalog, substr(text, 1 + n * ${PART}, ${PART}) as part
  from catalogs, generate_series(0, length(text) / ${PART}) as n order by catalog, n`;

const nameOf = (schema: string, name: string) => JSON.stringify([schema, name]);

/** The catalogs whose rows PostGraphile announces to plugins, in this order. */
const ANNOUNCED = {
  namespaces: "namespace",
  classes: "class",
  attributes: "attribute",
  constraints: "constraint",
  procs: "proc",
  roles: "role",
  auth_members: "auth_member",
  types: "type",
  enums: "enum",
  extensions: "extension",
  indexes: "index",
  languages: "language",
  ranges: "range",
  depends: "depend",
  descriptions: "description",
} as const;

async function announce(info: any, texts: CatalogTexts, leftOut: ReadonlySet<ObjectId>): Promise<readonly object[]> {
  const [pgService] = info.resolvedPreset.pgServices;
  const introspection: any = await parseIntrospection(texts, leftOut);
  // While a row is announced, plugins ask for the others.
  info.state.getIntrospectionPromise = [{ pgService, introspection }];
  const serviceName = pgService.name;
  await info.process("pgIntrospection_introspection", { introspection, serviceName });
  const plugins: GraphileConfig.Plugin[] = info.resolvedPreset.plugins;
  for (const [catalog, name] of Object.entries(ANNOUNCED)) {
    const event = `pgIntrospection_${name}`;
    if (!plugins.some(({ gather }) => gather?.hooks && event in gather.hooks)) continue;
    await Promise.all(introspection[catalog].map((entity: object) => info.process(event, { entity, serviceName })));
  }
  return info.state.getIntrospectionPromise;
}

type Loss = { readonly finding: Finding; isLost(id: ObjectId): boolean };

/** The schema keeps the function: what is not passed to it can be freed. */
export const whyLostOf =
  (labels: Labels | null, losses: readonly Loss[]): ((object: PgObject) => Finding | undefined) =>
  (object) => {
    const id = labels?.idOf(object);
    return id === undefined ? undefined : losses.find(({ isLost }) => isLost(id))?.finding;
  };
