import type { getBuilder } from "postgraphile/graphile-build";
import type { GraphQLObjectType } from "postgraphile/graphql";
import { endOfSlice, mapYielding } from "../../db/catalog/event-loop.ts";
import { partsOf } from "./build-parts.ts";

type FieldWithHooks = (scope: { readonly fieldName: string }, spec: unknown) => object;
/** Returns the field, or throws. */
type Make = () => object;
type FieldsHook = ReturnType<typeof getBuilder>["hooks"]["GraphQLObjectType_fields"][number];
type Arguments = Parameters<FieldsHook>;

/**
 * Builds a type with fields for all tables, such as `Query`, in slices. A hook adds the fields of all tables in one turn, so each hook has
 * a turn of its own, or several, and they run twice: first they name the fields, each of which is then built in its slice, and then they add what was
 * built.
 */
export class RootFields {
  /** The type that is built now. */
  #type: GraphQLObjectType | null = null;
  /** The arguments of its hooks. */
  #given: Arguments | null = null;
  /** Returns what its hooks have returned, or throws their error. */
  #result: (() => Arguments[0]) | null = null;
  /** Whether the hooks only name the fields. */
  isNaming = false;
  #named: (readonly [name: string, make: Make])[] = [];
  /** What was built for each name, in the order of the calls. */
  #built = new Map<string, Make[]>();
  readonly #fields = new WeakSet<object>();
  readonly #hooks: readonly FieldsHook[];
  readonly #onField: () => void;

  constructor(builder: ReturnType<typeof getBuilder>, onField: () => void) {
    this.#onField = onField;
    this.#hooks = builder.hooks.GraphQLObjectType_fields;
    const ofOtherTypes = this.#hooks.map(
      (hook): FieldsHook =>
        (...given) =>
          given[2].Self === this.#type ? given[0] : hook(...given),
    );
    const first: FieldsHook = (...given) => (given[2].Self === this.#type ? this.#take(given) : given[0]);
    builder.hooks.GraphQLObjectType_fields = [first, ...ofOtherTypes];
  }

  async build(type: GraphQLObjectType): Promise<void> {
    [this.#type, this.#given, this.#result] = [type, null, null];
    [this.#named, this.#built] = [[], new Map()];
    await endOfSlice();
    const given = this.#begin(type);
    this.isNaming = true;
    await this.#run(given).catch(() => {
      // It is thrown again when the fields are added.
      this.#named = [];
    });
    this.isNaming = false;
    await mapYielding(this.#named, ([name, make]) => {
      this.#built.set(name, [...(this.#built.get(name) ?? []), this.#made(make)]);
    });
    this.#result = await this.#run(given).then(
      (fields) => () => fields,
      (error) => () => {
        throw error;
      },
    );
    await endOfSlice();
    type.getFields();
    this.#type = null;
  }

  /** Returns the arguments of the hooks of the type. */
  #begin(type: GraphQLObjectType): Arguments {
    try {
      type.getFields();
    } catch (error) {
      if (!this.#given) throw error;
    }
    return this.#given!;
  }

  #take(given: Arguments): Arguments[0] {
    Object.assign(given[2], { fieldWithHooks: this.#adding(given[2].fieldWithHooks as never) });
    if (this.#result) return this.#result();
    this.#given = given;
    throw new Error("the hooks run in turns of their own");
  }

  async #run([fields, build, context]: Arguments): Promise<Arguments[0]> {
    // The hooks add to it.
    let added = Object.assign(Object.create(Object.getPrototypeOf(fields)), fields);
    for (const hook of this.#hooks) {
      const parts = BY_TABLE.test(hook.displayName ?? "") ? partsOf(build) : [build];
      await mapYielding(parts, (part) => {
        added = hook(added, part, context);
      });
    }
    return added;
  }

  #adding(build: FieldWithHooks): FieldWithHooks {
    return (scope, spec) => {
      if (this.isNaming) {
        this.#named.push([scope.fieldName, () => build(scope, spec)]);
        return {};
      }
      const built = this.#built.get(scope.fieldName)?.shift();
      if (built) return built();
      // PostGraphile passes all fields again at the end.
      if (this.#fields.has(spec as object)) return spec as object;
      const field = build(scope, spec);
      this.#fields.add(field);
      return field;
    };
  }

  #made(make: Make): Make {
    this.#onField();
    try {
      const field = make();
      this.#fields.add(field);
      return () => field;
    } catch (error) {
      return () => {
        throw error;
      };
    }
  }
}

/** Hooks that add fields table by table, so that they can run for some tables at a time. */
const BY_TABLE = /^(PgAllRows|PgRowByUnique|TableMutations|TableSubscriptions)Plugin\//;
