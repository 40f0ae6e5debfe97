import { resolvePreset } from "graphile-config";
import { buildInflection, gather, getBuilder } from "postgraphile/graphile-build";
import {
  GraphQLEnumType,
  GraphQLInputObjectType,
  GraphQLObjectType,
  GraphQLSchema,
  isObjectType,
  specifiedDirectives,
  validateSchema,
} from "postgraphile/graphql";
import { cpuTime, endOfSlice, mapYielding } from "../../db/catalog/event-loop.ts";
import { partsOf } from "./build-parts.ts";
import { RootFields } from "./root-fields.ts";

type Builder = ReturnType<typeof getBuilder>;
type Build = GraphileBuild.Build;

/** Types of these classes are built one after the other. Interfaces, unions and scalars are few. */
const SLICED: readonly unknown[] = [GraphQLObjectType, GraphQLInputObjectType, GraphQLEnumType];
type SlicedType = GraphQLObjectType | GraphQLInputObjectType | GraphQLEnumType;

const hasMembers = (type: SlicedType): boolean =>
  Object.keys(type instanceof GraphQLEnumType ? type.getValues() : type.getFields()).length > 0;

/** Gathering reads the tables and columns one after the other, and waits for these hooks. */
const SlicesPlugin: GraphileConfig.Plugin = {
  name: "SlicesPlugin",
  gather: {
    hooks: {
      pgIntrospection_introspection: endOfSlice,
      pgIntrospection_class: { before: ["PgTablesPlugin"], callback: endOfSlice },
      pgCodecs_attribute: { before: ["PrivilegesPlugin"], callback: endOfSlice },
      pgRelations_relation: endOfSlice,
      pgCodecs_PgCodec: endOfSlice,
    },
  },
};

export type MadeSchema = {
  readonly schema: GraphQLSchema;
  readonly resolvedPreset: GraphileConfig.ResolvedPreset;
};

/**
 * Builds the schema as `makeSchema` of PostGraphile does, in slices between which the event loop runs other work. PostGraphile builds
 * a type with all types that its fields lead to, which is nearly the whole schema, and leaves out those that have no fields or throw.
 * Here, each type is built for itself, so others may already use a type that cannot be built. Then all is built again without it.
 */
export async function makeSchema(preset: GraphileConfig.Preset): Promise<MadeSchema> {
  const resolvedPreset = resolvePreset({
    extends: [preset],
    plugins: [SlicesPlugin],
    // GraphQLSchema collects them too, and in the same order.
    disablePlugins: ["CollectReferencedTypesPlugin"],
  });
  const inflection = buildInflection(resolvedPreset);
  const input = await gather(resolvedPreset, { inflection });
  const absent: Absent = new Map();
  for (let isAhead = true; ; ) {
    const types = new SlicedTypes(getBuilder(resolvedPreset, inflection), absent);
    const schema = await types.schema(input, isAhead);
    if (schema) return { schema, resolvedPreset };
    isAhead &&= !types.hasThrownAhead;
  }
}

/** Plugins that register something for each table. */
const BY_TABLE: readonly unknown[] = [
  "PgTablesPlugin",
  "PgConnectionArgFilterBackwardRelationsPlugin",
  "AggregatesPlugin",
];

/** By the name of a type that cannot be built: the error, or null if it has no members. */
type Absent = Map<string, unknown>;

/** A type is built together with those that it uses, and what they use, but for at most so many microseconds of CPU. */
const MAX_DEPTH = 3;
const MAX_SLICE = 20_000;

class SlicedTypes {
  readonly #builder: Builder;
  readonly #roots: RootFields;
  /** Known before. The first use of the type throws the error. */
  readonly #absent: Absent;
  /** Where those are added that turn out to be absent. */
  readonly #found: Absent;
  /** Types whose members are not built yet. */
  readonly #waiting: SlicedType[] = [];
  /** How many types use each other, of those that are built now. */
  #depth = 0;
  #sliceStart = 0;
  #isAhead = false;
  /** Whether a type threw that was built ahead of its first use, which is to throw. */
  hasThrownAhead = false;

