import { resolvePreset } from "graphile-config";
import { buildInflection, gather, getBuilder } from "postgraphile/graphile-build";
import {
  GraphQLEnumType,
  GraphQLInputObjectType,
  GraphQLObjectType,
  GraphQLSchema,
  specifiedDirectives,
  validateSchema,
} from "postgraphile/graphql";
import { endOfSlice, mapYielding } from "../../db/catalog/event-loop.ts";
import { RootFields } from "./root-fields.ts";

type Builder = ReturnType<typeof getBuilder>;
type Build = GraphileBuild.Build;

/** Types of these classes are built one after the other. Interfaces, unions and scalars are few. */
const SLICED: readonly unknown[] = [GraphQLObjectType, GraphQLInputObjectType, GraphQLEnumType];
type SlicedType = GraphQLObjectType | GraphQLInputObjectType | GraphQLEnumType;

const hasMembers = (type: SlicedType): boolean =>
  Object.keys(type instanceof GraphQLEnumType ? type.getValues() : type.getFields()).length > 0;

/** Gathering reads the columns one after the other, and waits for these hooks. */
const SlicesPlugin: GraphileConfig.Plugin = {
  name: "SlicesPlugin",
  gather: { hooks: { pgCodecs_attribute: endOfSlice, pgRelations_relation: endOfSlice, pgCodecs_PgCodec: endOfSlice } },
};

export type MadeSchema = {
  readonly schema: GraphQLSchema;
  readonly resolvedPreset: GraphileConfig.ResolvedPreset;
};

/**
 * Builds the schema as `makeSchema` of PostGraphile does, in slices between which the event loop runs other work. PostGraphile builds
 * a type with all types that its fields lead to, which is nearly the whole schema. Here, each type is built for itself.
 */
export async function makeSchema(preset: GraphileConfig.Preset): Promise<MadeSchema> {
  const resolvedPreset = resolvePreset({ extends: [preset], plugins: [SlicesPlugin] });
  const inflection = buildInflection(resolvedPreset);
  const input = await gather(resolvedPreset, { inflection });
  const schema = await new SlicedTypes(getBuilder(resolvedPreset, inflection)).schema(input);
  return { schema, resolvedPreset };
}

class SlicedTypes {
  readonly #builder: Builder;
  /** The type whose members are built now. */
  #current: SlicedType | null = null;
  /** Types whose members are not built yet. */
  readonly #waiting: SlicedType[] = [];
  /** The types that use a type, by its name. */
  readonly #users = new Map<string, Set<SlicedType>>();
  /** Builds the members of a type again. */
  readonly #rebuild = new Map<SlicedType, () => void>();

  constructor(builder: Builder) {
    this.#builder = builder;
    builder.hook("build", (build) => this.#replaceGetter(build as Build));
  }

  async schema(input: GraphileBuild.BuildInput): Promise<GraphQLSchema> {
    const builder = this.#builder;
    const roots = new RootFields(builder);
    const build = builder.createBuild(input);
    await this.#init(build);
    for (const name of ["Query", "Mutation", "Subscription"] as const) {
      const type = build.getTypeByName(build.inflection.builtin(name));
      if (!(type instanceof GraphQLObjectType)) continue;
      this.#current = type;
      await roots.build(type);
    }
    await this.#buildMembers(build);
    const made = builder.newWithHooks(build, GraphQLSchema, { directives: [...specifiedDirectives] }, {});
    const schema = builder.applyHooks("finalize", made, build, { scope: {}, type: "finalize" });
    await validate(schema);
    return schema;
  }

  /** Runs the hooks that register types. */
  async #init(build: Build): Promise<void> {
    const { hooks } = this.#builder;
    const registering = hooks.init;
    await mapYielding(registering, (hook) => {
      hooks.init = [hook];
      this.#builder.applyHooks("init", {}, build, { scope: {}, type: "init" });
    });
    hooks.init = [];
    this.#builder.initBuild(build);
  }

  /** Builds the members of all types. A type without members is left out, and the types that use it are built again. */
  async #buildMembers(build: Build): Promise<void> {
    const waiting = this.#waiting;
    function* taken() {
      for (let type = waiting.pop(); type; type = waiting.pop()) yield type;
    }
    await mapYielding(taken(), (type) => {
      this.#current = type;
      const isEmpty = !hasMembers(type);
      this.#current = null;
      if (!isEmpty) return;
      build.getAllTypes()[type.name] = null as never;
      for (const user of this.#users.get(type.name)!) {
        this.#rebuild.get(user)!();
        waiting.push(user);
      }
    });
  }

  #replaceGetter(build: Build): Build {
    const getTypeByName = build.getTypeByName;
    build.getTypeByName = (name) => {
      const all = build.getAllTypes();
      const isBuilt = !build.status.isInitPhaseComplete || name in all;
      const registered = isBuilt ? null : build.getTypeMetaByName(name);
      if (SLICED.includes(registered?.Constructor)) all[name] = this.#newType(build, name, registered);
      if (this.#current !== null) this.#users.get(name)?.add(this.#current);
      return getTypeByName.call(build, name);
    };
    return build;
  }

  #newType(build: Build, name: string, { Constructor, specGenerator, scope }: any): SlicedType {
    const spec = { ...specGenerator(), name };
    const type: any = (this.#builder.newWithHooks as any)(build, Constructor, spec, scope);
    const members = Constructor === GraphQLEnumType ? "_values" : "_fields";
    const unbuilt = type[members];
    this.#rebuild.set(type, () => {
      type[members] = unbuilt;
    });
    this.#users.set(name, new Set());
    this.#waiting.push(type);
    return type;
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
