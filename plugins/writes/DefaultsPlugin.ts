import { withPgClientFromPgService } from "postgraphile/graphile-build-pg";
import type { GraphQLInputType } from "postgraphile/graphql";

type Constant = string | number | boolean;
type Constants = Readonly<Record<string, Constant>>;

/** A default as Postgres prints it: `{ owner: "16402", name: "status", expression: "'DRAFT'::public.post_status" }` */
type Default = { readonly owner: string; readonly name: string | null; readonly expression: string };

const COLUMN_DEFAULTS = `
  select d.adrelid::text as owner, a.attname as name, pg_get_expr(d.adbin, d.adrelid) as expression
  from pg_catalog.pg_attrdef as d
  join pg_catalog.pg_attribute as a on a.attrelid = d.adrelid and a.attnum = d.adnum`;

const PARAMETER_DEFAULTS = `
  select p.oid::text as owner, p.proargnames[n] as name, pg_get_function_arg_default(p.oid, n) as expression
  from pg_catalog.pg_proc as p, generate_series(1, p.pronargs) as n
  where p.pronargdefaults > 0 and pg_get_function_arg_default(p.oid, n) is not null`;

/**
 * `CreatePostInput.status: PostStatus = DRAFT`, `User.avatar(size: Int = 80)`: the constant default of a column is
 * the default of its input field, and that of a function's parameter is the default of its argument.
 */
export const DefaultsPlugin: GraphileConfig.Plugin = {
  name: "DefaultsPlugin",
  version: "1.0.0",
  after: ["PgCustomTypeFieldPlugin"],
  gather: {
    hooks: {
      // PostGraphile's introspection reports whether a column or parameter has a default, but not its value.
      async pgIntrospection_introspection(info, { introspection, serviceName }) {
        const service = info.resolvedPreset.pgServices!.find(({ name }) => name === serviceName)!;
        await withPgClientFromPgService(service, null, async (client) => {
          const columns = await client.query<Default>({ text: COLUMN_DEFAULTS });
          const parameters = await client.query<Default>({ text: PARAMETER_DEFAULTS });
          const ofTable = constantsByOwner(columns.rows);
          const ofFunction = constantsByOwner(parameters.rows);
          for (const attribute of introspection.attributes) {
            attribute.constantDefault = ofTable.get(attribute.attrelid)?.[attribute.attname];
          }
          for (const proc of introspection.procs) proc.constantDefaults = ofFunction.get(proc._id) ?? {};
        });
      },
      pgCodecs_attribute(_info, { pgAttribute, attribute }) {
        const inputDefault = pgAttribute.constantDefault;
        if (inputDefault !== undefined) attribute.extensions = { ...attribute.extensions, inputDefault } as never;
      },
      pgProcedures_PgResourceOptions(_info, { pgProc, resourceOptions }) {
        const argumentDefaults = pgProc.constantDefaults;
        resourceOptions.extensions = { ...resourceOptions.extensions, argumentDefaults } as never;
      },
    },
  },
  schema: {
    hooks: {
      build: {
        after: ["PgCustomTypeFieldPlugin"],
        callback(build) {
          const stock = build.pgGetArgDetailsFromParameters!;
          build.pgGetArgDetailsFromParameters = (resource, ...rest) => {
            const details = stock(resource, ...rest);
            const { argumentDefaults = {} } = (resource.extensions ?? {}) as { argumentDefaults?: Constants };
            return { ...details, makeFieldArgs: () => withDefaults(details.makeFieldArgs(), argumentDefaults) };
          };
          return build;
        },
      },
      GraphQLInputObjectType_fields_field(field, build, { scope }) {
        const value = (scope.pgAttribute?.extensions as { inputDefault?: Constant } | undefined)?.inputDefault;
        if (value === undefined || scope.isPgPatch || scope.isUpsert) return field;
        return fitsType(build, field.type, value) ? { ...field, defaultValue: value } : field;
      },
    },
  },
};

function constantsByOwner(defaults: readonly Default[]): Map<string, Constants> {
  const byOwner = new Map<string, Record<string, Constant>>();
  for (const { owner, name, expression } of defaults) {
    const value = parseConstant(expression);
    if (name === null || value === undefined) continue;
    const constants = byOwner.get(owner) ?? {};
    constants[name] = value;
    byOwner.set(owner, constants);
  }
  return byOwner;
}

/**
 * Parses a default that is a constant.
 *
 *   parseConstant("'DRAFT'::public.post_status")  // "DRAFT"
 *   parseConstant("10")                              // 10
 *   parseConstant("now()")                           // undefined
 */
function parseConstant(expression: string): Constant | undefined {
  const quoted = /^'([A-Za-z_]\w*)'::/.exec(expression);
  if (quoted) return quoted[1];
  if (/^-?\d{1,9}$/.test(expression)) return Number(expression);
  if (/^(true|false)$/.test(expression)) return expression === "true";
  return undefined;
}

type Arguments = { [name: string]: { type: GraphQLInputType; description?: string } };

const withDefaults = (args: Arguments, defaults: Constants): Arguments =>
  Object.fromEntries(
    Object.entries(args).map(([name, arg]) => [
      name,
      name in defaults ? { ...arg, defaultValue: defaults[name] } : arg,
    ]),
  );

/** Whether the default has the type of the input field. Other defaults, such as text, are not shown. */
function fitsType(build: GraphileBuild.Build, inputType: GraphQLInputType, value: Constant): boolean {
  const { GraphQLInt, GraphQLFloat, GraphQLBoolean, getNamedType, isEnumType } = build.graphql;
  const type = getNamedType(inputType);
  if (typeof value === "string") return isEnumType(type);
  if (typeof value === "boolean") return type === GraphQLBoolean;
  return type === GraphQLInt || type === GraphQLFloat;
}

declare module "pg-introspection" {
  interface PgAttribute {
    constantDefault?: Constant | undefined;
  }
  interface PgProc {
    constantDefaults?: Constants;
  }
}

declare global {
  namespace GraphileBuild {
    interface ScopeInputObject {
      /** Whether a row may exist, whose other columns stay. */
      isUpsert?: boolean;
    }

    interface ScopeInputObjectFieldsField {
      isPgPatch?: boolean;
    }
  }
}
