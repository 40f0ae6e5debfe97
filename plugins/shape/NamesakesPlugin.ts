import type {} from "postgraphile";

/**
 * Functions and types with the name of a table or view get another name, where PostGraphile would refuse to build the schema: the
 * function `planets()` beside the table `planets` is `planetsFunction`, the enum `mood` beside the view `moods` is `MoodType`. The
 * smart tag `@name` gives a better name.
 */
export const NamesakesPlugin: GraphileConfig.Plugin = {
  name: "NamesakesPlugin",
  version: "1.0.0",
  after: ["smart-tags"],
  inflection: {
    replace: {
      functionResourceName(previous, _options, details) {
        const { pgProc } = details;
        const isNamed = typeof pgProc.getTags().name === "string";
        return pgProc.isNamedLikeTable && !isNamed ? `${previous!(details)}_function` : previous!(details);
      },
    },
  },
  gather: {
    hooks: {
      pgIntrospection_introspection({ inflection }, { introspection }) {
        const tables = introspection.classes.filter(({ relkind }) => "rvmfp".includes(relkind));
        const key = (namespace: string, name: string) => `${namespace} ${name}`;
        const names = new Set(tables.map(({ relnamespace, relname }) => key(relnamespace, relname)));
        for (const proc of introspection.procs) {
          proc.isNamedLikeTable = names.has(key(proc.pronamespace, proc.proname));
        }
        const typeNames = new Set(
          tables.map(({ relname }) => inflection.upperCamelCase(inflection.singularize(relname))),
        );
        for (const type of introspection.types) {
          const { tags } = type.getTagsAndDescription();
          const isOwn = type.typtype === "e" || type.typtype === "d";
          if (isOwn && !tags.name && typeNames.has(inflection.upperCamelCase(type.typname)))
            tags.name = `${type.typname}_type`;
        }
      },
    },
  },
};

declare module "pg-introspection" {
  interface PgProc {
    isNamedLikeTable?: boolean;
  }
}
