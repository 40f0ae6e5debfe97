import {
  context,
  list,
  type PgResource,
  type SQL,
  sideEffectWithPgClient,
  sql,
  sqlValueWithCodec,
} from "content-service/postgraphile";

/**
 * `deleteArticle` returns false to a caller who is not authenticated: the second variant of the contract. For them the
 * database is not queried; for every other caller the SQL function decides.
 */
export const DeleteAnonymousPlugin: GraphileConfig.Plugin = {
  name: "DeleteAnonymousPlugin",
  version: "1.0.0",
  after: ["MutationShapePlugin"],
  schema: {
    hooks: {
      GraphQLObjectType_fields_field(field, _build, { scope }) {
        const resource = scope.pgFieldResource as PgResource<any, any, any, any, any> | undefined;
        if (!scope.isRootMutation || scope.fieldName !== "deleteArticle" || !resource?.parameters) return field;
        const { executor, parameters } = resource;
        const from = resource.from as (id: { placeholder: SQL }) => SQL;
        return {
          ...field,
          plan(_$root, args) {
            const $input = list([args.getRaw("id"), context().get("anonymous" as never) as any]);
            return sideEffectWithPgClient(executor, $input, async (client, [id, anonymous]) => {
              if (anonymous) return false;
              const call = from({ placeholder: sqlValueWithCodec(id, parameters[0]!.codec) });
              const { rows } = await client.query<any>({ ...sql.compile(sql`select ${call}`), arrayMode: true });
              return rows[0][0] === "t";
            });
          },
        };
      },
    },
  },
};