  constructor(builder: Builder, absent: Absent) {
    this.#builder = builder;
    this.#roots = new RootFields(builder, () => this.#beginSlice());
    this.#absent = new Map(absent);
    this.#found = absent;
    builder.hook("build", (build) => this.#replaceGetter(build as Build));
  }

  /**
   * Resolves to null if a type that is used is absent, or throws ahead of its use. `isAhead`: whether the types of tables are built before
   * the root types, whose hooks ask for all of them in one turn.
   */
  async schema(input: GraphileBuild.BuildInput, isAhead: boolean): Promise<GraphQLSchema | null> {
    const builder = this.#builder;
    const known = this.#absent.size;
    const build = builder.createBuild(input);
    await this.#init(build);
    this.#isAhead = isAhead;
    if (isAhead) await mapYielding(build.allPgCodecs ?? [], (codec) => this.#buildAhead(build, codec));
    this.#isAhead = false;
    if (this.hasThrownAhead) return null;
    for (const name of this.#rootNames(build)) {
      await endOfSlice();
      const type = this.#absent.has(name) ? null : build.getTypeByName(name);
      if (type instanceof GraphQLObjectType)
        await this.#roots.build(type).catch((error) => this.#found.set(name, error));
    }
    await this.#buildMembers();
    if (this.#found.size > known) return null;
    await mapYielding(Object.values(build.getAllTypes()), (type) => isObjectType(type) && type.getInterfaces());
    await endOfSlice();
    const made = await this.#made(build);
    // Those that only an interface uses.
    await this.#buildMembers();
    if (this.#found.size > known) return null;
    await endOfSlice();
    const schema = builder.applyHooks("finalize", made, build, { scope: {}, type: "finalize" });
    await validate(schema);
    return schema;
  }

  /** As `newWithHooks` of PostGraphile. */
  async #made(build: Build): Promise<GraphQLSchema> {
    const context = { type: "GraphQLSchema", scope: {} } as const;
    const config = this.#builder.applyHooks("GraphQLSchema", { directives: [...specifiedDirectives] }, build, context);
    await endOfSlice();
    let types = [...(config.types ?? [])];
    await mapYielding(this.#builder.hooks.GraphQLSchema_types, (hook) => {
      types = hook(types, build, { ...context, config });
    });
    await endOfSlice();
    return new GraphQLSchema({ ...config, types });
  }

  /** Runs the hooks that register types. */
  async #init(build: Build): Promise<void> {
    const { hooks } = this.#builder;
    const registering = hooks.init;
    for (const hook of registering) {
      hooks.init = [hook];
      const parts = BY_TABLE.includes(hook.displayName?.split("/")[0]) ? partsOf(build) : [build];
      await mapYielding(parts, (part) => this.#builder.applyHooks("init", {}, part, { scope: {}, type: "init" }));
    }
    hooks.init = [];
    this.#builder.initBuild(build);
  }

  #buildAhead(build: Build, codec: any): void {
    if (!codec.attributes || this.hasThrownAhead) return;
    this.#beginSlice();
    const connection = build.inflection.tableConnectionType(codec);
    const ofRows = (["output", "input", "patch"] as const).map((each) =>
      build.getGraphQLTypeNameByPgCodec(codec, each),
    );
    for (const name of [...ofRows, build.getTypeMetaByName(connection) ? connection : null]) {
      if (!name || this.#absent.has(name)) continue;
      try {
        build.getTypeByName(name);
      } catch {
        this.hasThrownAhead = true;
      }
    }
  }

  async #buildMembers(): Promise<void> {
    const waiting = this.#waiting;
    function* taken() {
      for (let type = waiting.pop(); type; type = waiting.pop()) yield type;
    }
    await mapYielding(taken(), (type) => {
      if (this.#found.has(type.name)) return;
      this.#beginSlice();
      try {
        if (!hasMembers(type)) this.#found.set(type.name, null);
      } catch (error) {
        this.#found.set(type.name, error);
      }
    });
  }

  #replaceGetter(build: Build): Build {
    const getTypeByName = build.getTypeByName;
    build.getTypeByName = (name) => {
      const all: Record<string, unknown> = build.getAllTypes();
      if (!build.status.isInitPhaseComplete || name in all) {
        if (all[name] === null) this.#throwOnce(name);
        return getTypeByName.call(build, name);
      }
      const registered = build.getTypeMetaByName(name);
      if (this.#absent.has(name) || SLICED.includes(registered?.Constructor)) all[name] = null;
      if (this.#absent.has(name)) this.#throwOnce(name);
      else if (name in all) this.#addType(build, name, registered);
      return getTypeByName.call(build, name);
    };
    return build;
  }

  /** The hooks that name fields run again: the error is for the second run. */
  #throwOnce(name: string): void {
    const error = this.#absent.get(name);
    if (!error) return;
    if (!this.#roots.isNaming) this.#absent.set(name, null);
    throw error;
  }

  #addType(build: Build, name: string, { Constructor, specGenerator, scope }: any): void {
    const all: Record<string, unknown> = build.getAllTypes();
    const spec = { ...specGenerator(), name };
    const type: SlicedType = (this.#builder.newWithHooks as any)(build, Constructor, spec, scope);
    all[name] = type;
    if (this.#rootNames(build).includes(name) || !this.#isBuiltAtOnce(type)) {
      this.#waiting.push(type);
      return;
    }
    this.#depth++;
    try {
      if (!hasMembers(type)) all[name] = null;
    } catch (error) {
      all[name] = null;
      this.hasThrownAhead ||= this.#isAhead;
      throw error;
    } finally {
      this.#depth--;
    }
  }

  #rootNames(build: Build): readonly string[] {
    return (["Query", "Mutation", "Subscription"] as const).map((each) => build.inflection.builtin(each));
  }

  /** Whether the type is small enough to learn now whether it has members. */
  #isBuiltAtOnce(type: SlicedType): boolean {
    if (this.#roots.isNaming) return this.#depth === 0 && type instanceof GraphQLInputObjectType;
    return this.#depth < MAX_DEPTH && cpuTime() - this.#sliceStart < MAX_SLICE;
  }

  #beginSlice(): void {
    this.#sliceStart = cpuTime();
  }
}

const CHECKED_TOGETHER = 100;

/** As `validateSchema`, in slices. Throws the first error. */
async function validate(schema: GraphQLSchema): Promise<void> {
  const types = Object.entries(schema.getTypeMap());
  const slices = Array.from({ length: Math.ceil(types.length / CHECKED_TOGETHER) }, (_, n) =>
    Object.fromEntries(types.slice(n * CHECKED_TOGETHER, (n + 1) * CHECKED_TOGETHER)),
  );
  await mapYielding(slices, (slice) => {
    const part = Object.create(schema, {
      getTypeMap: { value: () => slice },
      __validationErrors: { value: undefined, writable: true },
    });
    const [error] = validateSchema(part);
    if (error) throw error;
  });
  schema.__validationErrors = [];
}
