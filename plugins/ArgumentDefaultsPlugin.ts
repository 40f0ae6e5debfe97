import { withPgClientFromPgService } from "postgraphile/graphile-build-pg";
import type { GraphQLInputType } from "postgraphile/graphql";
import { constantOf } from "./constants.ts";

type ArgumentDefaults = Readonly<Record<string, string | number | boolean>>;
type Default = { oid: string; name: string; expression: string };

/** `User.avatar(size: Int = 80)`: the plain default of a function's parameter is the default of the argument. */
export const ArgumentDefaultsPlugin: GraphileConfig.Plugin = {
  name: "ArgumentDefaultsPlugin",
  version: "1.0.0",
  after: ["PgCustomTypeFieldPlugin"],
  gather: {
    hooks: {
      // Stock introspection knows how many parameters have a default, not which one.
      async pgIntrospection_introspection(info, { introspection, serviceName }) {
        const service = info.resolvedPreset.pgServices!.find(({ name }) => name === serviceName)!;
        const { rows } = await withPgClientFromPgService(service, null, (client) =>
          client.query<Default>({
            text: `select p.oid::text, p.proargnames[n] as name, pg_get_function_arg_default(p.oid, n) as expression
                   from pg_catalog.pg_proc as p, generate_series(1, p.pronargs) as n
                   where p.pronargdefaults > 0 and pg_get_function_arg_default(p.oid, n) is not null`,
          }),
        );
        for (const proc of introspection.procs)
          proc.argumentDefaults = defaultsOf(rows.filter(({ oid }) => oid === proc._id));
      },
      pgProcedures_PgResourceOptions(_info, { pgProc, resourceOptions }) {
        resourceOptions.extensions = {
          ...resourceOptions.extensions,
          argumentDefaults: pgProc.argumentDefaults,
        } as never;
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
            const { argumentDefaults = {} } = (resource.extensions ?? {}) as { argumentDefaults?: ArgumentDefaults };
            return { ...details, makeFieldArgs: () => withDefaults(details.makeFieldArgs(), argumentDefaults) };
          };
          return build;
        },
      },
    },
  },
};

type Arguments = { [name: string]: { type: GraphQLInputType; description?: string } };

const withDefaults = (args: Arguments, defaults: ArgumentDefaults): Arguments =>
  Object.fromEntries(
    Object.entries(args).map(([name, arg]) => [
      name,
      name in defaults ? { ...arg, defaultValue: defaults[name] } : arg,
    ]),
  );

function defaultsOf(rows: readonly Default[]): ArgumentDefaults {
  const constants = rows.map(({ name, expression }) => [name, constantOf(expression)] as const);
  return Object.fromEntries(
    constants.filter(([name, value]) => name !== null && value !== undefined),
  ) as ArgumentDefaults;
}

declare module "pg-introspection" {
  interface PgProc {
    argumentDefaults?: ArgumentDefaults;
  }
}
