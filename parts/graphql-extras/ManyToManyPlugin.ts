import { type PgResource, pgSelect } from "postgraphile/@dataplan/pg";
import { connection } from "postgraphile/grafast";
import { type SQL, sql } from "postgraphile/pg-sql2";
import type { Catalog, Relationship, TableName } from "../../db/catalog/catalog.ts";

type Resource = PgResource<any, any, any, any, any>;
type ManyToMany = Extract<Relationship, { kind: "many-to-many" }>;

/**
 * `Film.genres` and `Film.genresConnection`: a table whose primary key contains two foreign keys is a many-to-many relationship
 * between the two tables, as in the table interface. If the name is taken, it is `genresByFilmGenres`, or `usersByFriendId` if
 * the junction relates them twice.
 */
export const ManyToManyPlugin: GraphileConfig.Plugin = {
  name: "ManyToManyPlugin",
  version: "1.0.0",
  after: ["PgRelationsPlugin"],
  schema: {
    hooks: {
      GraphQLObjectType_fields(fields, build, { scope, fieldWithHooks, Self }) {
        const codec = scope.pgCodec;
        const catalog = build.options.relations?.();
        if (!catalog || !scope.isPgClassType || !codec?.attributes) return fields;
        const source = build.pgTableResource(codec as any) as Resource | null;
        if (!source) return fields;
        let extended = fields;
        const relationships = manyToManyOf(catalog, nameOf(source));
        for (const relationship of relationships) {
          const target = resourceOf(build, relationship.target);
          const junction = resourceOf(build, relationship.junction);
          if (!target || !junction || !isReadable(target) || !isReadable(junction)) continue;
          const base = fieldName(build, relationship, fields, relationships);
          const added = relationFields(build, target, junction, relationship, base);
          for (const [name, field] of Object.entries(added)) {
            const details = { fieldName: name, pgFieldResource: target, ...field.scope };
            extended = build.extend(
              extended,
              { [name]: fieldWithHooks(details, () => field.config) },
              `Adding ${name} to ${Self.name}`,
            );
          }
        }
        return extended;
      },
    },
  },
};

const nameOf = ({ extensions }: Resource): TableName => ({
  schema: extensions?.pg?.schemaName ?? "",
  name: extensions?.pg?.name ?? "",
});

/**
 * Only the relationships through a table to a table: those that views inherit would repeat them. A view that shows a key twice has
 * each relationship once.
 */
function manyToManyOf({ schemas }: Catalog, { schema, name }: TableName): ManyToMany[] {
  const tableOf = (other: TableName) => schemas.get(other.schema)?.tables.get(other.name);
  const isTable = (other: TableName) => ["table", "partitioned table"].includes(tableOf(other)?.kind ?? "");
  const all = (tableOf({ schema, name })?.relationships ?? []).flatMap((relationship) =>
    relationship.kind === "many-to-many" && isTable(relationship.target) && isTable(relationship.junction)
      ? [relationship]
      : [],
  );
  const keyOf = ({ target, junction, source, further }: ManyToMany) =>
    JSON.stringify([target, junction, source.constraint, further.constraint]);
  return [...Map.groupBy(all, keyOf).values()].map(([first]) => first!);
}

const resourceOf = (build: GraphileBuild.Build, { schema, name }: TableName): Resource | undefined =>
  (Object.values(build.pgResources) as Resource[]).find(
    ({ parameters, extensions }) => !parameters && extensions?.pg?.schemaName === schema && extensions.pg.name === name,
  );

const isReadable = ({ extensions }: Resource): boolean =>
  (extensions as { canSelect?: boolean } | undefined)?.canSelect !== false;

const isSame = (one: TableName, other: TableName) => one.schema === other.schema && one.name === other.name;

function fieldName(
  build: GraphileBuild.Build,
  relationship: ManyToMany,
  fields: object,
  all: readonly ManyToMany[],
): string {
  const { inflection } = build;
  const { target, junction, further } = relationship;
  const name = inflection.camelCase(inflection.pluralize(inflection.tableType(resourceOf(build, target)!.codec)));
  const others = all.filter((other) => other !== relationship && isSame(other.target, target));
  if (!(name in fields) && others.length === 0) return name;
  const isRepeated = others.some((other) => isSame(other.junction, junction));
  const by = isRepeated ? further.columns.map(([column]) => column).join("-and-") : junction.name;
  return inflection.camelCase(`${name}-by-${by}`);
}

function relationFields(
  build: GraphileBuild.Build,
  target: Resource,
  junction: Resource,
  relationship: ManyToMany,
  base: string,
): Record<string, { scope: object; config: any }> {
  const { GraphQLList, GraphQLNonNull } = build.graphql;
  const { inflection } = build;
  const type = build.getTypeByName(inflection.tableType(target.codec)) as any;
  const connectionType = build.getTypeByName(inflection.tableConnectionType(target.codec));
  const description = `Related rows, through ${relationship.junction.name}.`;
  const select = ($row: any) => selectThrough($row, target, junction, relationship);
  return {
    ...(type && {
      [base]: {
        scope: { isPgFieldSimpleCollection: true, isPgManyRelationListField: true },
        config: { description, type: new GraphQLList(new GraphQLNonNull(type)), plan: select },
      },
    }),
    ...(connectionType && {
      [`${base}Connection`]: {
        scope: { isPgFieldConnection: true, isPgManyRelationConnectionField: true },
        config: { description, type: connectionType, plan: ($row: any) => connection(select($row)) },
      },
    }),
  };
}

/** The rows of the target for which the junction has a row with the keys of both. Grafast joins this into the query of the row. */
function selectThrough($row: any, target: Resource, junction: Resource, { source, further }: ManyToMany) {
  const $target = pgSelect({ resource: target as any, identifiers: [] } as never);
  const row = sql.identifier(Symbol(junction.name));
  const column = (table: SQL, name: string) => sql`${table}.${sql.identifier(name)}`;
  const toSource = source.columns.map(
    ([own, other]) =>
      sql`${column(row, other)} = ${$target.placeholder($row.get(own), $row.getClassStep().resource.codec.attributes[own].codec)}`,
  );
  const toTarget = further.columns.map(([own, other]) => sql`${column(row, own)} = ${column($target.alias, other)}`);
  const conditions = sql.join([...toSource, ...toTarget], " and ");
  $target.where(sql`exists (select from ${junction.from as SQL} as ${row} where ${conditions})`);
  return $target;
}
