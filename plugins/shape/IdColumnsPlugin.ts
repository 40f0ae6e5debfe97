import { type PgCodec, TYPES } from "postgraphile/@dataplan/pg";
import { exportAs } from "postgraphile/grafast";

const integerUpTo = (max: bigint) => (text: string) =>
  /^-?\d{1,19}$/.test(text) && BigInt(text) <= max && BigInt(text) >= -max - 1n;
const isUuid = (text: string) => /^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$/i.test(text);

/** A key that is written to a row. If it is not valid, Postgres says so. */
class WrittenId {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A codec that sends NULL for a text that is not a valid key, unless it is written: `post(id: "abc")` finds no row instead of failing. */
function idCodec(base: PgCodec, name: string, isValid: (text: string) => boolean): PgCodec {
  const toPg = (value: unknown) =>
    value instanceof WrittenId ? value.text : isValid(String(value)) ? String(value) : null;
  const codec = { ...base, name, toPg } as PgCodec;
  // All schemas share it. A codec without this mark would keep the first schema that uses it, for as long as the process runs.
  exportAs("content-service", codec, name);
  return codec;
}

export const ID_CODECS: ReadonlyMap<PgCodec, PgCodec> = new Map<PgCodec, PgCodec>([
  [TYPES.int2, idCodec(TYPES.int2, "smallintId", integerUpTo(2n ** 15n - 1n))],
  [TYPES.int, idCodec(TYPES.int, "intId", integerUpTo(2n ** 31n - 1n))],
  [TYPES.bigint, idCodec(TYPES.bigint, "bigintId", integerUpTo(2n ** 63n - 1n))],
  [TYPES.uuid, idCodec(TYPES.uuid, "uuidId", isUuid)],
]);

/**
 * `id: ID!`, `post(id: ID!)`: columns of a primary or foreign key, columns that foreign keys refer to, and parameters named `id` or
 * `…_id` have the scalar type ID, if they are integers or uuids.
 */
export const IdColumnsPlugin: GraphileConfig.Plugin = {
  name: "IdColumnsPlugin",
  version: "1.0.0",
  gather: {
    hooks: {
      pgCodecs_attribute(_info, { pgClass, pgAttribute, attribute }) {
        const { attnum } = pgAttribute;
        const isKey =
          pgClass
            .getConstraints()
            .some(({ contype, conkey }) => (contype === "p" || contype === "f") && conkey?.includes(attnum)) ||
          pgClass.getForeignConstraints().some(({ confkey }) => confkey?.includes(attnum));
        const id = isKey ? ID_CODECS.get(attribute.codec) : undefined;
        if (id) attribute.codec = id;
      },
      pgProcedures_functionResourceOptions(_info, { functionResourceOptions }) {
        useIds(functionResourceOptions.parameters);
      },
      pgProcedures_PgResourceOptions(_info, { resourceOptions }) {
        useIds(resourceOptions.parameters ?? []);
      },
    },
  },
  schema: {
    hooks: {
      init(_, build) {
        for (const codec of ID_CODECS.values()) build.setGraphQLTypeForPgCodec(codec, ["input", "output"], "ID");
        return _;
      },
      GraphQLInputObjectType_fields_field(field, _build, { scope: { isPgRowType, isPgCompoundType, pgAttribute } }) {
        if (!(isPgRowType || isPgCompoundType) || !isId.has(pgAttribute?.codec)) return field;
        const { apply } = field as { apply?: (row: Settable, ...given: unknown[]) => void };
        const writing = (row: Settable): Settable => ({ set: (column, id) => row.set(column, written(id)) });
        return { ...field, apply: (row: Settable, ...given: unknown[]) => apply?.(writing(row), ...given) };
      },
    },
  },
};

type Settable = { set(column: string, value: unknown): void };
const isId: ReadonlySet<unknown> = new Set(ID_CODECS.values());
const written = (id: unknown) => (id === null ? null : new WrittenId(String(id)));

type Parameter = { readonly name: string | null; codec: PgCodec };

function useIds(parameters: readonly { readonly name: string | null; readonly codec: PgCodec }[]): void {
  for (const parameter of parameters as readonly Parameter[]) {
    const id = /(^|_)id$/.test(parameter.name ?? "") ? ID_CODECS.get(parameter.codec) : undefined;
    if (id) parameter.codec = id;
  }
}
