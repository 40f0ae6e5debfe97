import type {} from "postgraphile";

/** Columns that Postgres always assigns (`generated always as`, as identity or as an expression) are not inputs. */
export const GeneratedColumnsPlugin: GraphileConfig.Plugin = {
  name: "GeneratedColumnsPlugin",
  version: "1.0.0",
  gather: {
    hooks: {
      pgCodecs_attribute(_info, { pgAttribute, attribute }) {
        // attgenerated is s (stored) or v (virtual, since PostgreSQL 18); attidentity is a (always) or d (by default).
        const isAssigned = Boolean(pgAttribute.attgenerated) || pgAttribute.attidentity === "a";
        if (isAssigned) attribute.extensions = { ...attribute.extensions, isAssigned } as never;
      },
    },
  },
  schema: {
    entityBehavior: {
      pgCodecAttribute: {
        inferred: {
          after: ["inferred"],
          callback: (behavior, [codec, attribute]) =>
            (codec.attributes[attribute]!.extensions as { isAssigned?: boolean } | undefined)?.isAssigned
              ? [behavior, "-insert", "-update"]
              : behavior,
        },
      },
    },
  },
};
