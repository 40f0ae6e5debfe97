import { type PgCodec, type PgSelectSingleStep, TYPES } from "postgraphile/@dataplan/pg";
import { lambda, type Step } from "postgraphile/grafast";

export const FLOATS: ReadonlySet<PgCodec | undefined> = new Set<PgCodec>([TYPES.float, TYPES.float4]);

export const finite = ($value: Step) => lambda($value, (value) => (Number.isFinite(value) ? value : null), true);

/** NaN and infinity are null: neither JSON nor the type Float can represent them. */
export const FiniteFloatsPlugin: GraphileConfig.Plugin = {
  name: "FiniteFloatsPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      GraphQLObjectType_fields_field(field, build, { scope }) {
        const attribute = scope.pgFieldAttribute;
        if (!FLOATS.has(attribute?.codec) || !scope.pgCodec) return field;
        const [name] = Object.entries(scope.pgCodec.attributes ?? {}).find(([, other]) => other === attribute) ?? [];
        if (name === undefined) return field;
        const plan = ($row: PgSelectSingleStep) => finite($row.get(name));
        return { ...field, type: build.graphql.getNullableType(field.type), plan } as typeof field;
      },
    },
  },
};
