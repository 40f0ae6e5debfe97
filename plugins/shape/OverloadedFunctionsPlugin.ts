import type {} from "postgraphile";
import { type Catalog, type DatabaseFunction, type Role, type Table, tableOf } from "../../db/catalog/catalog.ts";
import { mayExecute, mayUseSchema } from "../../db/catalog/grants.ts";
import { type AbsentFields, withAbsent } from "./absent-fields.ts";
import type { PrivilegeSource } from "./PrivilegesPlugin.ts";
import { withoutTable } from "./RowFunctionsPlugin.ts";

/**
 * The types know the functions that they lack because several have one name: `Query.add` for add(a) and add(a, b), `Crate.label` for
 * two functions label whose first argument is a crate.
 */
export function overloadedFunctionsPlugin({
  catalog,
  rolesOf,
}: Pick<PrivilegeSource, "catalog" | "rolesOf">): GraphileConfig.Plugin {
  /** Of the build that runs now. */
  let overloads: readonly Overload[] = [];
  return {
    name: "OverloadedFunctionsPlugin",
    version: "1.0.0",
    after: ["PrivilegesPlugin"],
    gather: {
      hooks: {
        pgIntrospection_introspection(_info, { introspection }) {
          overloads = overloadsIn(catalog(), rolesOf(introspection.getCurrentUser()!.rolname));
        },
      },
    },
    schema: {
      hooks: {
        GraphQLObjectType(config, build, { scope: { isRootQuery, isRootMutation, isPgClassType, pgCodec } }) {
          const { schemaName, name } = pgCodec?.extensions?.pg ?? {};
          const isHere = ({ table, volatilities }: Overload) =>
            table
              ? isPgClassType && table.schema === schemaName && table.name === name
              : (isRootMutation && volatilities.has("volatile")) ||
                (isRootQuery && !volatilities.isSubsetOf(new Set(["volatile"])));
          const here = overloads.filter(isHere);
          return here.length === 0 ? config : withAbsent(config, () => here.map((each) => absentField(each, build)));
        },
      },
    },
  };
}

/** Functions with one name. `table` is that of whose rows they are fields. */
type Overload = {
  readonly name: string;
  readonly table: Table | undefined;
  readonly volatilities: ReadonlySet<DatabaseFunction["volatility"]>;
};

/** Those that no role may execute are not named. */
function overloadsIn(catalog: Catalog, roles: readonly Role[]): readonly Overload[] {
  return [...catalog.schemas.values()].flatMap((schema) => {
    const callers = roles.filter(({ name }) => mayUseSchema(catalog, name, schema));
    const isCallable = (each: DatabaseFunction) => callers.some(({ name }) => mayExecute(catalog, name, each));
    return [...schema.functions].flatMap(([name, namesakes]) =>
      [...Map.groupBy(namesakes, (each) => tableOfRow(each, catalog))]
        .filter(([, functions]) => functions.length > 1 && functions.some(isCallable))
        .map(([table, functions]) => ({
          ...{ name, table },
          volatilities: new Set(functions.map(({ volatility }) => volatility)),
        })),
    );
  });
}

/** Undefined for a function that is no field of rows. */
const tableOfRow = ({ volatility, arguments: [first] }: DatabaseFunction, catalog: Catalog): Table | undefined =>
  volatility === "volatile" || !first || first.shape.isArray ? undefined : tableOf(catalog, first.shape);

function absentField({ name, table }: Overload, { inflection }: GraphileBuild.Build): AbsentFields[number] {
  const reason = table
    ? `several functions of these rows have the name \`${name}\`. Rename all but one`
    : `several functions have the name \`${name}\`. Rename all but one, or call them at /rest/v1/rpc/${name}`;
  return [inflection.camelCase(table ? withoutTable(name, table.name) : name), { reason, instead: null }];
}
