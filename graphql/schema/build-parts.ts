import type {} from "postgraphile/graphile-build";

const TABLES_OF_PART = 20;

/** The build for some tables each: hooks that add something for all tables in one turn, or search all for each, run for each part. */
export function partsOf(build: any): readonly GraphileBuild.Build[] {
  const codecs: [any, unknown][] = [...build.pgCodecMetaLookup];
  const resources = Map.groupBy(Object.entries<any>(build.pgResources), ([, { codec }]) => codec);
  return Array.from({ length: Math.ceil(codecs.length / TABLES_OF_PART) }, (_, n) => {
    const some = codecs.slice(n * TABLES_OF_PART, (n + 1) * TABLES_OF_PART);
    const ofPart = Object.fromEntries(some.flatMap(([codec]) => resources.get(codec) ?? []));
    return Object.create(build, {
      pgCodecMetaLookup: { value: new Map(some) },
      pgResources: { value: ofPart },
      input: { value: { ...build.input, pgRegistry: { ...build.input.pgRegistry, pgResources: ofPart } } },
    });
  });
}
