import type {} from "postgraphile";
import type { PgAttribute } from "postgraphile/graphile-build-pg/pg-introspection";
import type { Catalog, Table, TableName } from "../../db/catalog/catalog.ts";

type Tags = Record<string, string | true | (string | true)[] | undefined>;

/** Columns that are part of the key of a view and may be null nevertheless. */
const empty = new WeakSet<PgAttribute>();

/**
 * A view has the keys and foreign keys of the tables that it selects from, as in the table interface: `filmTitle(id:)`,
 * `FilmLabel.film`. They become the smart tags `@primaryKey` and `@foreignKey`, unless the view has these tags. A column of the key that
 * an outer join may leave empty stays nullable.
 */
export const viewKeysPlugin = (catalog: () => Catalog): GraphileConfig.Plugin => ({
  name: "ViewKeysPlugin",
  version: "1.0.0",
  after: ["smart-tags"],
  before: ["PgFakeConstraintsPlugin"],
  gather: {
    hooks: {
      pgIntrospection_introspection({ inflection }, { introspection }) {
        const { schemas } = catalog();
        const tableOf = ({ schema, name }: TableName) => schemas.get(schema)?.tables.get(name);
        // The catalog may have been read at another time, and parts of the database may be left out.
        const columns = new Set(
          introspection.attributes.map((each) => {
            const table = each.getClass();
            return JSON.stringify([table?.getNamespace()?.nspname, table?.relname, each.attname]);
          }),
        );
        const has = ({ schema, name }: TableName, names: readonly string[]) =>
          names.every((column) => columns.has(JSON.stringify([schema, name, column])));
        for (const pgClass of introspection.classes) {
          const schema = pgClass.getNamespace()?.nspname;
          const view = schema === undefined ? undefined : tableOf({ schema, name: pgClass.relname });
          if (!view || !["view", "materialized view"].includes(view.kind)) continue;
          const { tags } = pgClass.getTagsAndDescription() as { tags: Tags };
          const isKnown = view.primaryKey.length > 0 && has(view, view.primaryKey);
          if (!tags.primaryKey && isKnown && arePlain(view.primaryKey)) {
            tags.primaryKey = view.primaryKey.join(",");
            // As a part of this key it would be NOT NULL.
            for (const attribute of pgClass.getAttributes())
              if (view.columns.get(attribute.attname)?.isNullable) empty.add(attribute);
          }
          const keys = foreignKeysOf(view, tableOf, has, inflection);
          if (!tags.foreignKey && keys.length > 0) tags.foreignKey = keys;
        }
      },
      pgCodecs_attribute(_info, { pgAttribute, attribute }) {
        if (empty.has(pgAttribute) && !pgAttribute.getTags().notNull) attribute.notNull = false;
      },
    },
  },
});

/**
 * `(author_id) references public.users (id)`. A view takes the place of a table that is not served: one of the same schema, and of several
 * only the one with the name of the column.
 */
function foreignKeysOf(
  view: Table,
  tableOf: (name: TableName) => Table | undefined,
  has: (table: TableName, columns: readonly string[]) => boolean,
  inflection: GraphileBuild.Inflection,
): string[] {
  const references = view.relationships.flatMap((relationship) => {
    if (relationship.kind !== "many-to-one" || !relationship.isOwner) return [];
    const { target, columns } = relationship;
    const isTable = ["table", "partitioned table"].includes(tableOf(target)?.kind ?? "");
    if (!isTable && target.schema !== view.schema) return [];
    if (!arePlain([target.schema, target.name, ...columns.flat()])) return [];
    const from = columns.map(([column]) => column);
    const to = columns.map(([, column]) => column);
    return has(view, from) && has(target, to) ? [{ isTable, target, from, to }] : [];
  });
  const keys = references.flatMap(({ isTable, target, from, to }) => {
    const alike = references.filter((other) => `${other.from}` === `${from}`);
    const isNamed = `${inflection.singularize(target.name)}_id` === from.join();
    if (!isTable && alike.length > 1 && (!isNamed || alike.some((other) => other.isTable))) return [];
    // A column keeps its name: `author` beside `author_id`.
    const isTaken = [...view.columns.keys()].some((column) => `${column}_id` === from.join());
    const name = inflection.camelCase(`${inflection.singularize(target.name)}-by-${from}`);
    const reference = `(${from}) references ${target.schema}.${target.name} (${to})`;
    return [isTaken ? `${reference}|@fieldName ${name}` : reference];
  });
  // A view may show one foreign key twice.
  return [...new Set(keys)];
}

/** Smart tags have no room for other names. */
const arePlain = (names: readonly string[]): boolean => names.every((name) => /^[a-z_][a-z0-9_]*$/.test(name));
